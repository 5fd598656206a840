"""Sinks and keepers that a test scripts, a delivery without a worker, and the sum that always holds."""

from __future__ import annotations

import threading
import time

from drainq.backoff import Backoff
from drainq.delivery import Books, Delivery, Outcome, Refused, Sink, Unavailable
from drainq.testing import ManualClock

ENTRIES = [(5, "a"), (7, "b"), (11, "c")]
"""Entries that stand for 23 items."""


def agree(worker):
    """Return the books of a worker; each item is in one place."""
    stats = worker.stats()
    assert stats.accepted == stats.sent + stats.refused + stats.dead_lettered + stats.lost + stats.pending
    assert min(stats.sent, stats.refused, stats.dead_lettered, stats.lost, stats.pending) >= 0
    return stats


def counts(worker):
    """(sent, refused, dead-lettered, lost, pending), which add up."""
    stats = agree(worker)
    return stats.sent, stats.refused, stats.dead_lettered, stats.lost, stats.pending


class Table(Sink):
    """A list as a sink: refuses whole batches that hold poison, and is down while ``down`` is set."""

    def __init__(self, poison=()):
        self.rows, self.poison, self.calls = [], set(poison), 0
        self.down = None

    def send(self, items):
        self.calls += 1
        if self.down is not None:
            raise self.down
        if self.poison.intersection(items):
            raise Refused("poison in the batch")
        self.rows += items


class Hanging(Sink):
    """A sink whose calls hang until ``go`` is set; a cancelled one raises if ``heeds`` is."""

    def __init__(self, *, heeds):
        self.go, self.entered, self.heeds = threading.Event(), threading.Event(), heeds
        self.cancelled, self.closed, self.rows, self.in_hand = False, threading.Event(), [], 0
        self.batches = []

    def send(self, items):
        self.in_hand = len(items)
        self.entered.set()
        assert self.go.wait(60)
        if self.cancelled and self.heeds:
            raise Unavailable("cancelled")
        self.rows += items
        self.batches.append(items)

    def cancel(self):
        self.cancelled = True
        if self.heeds:
            self.go.set()

    def close(self):
        self.closed.set()


class Letters:
    """A keeper that notes what it is given, and gives it back when asked."""

    def __init__(self):
        self.kept, self.withdrawn, self.refuses, self.in_between = {}, [], None, lambda: None

    def park(self, items, error, doubt=None):
        if self.refuses is not None:
            raise self.refuses
        key = f"letter {len(self.kept) + len(self.withdrawn)}"
        self.kept[key] = list(items)
        self.in_between()
        return key

    def park_each(self, items, errors):
        return [bool(self.park([item], error)) for item, error in zip(items, errors)]

    def withdraw(self, key):
        self.withdrawn.append(key)
        return self.kept.pop(key, None) is not None

    def outlast(self, wait, deadline):
        return wait(max(0.0, deadline - time.monotonic()))

    def order(self):
        return None

    def were_sent(self, items):
        pass


def amounts(entries):
    """Return how many items entries stand for."""
    return sum(count for count, _ in entries)


class Bench:
    """A delivery whose waits move its clock, and are noted."""

    def __init__(self, sink, *, retry_for=60.0, **more):
        self.clock, self.books, self.waits = ManualClock(), Books(), []
        self.sink, self.before_try = sink, lambda: None
        self.delivery = Delivery(
            sink, books=self.books, name="test", retry_for=retry_for, clock=self.clock,
            backoff=Backoff(1.0, 8.0, 2.0, jitter=0), wait=self.wait, **more,
        )  # fmt: skip

    def wait(self, seconds):
        self.waits.append(seconds)
        self.clock.advance(seconds)
        self.before_try()

    def deliver(self, items):
        self.books.arrive(len(items))
        return self.delivery.deliver(list(items))

    def counts(self):
        return {outcome.value: count for outcome in Outcome if (count := self.books.count(outcome))}
