"""A writer of a sink's task: writes batches, retries, halves failing batches, and skips or parks rows.

1. A batch whose ``write`` raised is repeated whole, up to ``retries`` times. Then it is halved, and each half is tried
   once.
2. ``on_error`` decides about a single row that fails.
3. Nothing is written after the window was closed.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from typing import Any

from drainq.arguments import member
from drainq.backoff import Tries
from drainq.callables import check_answer, check_callable
from drainq.delivery.dead_letter_offer import offer_all
from drainq.delivery.isolate_poison import Parts
from drainq.delivery.payload import pack
from drainq.delivery.sink_contract import error_text
from drainq.spark.batcher import count
from drainq.spark.sink_settings import OnError, Settings
from drainq.spark.sink_window import Window
from drainq.spark.task_attempt import TaskInfo
from drainq.spark.worker_resource import Once


class Parking:
    """The delayed queue of a task, for rows that cannot be written.

    1. The key is derived from the row, so a task that runs again parks a row once.
    2. ``drainq.delivery.payload.unpack`` restores the row with its types, also bytes and Decimal, which JSON lacks.
    3. A task calls ``open`` once (see :class:`drainq.spark.worker_resource.Once`).

    Args:
        open: opens the queue; None if there is no queue. Then :meth:`park` must not be called.
    """

    def __init__(self, open: Callable[[], Any] | None) -> None:
        self._queue: Once[Any] | None = None if open is None else Once(open)

    def park(self, row: Any, error: str) -> None:
        """Store a row with its error.

        Raises:
            ValueError: there is no queue.
            TypeError: the row contains a value that cannot be stored.
        """
        if self._queue is None:
            raise ValueError("'park' needs delayed=, a function that opens a DelayedQueue; got delayed=None")
        key = f"row/{hashlib.sha256(repr(row).encode()).hexdigest()}"
        offer_all(self._queue.get(), [(key, {"row": pack(row), "error": error})], time.time())

    def close(self) -> None:
        """Close the queue if it was opened."""
        if self._queue is not None and (opened := self._queue.made) is not None:
            opened.close()


log = logging.getLogger("drainq")


class Writer:
    """Writes batches by a user's writer, which :meth:`run` makes, calls and closes.

    Args:
        settings, info: of the task.
        window: the source of batches. The first failure closes it.
        parking: stores rows that cannot be written.
    """

    def __init__(self, settings: Settings, info: TaskInfo, window: Window, parking: Parking) -> None:
        self._settings, self._info, self._window, self._parking = settings, info, window, parking
        self._theirs: Any = None
        self._rows = self._batches = self._retries = self._dropped = self._parked = 0

    def run(self) -> None:
        """Write batches until the window has no more."""
        try:
            while (batch := self._window.next()) is not None:
                self._deliver(batch)
                self._window.done()
        except BaseException as error:
            self._window.close(error)
        try:
            close = getattr(self._theirs, "close", None)
            if close is not None:
                close()
        except BaseException as error:
            self._window.close(error)
        self._window.leave()

    def counts(self) -> dict[str, int]:
        """Return the counts of a ``PartitionReport`` for this writer's rows."""
        return {
            "rows": self._rows,
            "batches": self._batches,
            "retries": self._retries,
            "errors": self._dropped + self._parked,
            "dropped": self._dropped,
            "parked": self._parked,
        }

    def _deliver(self, batch: Any) -> None:
        if self._theirs is None:
            self._theirs = self._settings.make_writer(self._info)
            check_callable("write of what make_writer returned", getattr(self._theirs, "write", None), "batch")
        error = self._try_whole(batch)
        if error is None:
            self._rows += count(batch)
            return
        if self._settings.on_error is OnError.FAIL and not self._window.closed:
            if hasattr(error, "add_note"):  # Python 3.11
                tries = self._settings.retries + 1
                error.add_note(f"raised by write on a batch of {count(batch)} rows, tried {tries} times")
            raise error
        parts = Parts([*range(count(batch))])  # the places of rows, so that half of an Arrow batch is a slice
        part = parts.next()
        while part is not None and not self._window.closed:
            if error is None:
                self._rows += len(part)
            elif not parts.halve(part):
                self._put_away(_slice(batch, part), error)
            part = parts.next()
            error = None if part is None or self._window.closed else self._write(_slice(batch, part))

    def _try_whole(self, batch: Any) -> Exception | None:
        tries = Tries(self._settings.backoff, most=self._settings.retries)
        while (error := self._write(batch)) is not None:
            pause = tries.failed(error)
            if pause is None:
                break
            log.warning("%s: write raised and is tried again: %s", self._name, error_text(error, values=False))
            self._window.pause(pause)
            if self._window.closed:
                break
            self._retries += 1
        return error

    def _write(self, batch: Any) -> Exception | None:
        """Write rows. Return the exception of ``write``, or None."""
        try:
            check_answer("write", self._theirs.write(batch))
        except Exception as error:
            return error
        self._batches += 1
        return None

    def _put_away(self, single: Any, error: Exception) -> None:
        """Skip or park a single row that fails, or raise its error."""
        row = single[0] if isinstance(single, list) else single.to_pylist()[0]
        chosen = self._settings.on_error
        if not isinstance(chosen, OnError):
            answer = chosen(row, error)
            try:
                chosen = member(OnError, answer, "on_error must return 'fail', 'skip' or 'park'")
            except ValueError as wrong:
                raise wrong from error
        if chosen is OnError.FAIL:
            raise error
        log.warning("%s: a row to %s: %s", self._name, chosen.value, error_text(error, values=False))
        if chosen is OnError.PARK:
            self._parking.park(row, error_text(error, values=True))
            self._parked += 1
        else:
            self._dropped += 1

    @property
    def _name(self) -> str:
        return f"the sink of partition {self._info.partition}"


def _slice(batch: Any, places: list[int]) -> Any:
    first, number = places[0], len(places)
    return batch[first : first + number] if isinstance(batch, list) else batch.slice(first, number)
