"""Sinks that do what a test says, and the sum that holds at every quiet moment."""

from __future__ import annotations

import threading

from drainq.delivery import Refused, Sink, Unavailable


def agree(worker):
    """The books of a worker; each item is in one place."""
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

    def send(self, items):
        self.in_hand = len(items)
        self.entered.set()
        assert self.go.wait(60)
        if self.cancelled and self.heeds:
            raise Unavailable("cancelled")
        self.rows += items

    def cancel(self):
        self.cancelled = True
        if self.heeds:
            self.go.set()

    def close(self):
        self.closed.set()
