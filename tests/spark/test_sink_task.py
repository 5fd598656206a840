"""The work of one task of a sink, without Spark: its batches come from a list."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import threading
import types
from dataclasses import replace
from decimal import Decimal

import pytest
from tests.patience import PATIENCE, Call, eventually
from tests.time_limit import SECONDS

from drainq.backoff import Backoff
from drainq.delivery import Unavailable
from drainq.delivery.payload import unpack
from drainq.errors import DrainqError
from drainq.spark.batcher import Batcher, count
from drainq.spark.rows import Rows
from drainq.spark.sink_settings import OnError, Settings
from drainq.spark.sink_task import SinkTask
from drainq.spark.sink_window import Window
from drainq.spark.sink_writer import Parking
from drainq.spark.sink_writer import Writer as TaskWriter
from drainq.spark.task_attempt import TaskInfo
from drainq.timer import FOREVER

pa = pytest.importorskip("pyarrow")

INFO = TaskInfo(stage=0, partition=3, attempt=0, task_attempt_id=0, cpus=1)
SETTINGS = Settings(
    make_writer=lambda info: None,
    threads=1,
    rows=Rows.TUPLES,
    max_in_flight=2,
    max_batch_rows=10,
    max_batch_bytes=None,
    linger=3600,
    retries=0,
    backoff=Backoff(0.001, 0.001),
    on_error=OnError.FAIL,
    delayed=None,
    close_timeout=30,
)


def record_batches(*sizes):
    numbers = itertools.count()
    return [pa.RecordBatch.from_pydict({"n": list(itertools.islice(numbers, size))}) for size in sizes]


class Writer:
    """Keeps what it gets, and who called."""

    def __init__(self, write=None):
        self.batches, self.calls, self._write = [], [], write

    def write(self, batch):
        self.calls.append(("write", threading.get_ident()))
        if self._write is not None:
            self._write(batch)
        self.batches.append([row[0] for row in batch])

    def close(self):
        self.calls.append(("close", threading.get_ident()))


def run(writers, batches, **how):
    """Deliver batches; each writer that is made is appended to `writers`."""

    def make(info):
        assert info is INFO
        writers.append(Writer(how.get("write")))
        writers[-1].calls.append(("make", threading.get_ident()))
        return writers[-1]

    settings = replace(SETTINGS, make_writer=make, **{name: value for name, value in how.items() if name != "write"})
    return SinkTask(settings, INFO).run(batches)


@pytest.mark.parametrize("sizes", [(), (0,), (9,), (10,), (11,), (3, 3, 3, 3, 3), (25, 0, 1), (100, 7)])
def test_each_row_is_in_one_batch(sizes):
    writers = []
    report = run(writers, record_batches(*sizes))
    written = [row for writer in writers for batch in writer.batches for row in batch]
    assert written == list(range(sum(sizes)))
    assert [len(batch) for writer in writers for batch in writer.batches[:-1]] == [10] * ((sum(sizes) - 1) // 10)
    assert (report["partition"], report["rows"], report["batches"]) == (3, sum(sizes), -(-sum(sizes) // 10))
    assert len(writers) == bool(sum(sizes))


def test_a_writer_is_made_called_and_closed_by_one_thread():
    writers, all_made = [], threading.Event()

    def write(batch):
        if len(writers) == 4:
            all_made.set()
        assert all_made.wait(30)  # so that none is so quick that it gets the work of all

    run(writers, record_batches(*[50] * 40), threads=4, max_in_flight=8, write=write)
    assert len(writers) == 4
    for writer in writers:
        whats, threads = zip(*writer.calls)
        assert len(set(threads)) == 1 and threads[0] != threading.get_ident()
        assert whats[0] == "make" and whats[-1] == "close" and whats.count("close") == 1
    assert sum(len(batch) for writer in writers for batch in writer.batches) == 2000


def test_no_more_batches_are_under_way_than_asked_for():
    window = Window(3, 5)
    assert [window.take(wait=False) for _ in range(6)] == [True] * 5 + [False]
    window.put([1])
    window.put([])  # gives its place back
    assert [window.take(wait=False) for _ in range(2)] == [True, False]
    assert window.next() == [1]
    assert not window.take(wait=False)
    window.done()
    assert window.take() and not window.take(wait=False)
    window.put([2])
    for error in (first := KeyError(), ValueError()):
        window.close(error)
    window.done()
    assert not window.take() and window.next() is None and window.failure is first
    Batcher(replace(SETTINGS, rows=Rows.ARROW), window).add(record_batches(3)[0])
    assert list(window._waiting) == [[2]]


def test_a_place_that_is_free_wakes_the_task_behind_idle_writers():
    window = Window(2, 1)
    assert window.take() and window.put([1]) is None and window.next() == [1]
    idle = Call(window.next)
    eventually(lambda: len(window._changed._waiters) == 1)
    waits = Call(window.take)
    eventually(lambda: len(window._changed._waiters) == 2)
    window.done()
    try:
        assert waits.result() is True
    finally:
        window.close()
    assert idle.result() is None


def test_after_a_failure_nothing_that_waits_is_written():
    gate, writers = threading.Event(), []

    def write(batch):
        assert gate.wait(30)
        raise ValueError("the first batch")

    def batches():
        yield from record_batches(10, 10)
        gate.set()

    with pytest.raises(ValueError, match="the first batch"):
        run(writers, batches(), write=write)
    assert [what for what, _ in writers[0].calls] == ["make", "write", "close"]


def test_a_batch_that_a_writer_is_at_when_the_task_fails_is_tried_no_more():
    window, calls = Window(1, 1), []

    class Failing:
        def write(self, batch):
            calls.append(len(batch))
            window.close()  # another writer has failed meanwhile
            raise ValueError("away")

    settings = replace(SETTINGS, make_writer=lambda info: Failing(), retries=5, on_error=OnError.SKIP)
    writer = TaskWriter(settings, INFO, window, Parking(None))
    window.take()
    window.put([(n,) for n in range(4)])
    writer.run()
    assert calls == [4] and window.failure is None  # the other writer's error is the task's
    assert writer.counts() == dict.fromkeys(("rows", "batches", "retries", "errors", "dropped", "parked"), 0)


def test_a_write_of_which_nothing_has_run_has_written_nothing():
    async def send(batch):
        raise AssertionError(batch)

    for wrong, words in ((None, "write of what make_writer returned must be a callable"), (send, "async function")):
        writer = types.SimpleNamespace(write=wrong)
        with pytest.raises(TypeError, match=words):
            SinkTask(replace(SETTINGS, make_writer=lambda info, of=writer: of), INFO).run(record_batches(2))
    writer = types.SimpleNamespace(write=lambda batch: send(batch))
    settings = replace(SETTINGS, make_writer=lambda info: writer, on_error=OnError.SKIP)
    report = SinkTask(settings, INFO).run(record_batches(2))
    assert (report["rows"], report["dropped"]) == (0, 2)


def test_rows_that_fail_alone_are_found():
    def write(batch):
        if bad := [n for (n,) in batch if n in (0, 7, 13, 24)]:
            raise ValueError(f"bad {bad}")

    writers = []
    report = run(writers, record_batches(25), write=write, on_error=OnError.SKIP)
    assert (report["rows"], report["errors"], report["dropped"], report["parked"]) == (21, 4, 4, 0)
    written = sorted(row for batch in writers[0].batches for row in batch)
    assert written == sorted(set(range(25)) - {0, 7, 13, 24})


def test_arrow_batches_are_slices_and_are_halved_too():
    seen = []

    class Arrow:
        def write(self, batch):
            values = batch.column(0).to_pylist()
            if 5 in values:
                raise ValueError("five")
            seen.extend(values)

    settings = replace(SETTINGS, make_writer=lambda info: Arrow(), rows=Rows.ARROW, on_error=OnError.SKIP)
    report = SinkTask(settings, INFO).run(record_batches(25))
    assert (report["rows"], report["dropped"]) == (24, 1)
    assert sorted(seen) == sorted(set(range(25)) - {5})


def test_a_batch_that_is_not_full_is_written_when_it_has_lingered():
    written = threading.Event()

    def batches():
        yield from record_batches(3)
        assert written.wait(30)  # nothing else would hand it on

    report = run([], batches(), linger=0, write=lambda batch: written.set())
    assert (report["rows"], report["batches"]) == (3, 1)


def test_rows_for_which_no_writer_is_free_linger_on():
    window = Window(1, 1)
    batcher = Batcher(replace(SETTINGS, linger=7), window)
    assert window.take()
    batcher.add(record_batches(3)[0])
    assert batcher._hand_on_what_lingered() == 7
    window.done()
    assert batcher._hand_on_what_lingered() == FOREVER and window.next() == [(0,), (1,), (2,)]
    batcher.stop()


def test_the_timer_runs_from_when_rows_begin_to_wait_and_only_a_full_batch_goes_before_it():
    put, waits = [], []
    window = types.SimpleNamespace(take=lambda wait: True, put=put.append)
    batcher = Batcher(SETTINGS, window)
    batcher._lingering = types.SimpleNamespace(wake_after=waits.append)
    for batch, times in zip(record_batches(3, 3, 6, 8, 1), (1, 1, 2, 2, 3)):
        batcher.add(batch)
        assert waits == [3600] * times
    assert list(map(len, put)) == [10, 10]
    window.take = lambda wait: batcher._rows.clear() or batcher._rows.append(1) or True  # the timer took the others
    batcher._rows = [0] * 10
    batcher._hand_on(10)
    assert put[2:] == [[]] and batcher._rows == [1]


def test_a_batch_has_no_more_rows_than_asked_for_whatever_its_bytes():
    seen = []
    writer = types.SimpleNamespace(write=lambda batch: seen.append(count(batch)))
    for rows in (Rows.TUPLES, Rows.ARROW):
        for most_bytes, sizes in ((10**9, [10, 10, 5]), (32, [4, 4, 4, 4, 4, 4, 1]), (1, [1] * 25)):
            seen.clear()
            settings = replace(SETTINGS, make_writer=lambda info: writer, rows=rows, max_batch_bytes=most_bytes)
            SinkTask(settings, INFO).run(record_batches(25))
            assert seen == sizes, (rows, most_bytes)


def test_a_pause_before_a_retry_ends_when_the_window_is_closed():
    window = Window(1, 1)
    paused = threading.Thread(target=window.pause, args=(3600,), daemon=True)
    paused.start()
    window.close()
    paused.join(SECONDS)
    assert not paused.is_alive()


def test_a_retry_waits_for_the_back_off_or_as_long_as_the_other_side_asks(monkeypatch):
    pauses, errors = [], [Unavailable("busy", after=7.0), Unavailable("away"), ValueError("no")]
    monkeypatch.setattr(Window, "pause", lambda window, seconds: pauses.append(seconds))

    def write(batch):
        if errors:
            raise errors.pop(0)

    report = run([], record_batches(4), write=write, retries=3, backoff=Backoff(1.0, 9.0, 2.0, jitter=0))
    assert pauses == [7.0, 2.0, 4.0]
    assert (report["retries"], report["rows"]) == (3, 4)


def test_a_task_that_fails_waits_for_a_hanging_writer_only_so_long():
    hangs, release = threading.Event(), threading.Event()

    def write(batch):
        if batch[0] == (0,):
            hangs.set()
            assert release.wait(SECONDS)
        assert hangs.wait(SECONDS)
        raise ValueError("the other one")

    with pytest.raises(ValueError, match="the other one"):
        run([], record_batches(10, 10), write=write, threads=2, close_timeout=0.01)
    release.set()


def test_an_error_of_the_iterator_is_the_tasks_error_after_which_nothing_that_waits_is_written(monkeypatch):
    def batches():
        yield from record_batches(10, 10)
        raise OSError("the iterator")

    stopped = []
    monkeypatch.setattr(Batcher, "stop", lambda self: stopped.append(self))
    writer = Writer(lambda batch: task._window.pause(SECONDS))  # until it is closed
    task = SinkTask(replace(SETTINGS, make_writer=lambda info: writer), INFO)
    with pytest.raises(OSError, match="the iterator"):
        task.run(batches())
    assert len(stopped) == 1 and [what for what, _ in writer.calls] in (["write", "close"], ["close"], [])


def test_after_a_failure_no_more_is_read():
    read = []

    def batches():
        for batch in record_batches(10, 10, 10, 10):
            read.append(batch)
            yield batch
            task._window.pause(SECONDS)  # until it is closed

    def fail(batch):
        raise ValueError("no")

    task = SinkTask(replace(SETTINGS, make_writer=lambda info: Writer(fail)), INFO)
    with pytest.raises(ValueError, match="no"):
        task.run(batches())
    assert len(read) < 3
    with pytest.raises(DrainqError, match="0.0"):
        SinkTask(replace(SETTINGS, version="0.0"), INFO).run([])


def test_an_error_of_close_fails_the_task():
    class Closing(Writer):
        def close(self):
            raise OSError("close")

    with pytest.raises(OSError, match="close"):
        SinkTask(replace(SETTINGS, make_writer=lambda info: Closing()), INFO).run(record_batches(1))


def test_an_account_that_does_not_add_up_fails_the_task(monkeypatch):
    monkeypatch.setattr("drainq.spark.sink_writer.count", lambda rows: 1)
    with pytest.raises(DrainqError, match="account does not add up: 5 rows read, 1 done"):
        run([], record_batches(5))


def test_a_parked_row_comes_back_with_its_types():
    offered = []

    class Queue:
        def offer_or_update(self, key, payload, schedule_at):
            offered.extend([key, json.loads(json.dumps(payload))])

        def close(self):
            offered.append("closed")

    row = (b"\0\xff", Decimal("1.50"), None)
    parking = Parking(Queue)
    parking.park(row, "ValueError: no")
    parking.close()
    assert unpack(offered[1]["row"]) == row
    assert offered[0] == f"row/{hashlib.sha256(repr(row).encode()).hexdigest()}"
    assert offered[1]["error"] == "ValueError: no" and offered[2] == "closed"


def test_a_row_is_decided_on_as_the_writer_gets_it_and_its_error_is_parked_with_its_text():
    parked, asked = [], []
    queue = types.SimpleNamespace(offer_or_update=lambda key, payload, at: parked.append(payload), close=int)

    def write(batch):
        raise ValueError("no such page")

    writer = types.SimpleNamespace(write=write)
    for rows, row in ((Rows.TUPLES, (0,)), (Rows.RECORDS, {"n": 0}), (Rows.ARROW, {"n": 0})):
        settings = replace(
            SETTINGS, make_writer=lambda info: writer, rows=rows, delayed=lambda: queue,
            on_error=lambda row, error: asked.append(row) or "park",
        )  # fmt: skip
        report = SinkTask(settings, INFO).run(record_batches(1))
        assert (report["errors"], report["parked"], report["dropped"], asked.pop()) == (1, 1, 0, row)
        assert 0 <= report["seconds"] < SECONDS
        assert "no such page" in parked.pop()["error"]


def test_a_batch_without_rows_changes_nothing_for_those_that_wait():
    window = Window(1, 9)
    batcher = Batcher(replace(SETTINGS, max_batch_bytes=10**9), window)
    for batch in (*record_batches(2), *record_batches(0)):
        batcher.add(batch)
    assert not window._waiting
    batcher.stop()


def test_a_window_that_is_closed_waits_for_its_writers_as_long_as_it_is_told(monkeypatch):
    window, waited = Window(1, 1), []
    window.close()
    waiting = Call(lambda: window.wait_for_writers(PATIENCE))
    eventually(lambda: window._changed._waiters)
    assert not waiting.done()
    window.leave()
    waiting.result()
    still_open = Window(1, 1)
    waiting = Call(lambda: still_open.wait_for_writers(0))  # the time runs from a close
    eventually(lambda: still_open._changed._waiters)
    assert not waiting.done()
    still_open.leave()
    waiting.result()
    monkeypatch.setattr(Window, "wait_for_writers", lambda self, timeout: waited.append(timeout))
    with pytest.raises(DrainqError):
        run([], [pa.RecordBatch.from_pydict({"n": [1]})], close_timeout=7.0, write=lambda batch: 1 / 0)
    assert waited == [7.0]


def test_the_queue_of_parked_rows_is_closed_when_the_task_ends_and_when_it_fails():
    def write(batch):
        if len(batch) == 1:
            raise ValueError("no") if (0,) in batch else KeyError("for good")
        raise ValueError("one of them")

    for decide in (OnError.PARK, lambda row, error: "fail" if isinstance(error, KeyError) else "park"):
        said = []
        queue = types.SimpleNamespace(
            offer_or_update=lambda *message, said=said: said.append("parked"),
            close=lambda said=said: said.append("closed"),
        )
        settings = replace(
            SETTINGS, make_writer=lambda info: Writer(write), on_error=decide, delayed=lambda queue=queue: queue
        )
        with contextlib.suppress(KeyError):
            SinkTask(settings, INFO).run(record_batches(2))
        assert said[0] == "parked" and said[-1] == "closed" and said.count("closed") == 1
    never = replace(SETTINGS, make_writer=lambda info: Writer(), delayed=lambda: pytest.fail("nothing was parked"))
    assert SinkTask(never, INFO).run(record_batches(2))["rows"] == 2


def test_a_row_that_cannot_be_parked_fails_the_task_with_the_reason():
    def write(batch):
        raise ValueError("no row at all")

    def closed():
        raise ConnectionError("the queue is away")

    with pytest.raises(ConnectionError, match="the queue is away"):
        run([], record_batches(3), write=write, on_error=OnError.PARK, delayed=closed)


def test_what_a_function_that_decides_raises_is_the_tasks_error():
    def decide(row, error):
        raise LookupError(f"undecided about {row}")

    def write(batch):
        raise ValueError("no row at all")

    with pytest.raises(LookupError, match=r"undecided about \(0,\)"):
        run([], record_batches(3), write=write, on_error=decide)
    with pytest.raises(ValueError, match="on_error must return 'fail', 'skip' or 'park'") as wrong:
        run([], record_batches(3), write=write, on_error=lambda row, error: "maybe")
    assert str(wrong.value.__cause__) == "no row at all"
    with pytest.raises(ValueError, match="no row at all") as failed:
        run([], record_batches(3), write=write, retries=2)
    note = "raised by write on a batch of 3 rows, tried 3 times"
    assert getattr(failed.value, "__notes__", [note]) == [note]


def test_only_whole_batches_are_tried_again_and_each_try_is_counted(caplog):
    calls = []

    def write(batch):
        calls.append(len(batch))
        if any(n == 2 for (n,) in batch):
            raise ValueError("secret")

    report = run([], record_batches(4), write=write, on_error=OnError.SKIP, retries=2)
    assert caplog.text.count("write raised and is tried again: ValueError at") == 2 and "secret" not in caplog.text
    assert calls == [4, 4, 4, 2, 2, 1, 1]
    assert (report["retries"], report["batches"], report["rows"], report["dropped"]) == (2, 2, 3, 1)


def test_the_rest_that_a_delivery_inside_a_writer_names_is_not_taken_for_the_sinks():
    from drainq.delivery import Refused, Rest

    def write(batch):
        if len(batch) > 1:
            raise Refused("of another list", rest=Rest([("of", "another", "list")], [7]))

    report = run([], record_batches(4), write=write, on_error=OnError.SKIP)
    assert report["rows"] == 4
