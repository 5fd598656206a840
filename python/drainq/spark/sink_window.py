"""The batches of a sink's task on their way to its writers."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any


class Window:
    """Hands batches from the task to its writers; at most ``most`` are taken in and not done.

    Args:
        writers: how many threads :meth:`leave` in the end.
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
        """Whether nothing is handed out any more."""
        return self._closed

    @property
    def failure(self) -> BaseException | None:
        """The first error that a writer failed with."""
        return self._failures[0] if self._failures else None

    def take(self, *, wait: bool = True) -> bool:
        """Take a place for a batch; False if the window is closed or, unless waiting, full."""
        with self._changed:
            if wait:
                self._changed.wait_for(lambda: self._closed or self._free)
            taken = not self._closed and self._free > 0
            self._free -= taken
            return taken

    def put(self, batch: Any) -> None:
        """Hand a batch to a writer; one without rows gives its place back."""
        with self._changed:
            if batch:
                self._waiting.append(batch)
            else:
                self._free += 1
            self._changed.notify_all()

    def next(self) -> Any | None:
        """Wait for a batch; None if there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting or self._finished)
            return None if self._closed or not self._waiting else self._waiting.popleft()

    def done(self) -> None:
        """Give back the place of a batch that was written."""
        with self._changed:
            self._free += 1
            self._changed.notify_all()

    def finish(self) -> None:
        """Let the writers end when nothing waits any more."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def close(self, failure: BaseException | None = None) -> None:
        """Hand out nothing any more; ``failure``: why."""
        with self._changed:
            self._closed = True
            if failure is not None:
                self._failures.append(failure)
            self._changed.notify_all()

    def leave(self) -> None:
        """Tell that a writer has ended."""
        with self._changed:
            self._writers -= 1
            self._changed.notify_all()

    def wait_for_writers(self, timeout: float) -> None:
        """Wait until all writers have ended, but not longer than ``timeout`` seconds once the window is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._writers)
            self._changed.wait_for(lambda: not self._writers, timeout)

    def pause(self, seconds: float) -> None:
        """Wait, but not longer than until the window is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)
