"""One task of a sink: batches go to writers on a batch queue's drain threads, within a window.

    rows -> Batcher -> Window (which writer has least to do) -> BatchQueue -> one writer on each drain thread

# Invariants

1. A writer is made, called and closed by one thread: partition, drain thread and writer have the same number, and
   nothing rebalances them.
2. At most ``max_in_flight`` batches are taken and not done. A partition has room for all, so producing never waits.
3. ``read = rows + dropped + parked`` when a task ends well.
4. After a failure, or when Spark wants no more rows, no further batch is written; the writers are closed by their own
   threads if they end within ``close_timeout``.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from drainq._native import BatchQueueConfig, PartitionPolicy, ThreadPolicy
from drainq.backoff import Backoff
from drainq.callables import check_callable
from drainq.errors import DrainqError
from drainq.spark.batcher import Batcher, count, halves
from drainq.spark.parking import Parking
from drainq.spark.queue import task_queue
from drainq.spark.rows import Rows
from drainq.spark.task import TaskInfo
from drainq.spark.version import check_version, installed

MakeWriter = Callable[[TaskInfo], Any]


class OnError(enum.Enum):
    """What becomes of rows that cannot be written."""

    FAIL = "fail"
    SKIP = "skip"
    PARK = "park"

    @classmethod
    def of(cls, value: Any, delayed: Any) -> OnError | Callable[[Any, Exception], Any]:
        """Return the member for its name, or the callable.

        Raises:
            TypeError: it, or ``delayed``, cannot be called.
            ValueError: there is no such name, or nothing to park in.
        """
        if delayed is not None:
            check_callable("delayed", delayed)
        if value is None:
            return cls.PARK if delayed is not None else cls.FAIL
        if callable(value):
            check_callable("on_error", value, "row", "exception")
            called: Callable[[Any, Exception], Any] = value
            return called
        try:
            chosen = cls(value)
        except ValueError:
            raise ValueError(
                "on_error must be 'fail', 'skip', 'park' or a function of (row, exception) that returns one of these, "
                f"got {value!r}"
            ) from None
        if chosen is cls.PARK and delayed is None:
            raise ValueError("on_error='park' needs delayed=, a function that opens a DelayedQueue; got delayed=None")
        return chosen


@dataclass(frozen=True)
class Settings:
    """The arguments of ``sink``, checked; they travel to the executors."""

    make_writer: MakeWriter
    threads: int
    rows: Rows
    max_in_flight: int
    max_batch_rows: int
    max_batch_bytes: int | None
    linger: float
    retries: int
    backoff: Backoff
    on_error: OnError | Callable[[Any, Exception], Any]
    delayed: Callable[[], Any] | None
    close_timeout: float
    version: str = installed


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


class Work:
    """A batch for a writer; without rows: close the writer."""

    __slots__ = ("rows", "writer")

    def __init__(self, writer: int, rows: Any) -> None:
        self.writer, self.rows = writer, rows


class Writer:
    """A handler that keeps one writer of the user's; called by one drain thread alone (invariant 1)."""

    def __init__(self, task: SinkTask, number: int) -> None:
        self._task, self._number = task, number
        self._settings = task.settings
        self._theirs: Any = None
        self.rows = self.batches = self.retries = self.dropped = self.parked = 0

    @property
    def errors(self) -> int:
        """The rows that could not be written."""
        return self.dropped + self.parked

    def consume(self, batch: list[Work]) -> None:
        """Write what is given, one after the other; the queue gives single batches."""
        for work in batch:
            if work.rows is None:
                self._close()
                continue
            try:
                if not self._task.window.closed:
                    self._deliver(work.rows)
            except BaseException:
                self._task.window.close()
                raise
            finally:
                self._task.window.done(self._number)

    def _deliver(self, rows: Any) -> None:
        """Write a batch, with retries; what fails then goes the way that ``on_error`` says."""
        error: Exception | None = None
        for attempt in range(self._settings.retries + 1):
            if error is not None:
                self._task.window.pause(self._settings.backoff.delay(attempt - 1))
                if self._task.window.closed:
                    return
                self.retries += 1
            error = self._write(rows)
            if error is None:
                return
        assert error is not None
        if self._settings.on_error is OnError.FAIL:
            if hasattr(error, "add_note"):  # Python 3.11
                error.add_note(f"raised by write on a batch of {count(rows)} rows, tried {attempt + 1} times")
            raise error
        self._bisect(rows, error)

    def _bisect(self, rows: Any, error: Exception) -> None:
        """Write the rows of a batch that failed as a whole, but for those that fail alone."""
        if count(rows) == 1:
            self._give_up(rows, error)
            return
        for half in halves(rows):
            if self._task.window.closed:
                return
            again = self._write(half)
            if again is not None:
                self._bisect(half, again)

    def _write(self, rows: Any) -> Exception | None:
        """One call of the user's ``write``; returns what it raised."""
        if self._theirs is None:
            self._theirs = self._settings.make_writer(self._task.info)
            check_callable("write of what make_writer returned", getattr(self._theirs, "write", None), "batch")
        try:
            self._theirs.write(rows)
        except Exception as error:
            return error
        self.batches += 1
        self.rows += count(rows)
        return None

    def _give_up(self, rows: Any, error: Exception) -> None:
        row = rows[0] if isinstance(rows, list) else rows.to_pylist()[0]
        chosen: Any = self._settings.on_error
        if not isinstance(chosen, OnError):
            answer = chosen(row, error)
            try:
                chosen = OnError(answer)
            except ValueError:
                raise ValueError(f"on_error must return 'fail', 'skip' or 'park', got {answer!r}") from error
        if chosen is OnError.FAIL:
            raise error
        if chosen is OnError.PARK:
            self._task.parking.park(row, error)
            self.parked += 1
        else:
            self.dropped += 1

    def _close(self) -> None:
        theirs, self._theirs = self._theirs, None
        close = getattr(theirs, "close", None)
        if close is not None:
            close()


class SinkTask:
    """The rows of one task attempt, from Spark's iterator to the writers' end.

    Args:
        settings: what the user asked for.
        info: which task attempt this is.
    """

    def __init__(self, settings: Settings, info: TaskInfo) -> None:
        self.settings, self.info = settings, info
        self.window = Window(settings.threads, settings.max_in_flight)
        self.parking = Parking(settings.delayed)
        self._failures: list[BaseException] = []

    def run(self, batches: Iterable[Any]) -> dict[str, Any]:
        """Write everything.

        Args:
            batches: record batches.
        Returns:
            The fields of a ``PartitionReport``.
        Raises:
            BaseException: what a writer raised; what the iterator raised.
            DrainqError: the account does not add up.
        """
        settings, started = self.settings, time.monotonic()
        check_version(settings.version)
        writers = [Writer(self, number) for number in range(settings.threads)]
        config = BatchQueueConfig(
            threads=ThreadPolicy.fixed(settings.threads),
            partitions=PartitionPolicy.fixed(settings.threads),
            partition_selector=lambda work, _: work.writer,
            dispatch_key=lambda work: work.writer,
            buffer_size=settings.max_in_flight + 1,  # and the end of a writer (invariant 2)
            max_batch=1,
            error_handler=lambda _, error: self._failures.append(error),
        )
        read = 0
        try:
            with task_queue(config) as queue:
                for number, writer in enumerate(writers):
                    queue.add_handler(number, writer)

                def put(number: int, rows: Any) -> None:
                    if rows:
                        queue.produce(Work(number, rows))
                    else:
                        self.window.done(number)

                batcher = Batcher(settings, self.window.take, put)
                try:
                    for batch in batches:
                        read += batch.num_rows
                        batcher.add(batch)
                        if self.window.closed:
                            break
                    batcher.finish()
                except BaseException:
                    self.window.close()
                    raise
                finally:
                    batcher.stop()
                    for number in range(settings.threads):
                        queue.offer(Work(number, None), timeout=settings.close_timeout)
                    # Before the queue is shut down: what is left then is drained by any thread (invariant 1).
                    queue.flush(timeout=settings.close_timeout if self.window.closed else None)
                if self._failures:
                    raise self._failures[0]
            if self._failures:
                raise self._failures[0]
        finally:
            self.parking.close()
        counts = {
            name: sum(getattr(writer, name) for writer in writers)
            for name in ("rows", "batches", "retries", "errors", "dropped", "parked")
        }
        done = counts["rows"] + counts["dropped"] + counts["parked"]
        if done != read:
            raise DrainqError(f"a sink's account does not add up: {read} rows read, {done} done: {counts}")
        return {"partition": self.info.partition, **counts, "seconds": time.monotonic() - started}
