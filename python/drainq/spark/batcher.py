"""Cuts Spark's record batches into the batches that a writer gets.

Lists of tuples or records are joined over record batches, so each batch but the last is full, or has lingered. Arrow's
are slices of Spark's own: nothing is copied, and nothing joined.
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
    """Hands batches to a task's window.

    1. A row is in exactly one batch: a batch is cut off the waiting rows under the lock.
    2. A batch is handed on without the lock, and only into a place that was taken before the batch was cut off.
    3. The timer does not wait for a place: if all writers are busy, a batch that is not full waits for more rows.
       After :meth:`finish` and :meth:`stop` it hands on nothing.

    Args:
        limits: rows and bytes of a batch, seconds to linger.
        window: takes the batches.
    """

    def __init__(self, limits: Settings, window: Window) -> None:
        self._limits, self._window = limits, window
        self._lock = threading.Lock()
        self._rows: list[Any] = []
        self._size = limits.max_batch_rows
        self._lingering = Repeat(self._hand_on_what_lingered)

    def add(self, batch: Any) -> None:
        """Take a record batch; hand on what is full."""
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
        """Hand on the rest."""
        self.stop()
        self._hand_on(1)

    def stop(self) -> None:
        """Let the timer hand on nothing any more."""
        self._lingering.stop()

    def _size_for(self, batch: Any) -> int:
        most, limit = self._limits.max_batch_rows, self._limits.max_batch_bytes
        if limit is None or not batch.num_rows:
            return most
        fitting: int = limit * batch.num_rows // max(1, batch.nbytes)
        return max(1, min(most, fitting))

    def _hand_on(self, least: int, *, wait: bool = True) -> bool:
        """Hand on batches while ``least`` rows wait and there is a place; whether there was a batch."""
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
