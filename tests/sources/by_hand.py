"""Parts that a test of the sources drives by hand: a background, sources, a target."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future

from drainq import Backoff
from drainq.sources import PrefetchSource

EXACT = Backoff(1.0, 8.0, 2.0, jitter=0)


class HandExecutor(Executor):
    """An executor that runs what it was given when the test says so, on the test's thread."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.running = False

    def submit(self, fn, /, *args, **kwargs):
        self.waiting.append(lambda: fn(*args, **kwargs))
        return Future()

    def run(self) -> int:
        """Run what is waiting; return how many jobs that was."""
        jobs, self.waiting = self.waiting, []
        self.running = True
        try:
            for job in jobs:
                job()
        finally:
            self.running = False
        return len(jobs)


class Scripted:
    """A source that gives the answers that it was made with, and remembers what it was asked for."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def get_next_batch(self, batch_size):
        self.asked.append(batch_size)
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, BaseException):
            raise answer
        return answer(batch_size) if callable(answer) else answer


class Stock:
    """A source that holds what it was given."""

    def __init__(self, items=(), *, ended=False):
        self.items = list(items)
        self.ended = ended
        self.asked = 0

    def get_next_batch(self, batch_size):
        self.asked += 1
        if self.ended and not self.items:
            return None
        batch, self.items = self.items[:batch_size], self.items[batch_size:]
        return batch


class Delivered:
    """A target that remembers, and fails on request."""

    def __init__(self):
        self.calls = []
        self.fail = set()

    def __call__(self, name, items):
        if name in self.fail:
            raise ValueError(f"no {name} today")
        self.calls.append((name, list(items)))

    @property
    def items(self):
        return [item for _, items in self.calls for item in items]


def endless(letter):
    return lambda n: [letter] * n


class Raises:
    """Raises an error at some calls, counted from 1, and else does what it is asked."""

    def __init__(self, error, *calls, then=lambda *arguments: None):
        self.error, self.calls, self.then, self.called = error, calls, then, 0

    def __call__(self, *arguments):
        self.called += 1
        if self.called in self.calls:
            raise self.error
        return self.then(*arguments)


def balanced(source: PrefetchSource, taken: int) -> bool:
    """Return whether every item that the source gave is accounted for."""
    stats = source.stats()
    return stats.fetched == taken + stats.size + stats.held + stats.duplicates + stats.unusable
