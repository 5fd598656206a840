"""How many batches of a sink's task are under way, and whose turn it is."""

from __future__ import annotations

import threading


class Window:
    """Which writer gets the next batch: the one with least to do, if fewer than ``most`` batches are under way."""

    def __init__(self, writers: int, most: int) -> None:
        self._most = most
        self._busy = [0] * writers
        self._changed = threading.Condition()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether nothing is given out any more."""
        return self._closed

    def take(self, *, wait: bool = True) -> int | None:
        """Return a writer's number, and count a batch for it; None if the window is closed or, unless waiting, full."""
        with self._changed:
            if wait:
                self._changed.wait_for(lambda: self._closed or sum(self._busy) < self._most)
            if self._closed or sum(self._busy) >= self._most:
                return None
            writer = self._busy.index(min(self._busy))
            self._busy[writer] += 1
            return writer

    def done(self, writer: int) -> None:
        """Take back a batch that was counted for a writer."""
        with self._changed:
            self._busy[writer] -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """Give out nothing any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Wait, but not longer than until the window is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)
