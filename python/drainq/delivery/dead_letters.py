"""Dead letters: keep items that could not be sent in a delayed queue, and send them again from there.

1. A message holds items of one batch, in order and with their types (:mod:`drainq.delivery.payload`). A refused item
   has a message of its own. Messages are sent again in the order in which they were put in.
2. The worker that stored an item counts it, once. Another worker that sends the item counts it as ``resent``.
3. A message is halved like any batch: good items are sent, and poison stays with its error.
4. With ``key_of`` an older item never replaces a newer one of its key: once a newer item was sent, the older one is
   removed from its message. It counts as sent, because the newer item would have replaced it. If the sink can add older
   items without replacing newer ones, the older item moves to a message of its own. This order holds in a process,
   and for the first 10,000 messages that it found at its start. Writes of two processes to one key have no order.
5. If a commit was not answered, the message holds what the sink needs to find out whether its items are stored.
6. A message is removed after its items were sent. A crash in between sends them twice and loses none.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from drainq.clock import Clock
from drainq.delivery.accounting import Books, Outcome
from drainq.delivery.dead_letter_offer import DelayedQueueLike, offer_all
from drainq.delivery.isolate_poison import Parts
from drainq.delivery.payload import pack, unpack
from drainq.delivery.sink_answer import Answer
from drainq.delivery.sink_contract import Attempt, Failure, Rest, Sink, error_text, to_show

log = logging.getLogger("drainq")

RESEND_DELAY = 60.0  # seconds until given-up items are tried again
RESEND_INTERVAL = 5.0  # seconds between polls of the delayed queue
RESEND_TIME = 10.0  # seconds after which a round of resending ends; the next round continues
MOST_KNOWN = 10_000  # the most messages that are read when a worker with ``key_of`` is made
MESSAGES_AT_ONCE = 500  # offered in one transaction
QUIET = 1.0  # seconds without progress after which keeping items counts as stalled


class DeadLetters:
    """The delayed queue of one worker.

    Args:
        delayed: the queue that stores the messages; its codec must encode dicts, as the default one does.
        label: the owner of the messages, such as ``"batch-writer/visits"``; messages of other owners are ignored.
        books: count the items.
        clock: decides when a message is due, if the delayed queue has no ``clock``.
        key_of: maps an item to its key: a newer item replaces an older one of the same key. None: items do not replace
            each other.
        pack_item, unpack_item: convert an item to values that :func:`~drainq.delivery.payload.pack` accepts, and back.
        size: returns the number of items that a list of entries stands for, if an entry is not one item.
        log_values: show the texts of errors in log lines even if they hold values.
        older_sink: gets items that a newer item of their key overtook, if they still count, as in a sum. None: such
            items are removed.
    """

    def __init__(
        self,
        delayed: DelayedQueueLike,
        *,
        label: str,
        books: Books,
        clock: Clock,
        key_of: Callable[[Any], Hashable] | None = None,
        pack_item: Callable[[Any], Any] | None = None,
        unpack_item: Callable[[Any], Any] | None = None,
        size: Callable[[list[Any]], int] = len,
        older_sink: Sink | None = None,
        log_values: bool = False,
    ) -> None:
        self._log_values = log_values
        self.on_sent: Callable[[], object] = lambda: None  # called when the sink has taken items
        self._size, self._older_sink = size, older_sink
        self._delayed, self._label, self._books = delayed, label[:120], books
        self._clock = getattr(delayed, "clock", None) or clock  # the queue's own clock decides which messages are due
        self._key_of = key_of
        self._pack_item = pack_item or (lambda item: item)
        self._unpack_item = unpack_item or (lambda item: item)
        self._stop, self._stepped_at = False, -math.inf
        self.renew()
        if key_of is not None:
            self._learn()

    def renew(self) -> None:
        """Reset the state, at the start or in a forked child."""
        self._origin = uuid.uuid4().hex
        self._numbers = itertools.count(1)
        self._order = threading.Lock()  # held while keyed items are sent
        self._known = threading.Lock()
        self._kept: dict[Hashable, list[str]] = {}  # item's key -> the messages that hold such items, the oldest first
        self._resending = threading.Lock()

    def _text(self, error: BaseException) -> str:
        return error_text(error, values=self._log_values)

    def log_failure(self, message: str, error: BaseException, *values: object) -> None:
        """Log a failed call with its traceback."""
        log.error(message, self._label, *values, exc_info=to_show(error, values=self._log_values))

    # -- in ---------------------------------------------------------------------------------------

    def park(self, items: Sequence[Any], error: str, doubt: str | None = None) -> str:
        """Keep items in one message. Return its key. ``doubt``: see :class:`Attempt`.

        Raises:
            TypeError: a value cannot be written.
            Exception: the delayed queue did not take it.
        """
        key = self._new_key()
        self._step()
        payload = {**self._payload([self._packed(item) for item in items], error), "doubt": doubt}
        self._delayed.offer_if_not_exists(key, payload, self._clock.now() + RESEND_DELAY)
        self._note_kept(items, [key] * len(items))
        return key

    def park_each(self, items: Sequence[Any], errors: Sequence[str]) -> list[bool]:
        """Keep each item in a separate message. Return for each whether it was kept. An item that cannot
        be encoded is not kept."""
        due = self._clock.now() + RESEND_DELAY
        kept = [False] * len(items)
        offers: list[tuple[int, str, Any]] = []
        for place, (item, error) in enumerate(zip(items, errors)):
            try:
                offers.append((place, self._new_key(), self._payload([self._packed(item)], error)))
            except (TypeError, ValueError) as unwritable:
                log.error("%s: an item cannot be kept: %s", self._label, self._text(unwritable))
        try:
            for start in range(0, len(offers), MESSAGES_AT_ONCE):
                chunk = offers[start : start + MESSAGES_AT_ONCE]
                offer_all(self._delayed, [(key, payload) for _, key, payload in chunk], due)
                for place, _, _ in chunk:
                    kept[place] = True
        except Exception as error:
            if not any(kept):
                raise
            self.log_failure("%s: the delayed queue did not take all of %d items", error, len(items))
        done = [(items[place], key) for place, key, _ in offers if kept[place]]
        self._note_kept([item for item, _ in done], [key for _, key in done])
        return kept

    def _new_key(self) -> str:
        return f"{self._label}/{self._origin}/{next(self._numbers):09d}"

    def outlast(self, wait: Callable[[float], bool], deadline: float, *, is_ending: bool = False) -> bool:
        """Call ``wait(seconds)`` until it returns True or the deadline passes.

        After :meth:`stop`, or with ``is_ending``, it continues beyond the deadline for as long as items are being kept.
        """
        until = deadline
        while not wait(max(0.0, until - time.monotonic())):
            until = self._stepped_at + QUIET
            if not (self._stop or is_ending) or until <= time.monotonic():
                return False
        return True

    def _step(self) -> None:
        self._stepped_at = time.monotonic()

    def _packed(self, item: Any) -> Any:
        self._step()
        return pack(self._pack_item(item))

    def _payload(self, packed: list[Any], error: str, *, origin: str | None = None, tries: int = 0) -> dict[str, Any]:
        return {"sink": self._label, "from": origin or self._origin, "error": error, "tries": tries, "items": packed}

    # -- out --------------------------------------------------------------------------------------

    def withdraw(self, key: str) -> bool:
        """Remove a message. Return False if it no longer exists."""
        with self._known:
            for of in [of for of, messages in self._kept.items() if key in messages]:
                self._leave_out(of, [key])
        try:
            return bool(self._delayed.drop_message(key))
        except Exception as error:
            self.log_failure("%s: message %r could not be taken out of the delayed queue", error, key)
            return False

    def resend(self, sink: Sink, *, deadline: float | None = None) -> bool:
        """Send the due messages in order, until all are sent, the sink fails, or the deadline or 10 seconds are over.

        Args:
            sink: gets the items.
            deadline: on the monotonic clock of the machine.
        Returns:
            False if the sink failed, a message is still due, or another thread is resending.
        """
        end = time.monotonic() + RESEND_TIME
        deadline = end if deadline is None else min(end, deadline)
        if not self._resending.acquire(blocking=False):
            return False
        try:
            while not self._stop:
                envelope = self._delayed.try_poll()
                if envelope is None:
                    return True
                with self._order:
                    goes_on = self._resend_message(envelope, sink)
                if not goes_on or time.monotonic() >= deadline:
                    return False
            return False
        finally:
            self._resending.release()

    def stop(self) -> None:
        """Let a running round end after its message, and let :meth:`outlast` wait for items that are being kept."""
        if not self._stop:
            self._step()
        self._stop = True

    def _resend_message(self, envelope: Any, sink: Sink) -> bool:
        payload = envelope.payload
        try:
            if payload.get("sink", self._label) != self._label:
                raise LookupError(f"it belongs to {payload['sink']!r}: give each worker a delayed queue of its own")
            items = [self._unpack_item(unpack(packed)) for packed in payload["items"]]
        except Exception as error:
            log.error("%s: message %r is not understood: %s", self._label, envelope.message_id, self._text(error))
            envelope.nack(RESEND_DELAY, error=error_text(error, values=True))
            return True
        origin, key = payload.get("from"), envelope.message_id
        older = bool(payload.get("older"))
        via = (self._older_sink or sink) if older else sink
        attempt = Attempt(RESEND_TIME, payload.get("doubt"))
        sent, nameless, left, why, goes_on = self._send_halving(items, via, attempt)
        if left:
            tries = int(payload.get("tries", 0)) + 1
            packed = [self._packed(item) for item in left]
            due = self._clock.now() + RESEND_DELAY if goes_on else envelope.schedule_at
            again = {**payload, **self._payload(packed, why, origin=origin, tries=tries), "doubt": attempt.doubt}
            self._delayed.offer_or_update(key, again, due)
        elif not envelope.ack():
            log.warning("%s: message %r was sent, and may be sent again", self._label, key)
            return goes_on
        if sent:
            self.on_sent()
        self._replace_older(sent, key, left)
        if origin == self._origin:
            self._books.move(self._size(sent), Outcome.DEAD_LETTERED, Outcome.SENT)
            self._books.move(self._size(nameless), Outcome.DEAD_LETTERED, Outcome.REFUSED)
        else:
            self._books.note(resent=self._size(sent))
        return goes_on

    def _send_halving(
        self, items: list[Any], sink: Sink, attempt: Attempt
    ) -> tuple[list[Any], list[Any], list[Any], str, bool]:
        """Send items, and halve each part that the sink refuses. At the end ``attempt`` describes the items that are
        left.

        Returns:
            The items that were sent; those that were refused without being named; those that are left, with the reason;
            and whether the sink works.
        """
        parts, why = Parts(items), ""
        sent: list[Any] = []
        nameless: list[Any] = []
        left: list[Any] = []

        def sort(answer: Answer) -> None:
            nonlocal why
            sent.extend(answer.sent)
            nameless.extend(answer.nameless)
            left.extend(answer.refused + answer.undelivered)
            unknown = [item for item, error in zip(answer.undelivered, answer.errors) if error.unknown]
            self._books.note(unknown=self._size(unknown))
            for reason in [*answer.reasons, *answer.errors]:
                why = error_text(reason, values=True)

        while (part := parts.next()) is not None:
            try:
                sort(Answer.of(part, sink.send_within(part, attempt)))
                self._books.note(unknown=self._size(part) if attempt.is_unsure else 0)
            except Exception as error:
                rest = getattr(error, "rest", None)
                if isinstance(rest, Rest):
                    sort(Answer.of(part, getattr(error, "refusals", ()), rest.places))
                    part = list(rest)
                why = error_text(error, values=True)
                if sink.failure_of(error) is not Failure.DATA:
                    left += part + parts.left()
                    if attempt.doubt is not None and (len(left) > len(part) or attempt.refused):
                        self._books.note(unknown=self._size(part))  # a part's doubt does not fit the message
                        attempt.doubt = None
                    return sent, nameless, left, why, False
                if not parts.halve(part):
                    left += part
            attempt.doubt, attempt.is_unsure = None, False
        return sent, nameless, left, why, True

    # -- order of the items of a key --------------------------------------------------------------

    def order(self) -> threading.Lock | None:
        """Return the lock to hold while newer items are sent, or None if they can replace no kept item."""
        return self._order if self._kept else None

    def were_sent(self, items: Sequence[Any]) -> None:
        """Remove kept items that the sent ones replace. Called with the lock of :meth:`order` held."""
        if not self._kept or self._key_of is None:
            return
        older: dict[str, set[Hashable]] = {}
        with self._known:
            for item in items:
                key = self._key(item)
                for message in self._kept.pop(key, ()) if key is not None else ():
                    older.setdefault(message, set()).add(key)
        for message, keys in older.items():
            self._take_out(message, keys)

    def _replace_older(self, items: Sequence[Any], message: str, left: Sequence[Any]) -> None:
        """Remove older items from earlier messages, because this message's sent items replace them.

        The message stays registered for the keys of the items ``left`` in it.
        """
        if self._key_of is None:
            return
        older: dict[str, set[Hashable]] = {}
        stay = {self._key(item) for item in left}
        with self._known:
            for item in items:
                key = self._key(item)
                messages = [] if key is None else self._kept.get(key, [])
                if message in messages:
                    before = messages[: messages.index(message)]
                    for each in before:
                        older.setdefault(each, set()).add(key)
                    self._leave_out(key, before if key in stay else [*before, message])
        for each, keys in older.items():
            self._take_out(each, keys)

    def _leave_out(self, key: Hashable, messages: list[str]) -> None:
        left = [message for message in self._kept[key] if message not in messages]
        if left:
            self._kept[key] = left
        else:
            del self._kept[key]

    def _take_out(self, message: str, keys: set[Hashable]) -> None:
        """Remove replaced items from a message."""
        try:
            envelope = self._delayed.read(message)
            if envelope is None:
                return
            payload = envelope.payload
            left, out, moved = [], [], []
            for packed in payload["items"]:
                item = self._unpack_item(unpack(packed))
                if self._key(item) in keys:
                    out.append(item)
                    moved.append(packed)
                else:
                    left.append(packed)
            if self._older_sink is not None:
                self._move_apart(message, payload, left, moved, envelope.schedule_at)
                return
            if left:
                self._delayed.offer_or_update(message, {**payload, "items": left}, envelope.schedule_at)
            elif not self._delayed.drop_message(message):
                return
        except Exception as error:
            self.log_failure("%s: replaced items could not be taken out of message %r", error, message)
            return
        if payload.get("from") == self._origin:
            self._books.move(self._size(out), Outcome.DEAD_LETTERED, Outcome.SENT)

    def _move_apart(self, message: str, payload: Any, left: list[Any], moved: list[Any], due: Any) -> None:
        """Move overtaken items to a separate message."""
        changed = [(f"{message}/older", {**payload, "items": moved, "older": True})]
        if left:
            changed.append((message, {**payload, "items": left}))
        offer_all(self._delayed, changed, due)
        if not left:
            self._delayed.drop_message(message)

    def _note_kept(self, items: Sequence[Any], messages: Sequence[str]) -> None:
        if self._key_of is None:
            return
        with self._known:
            for item, message in zip(items, messages):
                key = self._key(item)
                if key is not None:
                    self._kept.setdefault(key, []).append(message)

    def _key(self, item: Any) -> Hashable | None:
        assert self._key_of is not None
        try:
            key = self._key_of(item)
            hash(key)
        except Exception:  # poison, such as a short row or a value without a hash, replaces nothing
            return None
        return key

    def _learn(self) -> None:
        """Read the keys of messages that earlier runs kept."""
        try:
            for row in self._delayed.peek(MOST_KNOWN):
                envelope = self._delayed.read(row.key)
                payload = {} if envelope is None else envelope.payload
                if payload.get("sink") == self._label and not payload.get("older"):
                    for packed in payload["items"]:
                        key = self._key(self._unpack_item(unpack(packed)))
                        if key is not None:
                            self._kept.setdefault(key, []).append(row.key)
        except Exception as error:
            self.log_failure("%s: the delayed queue could not be read; order with what it keeps is not known", error)
