"""One writer of a sink's task, as a handler on the task's queue: it hands each batch to a delivery."""

from __future__ import annotations

import math
from typing import Any

from drainq.delivery.accounting import Books, Outcome
from drainq.delivery.delivery import Delivery
from drainq.spark.batcher import count
from drainq.spark.on_error import OnError
from drainq.spark.parked_rows import Parking, RowKeeper
from drainq.spark.sink_settings import Settings
from drainq.spark.sink_window import Window
from drainq.spark.task_attempt import TaskInfo
from drainq.spark.writer_sink import TaskEnds, WriterSink


class Work:
    """A batch for a writer; without rows: close the writer."""

    __slots__ = ("rows", "writer")

    def __init__(self, writer: int, rows: Any) -> None:
        self.writer, self.rows = writer, rows


class Writer:
    """Called by one drain thread alone.

    Args:
        number: of the writer in its task.
        settings, info: of the task.
        window: is given back each batch; closed by the first failure.
        parking: takes rows that cannot be written.
    """

    def __init__(self, number: int, settings: Settings, info: TaskInfo, window: Window, parking: Parking) -> None:
        self._number, self._settings, self._window = number, settings, window
        self._books = Books()
        self._sink = WriterSink(settings, info, window)
        self._delivery = Delivery(
            self._sink,
            books=self._books,
            name=f"the sink of partition {info.partition}",
            retry_for=math.inf,  # the sink counts the tries
            dead_letters=RowKeeper(parking, self._sink.row_at, lambda: self._sink.chosen is OnError.PARK),
            keep_when_stopped=True,
            backoff=settings.backoff,
            wait=window.pause,
        )

    def consume(self, batch: list[Work]) -> None:
        """Write what is given, one after the other; the queue gives single batches."""
        for work in batch:
            if work.rows is None:
                self._sink.close()
                continue
            try:
                if not self._window.closed:
                    self._deliver(work.rows)
            except BaseException:
                self._window.close()
                raise
            finally:
                self._window.done(self._number)

    def counts(self) -> dict[str, int]:
        """The counts of a ``PartitionReport``, of this writer's rows."""
        dropped, parked = self._books.count(Outcome.REFUSED), self._books.count(Outcome.DEAD_LETTERED)
        return {
            "rows": self._books.count(Outcome.SENT),
            "batches": self._sink.batches,
            "retries": self._sink.retries,
            "errors": dropped + parked,
            "dropped": dropped,
            "parked": parked,
        }

    def _deliver(self, rows: Any) -> None:
        number = count(rows)
        self._books.arrive(number)
        if self._sink.write(rows):
            self._books.move(number, Outcome.PENDING, Outcome.SENT)
            self._delivery.works_again()
            return
        if not self._delivery.deliver(self._sink.begin(rows)):
            return
        error = self._delivery.stopped
        assert error is not None, "a delivery keeps items only when it is stopped"
        if isinstance(error, TaskEnds):
            return
        if self._settings.on_error is OnError.FAIL and hasattr(error, "add_note"):  # Python 3.11
            error.add_note(f"raised by write on a batch of {count(rows)} rows, tried {self._sink.tries} times")
        raise error
