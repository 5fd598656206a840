"""A delivered message, or a batch of them, and the methods to acknowledge or release it.

# Invariant

An envelope, or a batch, belongs to exactly one acquisition, whose lock it holds. A message that was updated has no
lock, and one that was taken over has another. So a late call changes nothing and returns False.

Source: ``AckEnvelope`` of funfix ``delayedqueue``; ``nack``, ``extend``, ``ack_some`` and attempts are drainq's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from drainq.arguments import Seconds
from drainq.delayed.coroutines import twin
from drainq.delayed.message import DeliveryType, from_ms
from drainq.delayed.storage.records import Held, Row
from drainq.delayed.storage_session import Session
from drainq.pickling import refuse

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

_SHOWN = 5  # messages that a log line names


class Leased:
    """The calls that an :class:`AckEnvelope` and an :class:`AckBatch` share.

    As a context manager it acknowledges its messages at the end of the block, or releases them if the block raises.

    Attributes:
        source: the name of the queue.
        revoked: whether ``consume`` has found, when it extended the lease, that the message was dropped, released,
            updated or taken over, or has given the message back at the end of the grace or of the time limit. A long
            handler can check it and end early.
    """

    def __init__(self, session: Session, rows: Sequence[Row], lock: str | None, polled_at: int) -> None:
        self._session = session
        self._rows = list(rows)
        self._lock = lock
        self._settled = self.revoked = False
        self._polled_at = polled_at
        self.source: str = session.source

    @property
    def timestamp(self) -> datetime:
        """The time of the poll by the queue's clock, in UTC."""
        return from_ms(self._polled_at)

    @property
    def delivery_type(self) -> DeliveryType:
        """REDELIVERY if any of the messages was delivered before, else FIRST_DELIVERY."""
        return (
            DeliveryType.REDELIVERY if DeliveryType.REDELIVERY in self.delivery_types else DeliveryType.FIRST_DELIVERY
        )

    @property
    def delivery_types(self) -> list[DeliveryType]:
        """Return for each message whether it was delivered before."""
        before = 0 if self._lock is None else 1  # this delivery is counted already
        return [DeliveryType.REDELIVERY if row.attempts > before else DeliveryType.FIRST_DELIVERY for row in self._rows]

    def ack(self, *, connection: Any = None) -> bool:
        """Acknowledge the message, which deletes it.

        Args:
            connection: your own connection to the same database, as for an offer. The acknowledgement is part of your
                transaction, with your other writes, and takes effect when you commit.

        Returns:
            True if all messages were still leased and are deleted now. False if a message was updated, taken over or
            removed in the meantime; this call leaves such a message alone. True for an empty batch.

        Raises:
            ValueError: ``connection`` with a message that was only read, with a queue in memory, or with ``history``.
        """
        self._settled = True
        if not self._rows:
            return True
        if connection is not None:
            if self._lock is None:
                raise ValueError("a message that was only read cannot be acknowledged in your transaction: poll it")
            return self._session.ack_within(self._held(), connection) == len(self._rows)
        if self._lock is None:
            deleted = self._session.call(self._session.storage.delete_unchanged, self._session.kind, self._rows[0])
            self._session.made_room()
            return deleted
        return self._session.ack(self._held()) == len(self._rows)

    def nack(self, delay: Seconds = 0.0, error: BaseException | str | None = None) -> bool:
        """Release the message, to be delivered again.

        Args:
            delay: seconds until it is due again.
            error: the reason, which is stored with the message and shown in its dead letter.

        Returns:
            True if all messages were still leased. After the queue's ``max_attempts`` a message becomes a dead letter.
        """
        self._settled = True
        due_at = self._session.after(delay, "delay")
        if self._lock is None:
            return not self._rows
        session = self._session
        return session.nack(self._lock, self._rows, due_at, error, session.max_attempts) == len(self._rows)

    def extend(self, seconds: Seconds) -> bool:
        """Move the end of the lease to ``seconds`` from now.

        Returns:
            True if all messages were still leased.
        """
        until = self._session.after(seconds, "seconds")
        if self._lock is None or not self._rows:
            return not self._rows
        return self._each(self._session.storage.extend, self._held(), until)

    def snooze(self, delay: Seconds) -> bool:
        """Put the message off. This delivery does not count as an attempt.

        Args:
            delay: seconds until it is due again; that time replaces the due time of its offer.

        Returns:
            True if all messages were still leased.

        Example:
            >>> from drainq.delayed import DelayedQueue
            >>> with DelayedQueue.open("memory:", "mail") as queue:
            ...     _ = queue.offer("welcome/ann", "Hello Ann")
            ...     queue.poll().snooze(0), queue.poll().attempt
            (True, 1)
        """
        self._settled = True
        due_at = self._session.after(delay, "delay")
        if self._lock is None:
            return not self._rows
        return self._session.release(self._held(), due_at) == len(self._rows)

    ack_async = twin(ack)
    snooze_async = twin(snooze)
    nack_async = twin(nack)
    extend_async = twin(extend)

    def _held(self) -> Held:
        assert self._lock is not None, "only a polled envelope holds anything"
        return Held(self._lock, tuple(row.id for row in self._rows))

    def _each(self, call: Callable[..., int], held: Held, *more: Any) -> bool:
        return self._session.call(call, self._session.kind, held, *more) == len(held.ids)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._settled:
            return
        if error is None:
            self.ack()
        elif isinstance(error, Exception) or self._lock is None:
            self.nack(error=error)
        elif self._rows:  # Ctrl-C, or a cancelled coroutine: this delivery does not count
            self._session.release(self._held())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *of_block: Any) -> None:
        await self._session.calls.run(self.__exit__, *of_block)

    def __reduce__(self) -> NoReturn:
        refuse(self, "it belongs to the process that polled it", "its payload and message_id")

    def shown(self) -> str:
        """Name the messages in a log line: by their keys if the queue may show values, else by their rows' ids."""
        if self._session.log_values:
            return f"message {', '.join(repr(row.key) for row in self._rows)}"
        return f"message {', '.join(f'#{row.id}' for row in self._rows[:_SHOWN])}{', ...' * (len(self._rows) > _SHOWN)}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.shown()} from {self.source!r}>"


class AckEnvelope(Leased, Generic[T]):
    """A leased message. It is delivered again unless it is acknowledged before its lease ends.

    As a context manager it acknowledges the message at the end of the block, or releases it if the block raises.

    Attributes:
        payload: the payload.
        message_id: the key.

    Example:
        >>> from drainq.delayed import DelayedQueue
        >>> with DelayedQueue.open("memory:", "mail") as queue:
        ...     _ = queue.offer("welcome/ann", "Hello Ann")
        ...     with queue.poll() as envelope:
        ...         print(envelope.payload)
        ...     queue.contains_message("welcome/ann")
        Hello Ann
        False
    """

    def __init__(self, session: Session, payload: T, row: Row, lock: str | None, polled_at: int) -> None:
        super().__init__(session, (row,), lock, polled_at)
        self.payload: T = payload
        self.message_id: str = row.key

    @property
    def schedule_at(self) -> datetime:
        """The offered due time, in UTC."""
        return from_ms(self._rows[0].scheduled_at)

    @property
    def attempt(self) -> int:
        """The number of this delivery, from 1. A message that was only read counts earlier deliveries."""
        return self._rows[0].attempts


class AckBatch(Leased, Generic[T]):
    """Leased messages that are acknowledged as one. Each list has one entry for a message, in the same order.

    As a context manager it acknowledges the messages at the end of the block, or releases them if the block raises.

    Attributes:
        payload: the payloads.
        message_id: the keys.
    """

    def __init__(
        self, session: Session, payload: list[T], rows: Sequence[Row], lock: str | None, polled_at: int
    ) -> None:
        super().__init__(session, rows, lock, polled_at)
        self.payload: list[T] = payload
        self.message_id: list[str] = [row.key for row in rows]

    @property
    def schedule_at(self) -> list[datetime]:
        """The offered due times, in UTC, of the messages that were not acknowledged."""
        return [from_ms(row.scheduled_at) for row in self._rows]

    @property
    def attempt(self) -> list[int]:
        """The numbers of this delivery, from 1, of the messages that were not acknowledged."""
        return [row.attempts for row in self._rows]

    def ack_some(self, keys: Iterable[str]) -> bool:
        """Acknowledge these messages of the batch. The others stay leased.

        Args:
            keys: keys of messages in this batch.

        Returns:
            True if all of them were still leased and are deleted now.

        Raises:
            KeyError: a key is not in this batch, or was acknowledged before.
        """
        wanted = set(keys)
        unknown = wanted.difference(row.key for row in self._rows)
        if unknown:
            raise KeyError(f"{len(unknown)} of the {len(wanted)} keys are not in this envelope")
        if self._lock is None:  # an empty batch
            return True
        done = [row for row in self._rows if row.key in wanted]
        self._rows = [row for row in self._rows if row.key not in wanted]
        return not done or self._session.ack(Held(self._lock, tuple(row.id for row in done))) == len(done)

    ack_some_async = twin(ack_some)
