"""A delivered message, or a batch of them, and what its consumer may say about it.

# Invariant

An envelope speaks for exactly one acquisition: it names the lock it was given. What was updated, or taken over after
the lease ran out, carries another lock, so a late call changes nothing and returns False.

Source: ``AckEnvelope`` of funfix ``delayedqueue``; ``nack``, ``extend``, ``ack_some`` and attempts are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Generic, NoReturn, TypeVar

from drainq.arguments import Seconds
from drainq.delayed.message import DeliveryType, from_ms
from drainq.delayed.storage.records import Held, Row
from drainq.delayed.storage_session import Session
from drainq.pickling import refuse

T = TypeVar("T")

_SHOWN = 5  # messages that a log line names


class AckEnvelope(Generic[T]):
    """A message on loan: it comes back unless it is acknowledged before its lease runs out.

    As a context manager it acknowledges at the end of the block, and gives the message back if the block raises.

    Attributes:
        payload: the message; of a batch a list.
        message_id: its key; of a batch a list of keys.
        timestamp: when it was polled, by the queue's clock, in UTC.
        source: names the queue it came from.
        schedule_at: when it was offered for, in UTC; of a batch a list.
        delivery_type: whether it, or any message of the batch, was delivered before.
        attempt: which delivery this is: 1 for the first; of a batch a list.

    Example:
        >>> from drainq.delayed import DelayedQueue
        >>> with DelayedQueue.open("memory:", "mail") as queue:
        ...     _ = queue.offer_or_update("welcome/ann", "Hello Ann", 0)
        ...     with queue.poll() as envelope:
        ...         print(envelope.payload)
        ...     queue.contains_message("welcome/ann")
        Hello Ann
        False
    """

    def __init__(
        self,
        session: Session,
        payload: Any,
        rows: Sequence[Row],
        lock: str | None,
        timestamp: datetime,
        *,
        many: bool,
    ) -> None:
        self._session = session
        self._rows = list(rows)
        self._lock = lock
        self._many = many
        self._settled = False
        self.payload: T = payload
        self.message_id: Any = self._of_each([row.key for row in rows])
        self.timestamp = timestamp
        self.source: str = session.source

    @property
    def schedule_at(self) -> Any:
        """When the message was offered for, as an aware datetime in UTC; of a batch a list."""
        return self._of_each([from_ms(row.scheduled_at) for row in self._rows])

    @property
    def attempt(self) -> Any:
        """Which delivery this is, from 1; of a batch a list. A message that was only read counts those so far."""
        return self._of_each([row.attempts for row in self._rows])

    @property
    def delivery_type(self) -> DeliveryType:
        """REDELIVERY if any of its messages was delivered before."""
        return (
            DeliveryType.REDELIVERY if DeliveryType.REDELIVERY in self.delivery_types else DeliveryType.FIRST_DELIVERY
        )

    @property
    def delivery_types(self) -> list[DeliveryType]:
        """For each message whether it was delivered before."""
        before = 0 if self._lock is None else 1  # our own delivery is counted already
        return [DeliveryType.REDELIVERY if row.attempts > before else DeliveryType.FIRST_DELIVERY for row in self._rows]

    def ack(self, *, connection: Any = None) -> bool:
        """Done: delete the message.

        Args:
            connection: your own ``sqlite3`` or ``psycopg`` connection to the same database: the acknowledgement is part
                of your transaction, beside what you write because of the message, and happens if you commit it.

        Returns:
            True if all of it was still ours and is gone now. False if something was updated, taken over or removed
            in the meantime: that stays as it is. An empty batch has nothing to lose: True.

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
            return self._session.call(self._session.storage.delete_unchanged, self._session.kind, self._rows[0])
        return self._session.ack(self._held()) == len(self._rows)

    def ack_some(self, keys: Iterable[str]) -> bool:
        """Done with these messages of the batch; the rest stays on loan.

        Args:
            keys: keys of messages in this envelope.

        Returns:
            True if all of them were still ours and are gone now.

        Raises:
            KeyError: a key is not in this envelope, or was acknowledged before.
        """
        wanted = set(keys)
        unknown = wanted.difference(row.key for row in self._rows)
        if unknown:
            raise KeyError(f"{len(unknown)} of the {len(wanted)} keys are not in this envelope")
        if self._lock is None:
            return self.ack() if wanted else True
        done = [row for row in self._rows if row.key in wanted]
        self._rows = [row for row in self._rows if row.key not in wanted]
        return not done or self._session.ack(Held(self._lock, tuple(row.id for row in done))) == len(done)

    def nack(self, delay: Seconds = 0.0, error: BaseException | str | None = None) -> bool:
        """Give the message back, to be delivered again.

        Args:
            delay: seconds until it is due again.
            error: why; it is kept with the message and shown among the dead letters.

        Returns:
            True if all of it was still ours. With the queue's ``max_attempts`` reached it went to the dead letters.
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
            True if all of it was still ours.
        """
        until = self._session.after(seconds, "seconds")
        if self._lock is None or not self._rows:
            return not self._rows
        return self._each(self._session.storage.extend, self._held(), until)

    def _held(self) -> Held:
        assert self._lock is not None, "only a polled envelope holds anything"
        return Held(self._lock, tuple(row.id for row in self._rows))

    def _each(self, call: Callable[..., int], held: Held, *more: Any) -> bool:
        return self._session.call(call, self._session.kind, held, *more) == len(held.ids)

    def _of_each(self, values: list[Any]) -> Any:
        return values if self._many else values[0]

    def __enter__(self) -> AckEnvelope[T]:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._settled:
            return
        if error is None:
            self.ack()
        else:
            self.nack(error=error)

    def __reduce__(self) -> NoReturn:
        refuse(self, "it belongs to the process that polled it", "its payload and message_id")

    def shown(self) -> str:
        """Name its messages in a log line: by their keys if the queue may show values, else by their rows' ids."""
        if self._session.log_values:
            return f"message {self.message_id!r}"
        return f"message {', '.join(f'#{row.id}' for row in self._rows[:_SHOWN])}{', ...' * (len(self._rows) > _SHOWN)}"

    def __repr__(self) -> str:
        return f"<AckEnvelope of {self.shown()} from {self.source!r}>"
