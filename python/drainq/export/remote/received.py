"""Received batches: a server's memory, so that it never handles a batch twice.

A client sends a batch again when it saw no acknowledgement: the batch may be lost, or being handled, or handled with
the acknowledgement lost. Here the second arrival finds the entry of the first, waits for it, and gets its answer.

# Invariants

1. For each ``(sender, number)`` that is not forgotten, :meth:`Received.begin` tells one caller to handle the batch.
2. An entry is answered once, or dropped. After a drop the next arrival counts as the first.
3. Answered entries below the sender's ``settled`` number are forgotten. Beyond ``MOST_SENDERS``, the senders that were
   silent longest are forgotten too, except those with a batch that is being handled.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from drainq.export.remote.wire import Ack, WireBatch

MOST_SENDERS = 10_000


class Entry:
    """The result of one batch, or None while it is being handled."""

    __slots__ = ("ack", "done")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.ack: Ack | None = None


class Received:
    """The entries of all senders; safe to share between threads."""

    def __init__(self, *, most_senders: int = MOST_SENDERS) -> None:
        self._lock = threading.Lock()
        self._most = most_senders
        self._senders: OrderedDict[str, dict[int, Entry]] = OrderedDict()

    def begin(self, batch: WireBatch) -> tuple[Entry, bool]:
        """Return the entry of a batch, and whether the caller must handle it."""
        with self._lock:
            entries = self._senders.setdefault(batch.sender, {})
            self._senders.move_to_end(batch.sender)
            for number in [number for number in entries if number < batch.settled]:
                if entries[number].done.is_set():
                    del entries[number]
            entry = entries.get(batch.number)
            first = entry is None
            if entry is None:
                entry = entries[batch.number] = Entry()
            if len(self._senders) > self._most:
                self._forget_one()
            return entry, first

    def answer(self, entry: Entry, ack: Ack) -> None:
        """Store the result of a batch."""
        entry.ack = ack
        entry.done.set()

    def drop(self, batch: WireBatch, entry: Entry) -> None:
        """Forget a batch that was not handled, so that it may be sent again."""
        with self._lock:
            entries = self._senders.get(batch.sender, {})
            if entries.get(batch.number) is entry:
                del entries[batch.number]
        entry.done.set()

    def _forget_one(self) -> None:
        for sender, entries in self._senders.items():
            if all(entry.done.is_set() for entry in entries.values()):
                del self._senders[sender]
                return
