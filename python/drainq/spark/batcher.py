"""The batcher of a sink: cuts Spark's record batches into the batches for writers.

A list of tuples or records may span record batches: each list but the last is full, or has lingered. An Arrow batch is
a slice of one of Spark's batches, without a copy.
"""

from __future__ import annotations

import threading
from typing import Any

from drainq.spark.rows import Rows
from drainq.spark.sink_settings import Settings
from drainq.spark.sink_window import Window
from drainq.timer import FOREVER, Repeat


def count(batch: Any) -> int:
    """Count the rows of a batch, a list or a record batch."""
    return len(batch) if isinstance(batch, list) else batch.num_rows


class Batcher:
    """Puts batches into a task's window.

    1. A row is in exactly one batch, because a batch is cut off the waiting rows under the lock.
    2. A place in the window is taken before the batch is cut off. The batch is put there without the lock.
    3. The timer does not wait for a place: if all writers are busy, a batch that is not full waits for more rows.
       After :meth:`stop` the timer puts nothing.

    Args:
        limits: rows and bytes of a batch, seconds to linger.
        window: receives the batches.
    """

    def __init__(self, limits: Settings, window: Window) -> None:
        self._limits, self._window = limits, window
        self._lock = threading.Lock()
        self._rows: list[Any] = []
        self._size = limits.max_batch_rows
        self._lingering = Repeat(self._hand_on_what_lingered)

    def add(self, batch: Any) -> None:
        """Add a record batch, and put the full batches into the window."""
        self._size = self._size_for(batch)
        if self._limits.rows is Rows.ARROW:
            for start in range(0, batch.num_rows, self._size):
                if not self._window.take():
                    return
                self._window.put(batch.slice(start, self._size))
            return
        with self._lock:
            waited = bool(self._rows)
            self._rows += self._limits.rows.listed(batch)
        cut_off = self._hand_on(self._size)
        if self._rows and (cut_off or not waited):
            self._lingering.wake_after(self._limits.linger)

    def finish(self) -> None:
        """Put the remaining rows into the window."""
        self._hand_on(1)

    def stop(self) -> None:
        """Stop the timer."""
        self._lingering.stop()

    def _size_for(self, batch: Any) -> int:
        most, limit = self._limits.max_batch_rows, self._limits.max_batch_bytes
        if limit is None or not batch.num_rows:
            return most
        fitting: int = limit * batch.num_rows // max(1, batch.nbytes)
        return max(1, min(most, fitting))

    def _hand_on(self, least: int, *, wait: bool = True) -> bool:
        """Put batches while ``least`` rows wait and the window has room. Return whether there was a batch."""
        handed_on = False
        while len(self._rows) >= least:
            if not self._window.take(wait=wait):
                break
            with self._lock:
                cut_off = self._rows[: self._size] if len(self._rows) >= least else []
                del self._rows[: len(cut_off)]
            self._window.put(cut_off)
            handed_on = True
        return handed_on

    def _hand_on_what_lingered(self) -> float:
        self._hand_on(1, wait=False)
        return self._limits.linger if self._rows else FOREVER
