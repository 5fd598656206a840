"""The window of a sink's task: the batches between Spark's iterator and the writers."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any


class Window:
    """Passes batches from the task to its writers. At most ``most`` wait or are being written.

    Args:
        writers: the number of threads, each of which calls :meth:`leave` at its end.
        most: batches that wait or are being written.
    """

    def __init__(self, writers: int, most: int) -> None:
        self._writers, self._free = writers, most
        self._waiting: deque[Any] = deque()
        self._changed = threading.Condition()
        self._finished = self._closed = False
        self._failures: list[BaseException] = []

    @property
    def closed(self) -> bool:
        """Whether no batch is given to a writer any more."""
        return self._closed

    @property
    def failure(self) -> BaseException | None:
        """The error of the first writer that failed."""
        return self._failures[0] if self._failures else None

    def take(self, *, wait: bool = True) -> bool:
        """Reserve a place for a batch. Return False if the window is closed, or full and ``wait`` is False."""
        with self._changed:
            if wait:
                self._changed.wait_for(lambda: self._closed or self._free)
            taken = not self._closed and self._free > 0
            self._free -= taken
            return taken

    def put(self, batch: Any) -> None:
        """Put a batch into the reserved place. An empty batch frees the place."""
        with self._changed:
            if batch:
                self._waiting.append(batch)
            else:
                self._free += 1
            self._changed.notify_all()

    def next(self) -> Any | None:
        """Wait for a batch. Return None if there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting or self._finished)
            return None if self._closed or not self._waiting else self._waiting.popleft()

    def done(self) -> None:
        """Free the place of a batch that was written."""
        with self._changed:
            self._free += 1
            self._changed.notify_all()

    def finish(self) -> None:
        """Let the writers end when no batch waits any more."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def close(self, failure: BaseException | None = None) -> None:
        """Give no more batches to writers. ``failure``: the reason."""
        with self._changed:
            self._closed = True
            if failure is not None:
                self._failures.append(failure)
            self._changed.notify_all()

    def leave(self) -> None:
        """Count a writer that has ended."""
        with self._changed:
            self._writers -= 1
            self._changed.notify_all()

    def wait_for_writers(self, timeout: float) -> None:
        """Wait until all writers have ended, or until ``timeout`` seconds after the window was closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._writers)
            self._changed.wait_for(lambda: not self._writers, timeout)

    def pause(self, seconds: float) -> None:
        """Wait some seconds, or until the window is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)
