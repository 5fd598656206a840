"""A background that a test drives by hand."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future


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
