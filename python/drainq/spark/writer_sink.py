"""A writer of the user's as the sink of a delivery, which tries again, halves and gives up in its place.

What a delivery sends are the *places* of the rows in the batch that the writer is at, so that a half of an Arrow batch
is a slice and nothing is copied.

A batch is first written as it is: nearly all pass, and need no places and no delivery. What that raised is what the
first ``send`` of the delivery raises.

1. A batch whose ``write`` raised is tried ``retries`` times more, as a whole. Then it is halved; a half is tried once.
2. A row that fails alone goes the way that ``on_error`` says. A task that is to fail ends the delivery.
3. While the window is closed nothing is written.
"""

from __future__ import annotations

from typing import Any

from drainq.callables import check_answer, check_callable
from drainq.delivery.sink_contract import DeliveryError, Failure, Sink
from drainq.errors import DrainqError
from drainq.spark.batcher import count
from drainq.spark.checks import member
from drainq.spark.on_error import OnError
from drainq.spark.sink_settings import Settings
from drainq.spark.sink_window import Window
from drainq.spark.task_attempt import TaskInfo


class TaskEnds(DrainqError):
    """The task has failed, or Spark wants no more rows: what is left of a batch is not written."""


class WriterSink(Sink):
    """Called by one thread alone.

    Attributes:
        batches: calls of ``write`` that returned. retries: calls that repeated one that had raised.
        tries: how often the batch that the writer is at was tried as a whole.
        chosen: what becomes of the row that failed last.
    """

    def __init__(self, settings: Settings, info: TaskInfo, window: Window) -> None:
        self._settings, self._info, self._window = settings, info, window
        self._theirs: Any = None
        self._rows: Any = None
        self._raised: Exception | None = None
        self._failure = Failure.DATA
        self.batches = self.retries = self.tries = 0
        self.chosen = OnError.FAIL

    def write(self, rows: Any) -> bool:
        """Write a batch as it is; False if that raised, and a delivery is to go on with :meth:`begin`.

        The writer is made if there is none yet.
        """
        if self._theirs is None:
            self._theirs = self._settings.make_writer(self._info)
            check_callable("write of what make_writer returned", getattr(self._theirs, "write", None), "batch")
        try:
            check_answer("write", self._theirs.write(rows))
        except Exception as error:
            self._raised = error
            return False
        self.batches += 1
        return True

    def begin(self, rows: Any) -> list[int]:
        """Take up a batch that was not written as it is; return the places of its rows."""
        self._rows, self.tries = rows, 0
        return list(range(count(rows)))

    def send(self, items: list[int]) -> None:
        """Write the rows of these places, which follow one another."""
        raised, self._raised = self._raised, None
        if self._window.closed and raised is None:
            self._failure = Failure.CANNOT_PASS
            raise TaskEnds("the task has ended")
        whole = self.tries <= self._settings.retries and len(items) == count(self._rows)
        if whole and self.tries:
            self.retries += 1
        try:
            if raised is not None:
                raise raised
            check_answer("write", self._theirs.write(self._slice(items)))
        except Exception as error:
            if whole:
                self.tries += 1
            if isinstance(error, DeliveryError):
                error.rest = None  # of a delivery inside the writer: its places are not ours
            self._failure = Failure.CANNOT_PASS  # what deciding raises ends the delivery too
            self._failure = self._failure_of(items, error)
            raise
        self.batches += 1

    def failure_of(self, error: Exception) -> Failure:
        """What the last error means."""
        return self._failure

    def row_at(self, place: int) -> Any:
        """A row of the batch that the writer is at."""
        return self._rows[place] if isinstance(self._rows, list) else self._rows.slice(place, 1).to_pylist()[0]

    def described(self, item: Any) -> str:
        """Return what a log line calls the row of a place."""
        return "a row"

    def close(self) -> None:
        """Close the writer, if it was made and can be closed."""
        theirs, self._theirs = self._theirs, None
        close = getattr(theirs, "close", None)
        if close is not None:
            close()

    def _slice(self, items: list[int]) -> Any:
        first, rows = items[0], self._rows
        if len(items) == count(rows):
            return rows
        return rows[first : first + len(items)] if isinstance(rows, list) else rows.slice(first, len(items))

    def _failure_of(self, items: list[int], error: Exception) -> Failure:
        if self.tries <= self._settings.retries:
            return Failure.PASSES
        if self._settings.on_error is OnError.FAIL:
            return Failure.CANNOT_PASS
        if len(items) > 1:
            return Failure.DATA
        decide = self._settings.on_error
        if isinstance(decide, OnError):
            self.chosen = decide
        else:
            answer = decide(self.row_at(items[0]), error)
            try:
                self.chosen = member(OnError, answer, "on_error must return 'fail', 'skip' or 'park'")
            except ValueError as wrong:
                raise wrong from error
        return Failure.CANNOT_PASS if self.chosen is OnError.FAIL else Failure.DATA
