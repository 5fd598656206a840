"""Messages for users: every refusal, and errors with their traceback."""

import collections
import ctypes
import io
import logging
import re
import threading
import traceback

import pytest

from drainq import (
    BatchQueue,
    BatchQueueConfig,
    BatchQueueManager,
    BufferStrategy,
    DrainqError,
    PartitionPolicy,
    PartitionSelector,
    ThreadPolicy,
)
from drainq.timer import SHARED
from tests.batch.conftest import PATIENCE, Gate, accounts, within_a_second
from tests.batch.test_lifecycle import run
from tests.batch.test_shutdown import drain_threads


class Told:
    """An `on_drop` that adds up, and can be waited for."""

    def __init__(self):
        self.calls, self.sums, self.changed = [], collections.Counter(), threading.Condition()

    def __call__(self, reason, count):
        with self.changed:
            self.calls.append((reason, count))
            self.sums[reason] += count
            self.changed.notify_all()

    def wait_for(self, reason, count):
        with self.changed:
            assert self.changed.wait_for(lambda: self.sums[reason] >= count, PATIENCE), self.calls
            assert self.sums[reason] == count


def test_refusals_after_the_close_are_told_without_a_further_one(make_queue):
    def refuse():
        told = Told()
        queue = make_queue(on_drop=told)
        queue.shutdown(PATIENCE)
        for n in range(10):
            assert queue.produce(n) is False
        return told, list(told.calls)

    told, at_once = within_a_second(refuse)
    assert at_once == [("closed", 1)], "the others wait for the second to be over"
    told.wait_for("closed", 10)
    assert told.calls == [("closed", 1), ("closed", 9)]


def test_what_an_on_drop_loses_while_a_thread_of_drainq_calls_it_is_told_by_that_thread(make_queue):
    def lose_two():
        told, threads = Told(), []

        def on_drop(reason, count):
            threads.append(threading.current_thread().name)
            told(reason, count)
            if len(threads) == 2:
                assert queue.produce("a third") is False

        queue = make_queue(on_drop=on_drop)
        queue.shutdown(PATIENCE)
        assert not queue.produce("a first") and not queue.produce("a second")
        return told, threads

    told, threads = within_a_second(lose_two)
    told.wait_for("closed", 3)
    assert threads == ["MainThread", "drainq-timer", "drainq-timer"]


def test_the_last_refusals_of_a_burst_are_told_while_the_queue_runs(make_queue):
    told, gate = Told(), Gate(is_open=False)
    queue = make_queue(on_drop=told, consumer=gate, buffer_size=1, strategy=BufferStrategy.IF_POSSIBLE)
    queue.produce(0)
    gate.wait_entered()
    refused = [queue.produce(n) for n in range(50)].count(False)
    told.wait_for("full", refused)
    assert refused == queue.stats().rejected["full"] == 49
    gate.open()


@pytest.mark.parametrize("end", ["flush", "shutdown"])
def test_a_flush_and_a_shutdown_tell_what_waits(make_queue, end):
    told = Told()
    queue = make_queue(on_drop=told)
    for _ in range(4):
        queue.produce_many(list("abc"))
        queue.flush(PATIENCE)
    queue.produce_many(list("abc"))
    getattr(queue, end)(PATIENCE)
    told.wait_for("unrouted", 15)  # the timer may be in the middle of a report
    assert queue.stats().unrouted == 15


def test_a_queue_that_goes_tells_what_waits():
    told = Told()
    queue = BatchQueue("gone", BatchQueueConfig(threads=ThreadPolicy.fixed(1), on_drop=told))
    queue.shutdown(PATIENCE)
    produce = queue.produce
    for n in range(5):
        produce(n)
    del queue, produce
    told.wait_for("closed", 5)


def test_the_end_of_a_queue_waits_for_no_handler_of_the_log_and_calls_nothing():
    """It may be the work of the garbage collector, which runs on any thread and under any lock."""
    told, threads = Told(), []
    logger, held = logging.getLogger("drainq"), logging.StreamHandler(io.StringIO())

    def on_drop(reason, count):
        threads.append(threading.current_thread())
        told(reason, count)

    queues = [BatchQueue("gone", BatchQueueConfig(threads=ThreadPolicy.fixed(1), on_drop=on_drop))]
    queues[0].shutdown(PATIENCE)
    for n in range(5):
        queues[0].produce(n)
    ender = threading.Thread(target=queues.clear)
    logger.addHandler(held)
    try:
        with held.lock:
            ender.start()
            ender.join(PATIENCE)
            assert not ender.is_alive(), "it waits for the log"
    finally:
        logger.removeHandler(held)
    told.wait_for("closed", 5)
    assert [thread.name for thread in threads] == ["MainThread", "drainq-timer"]


@pytest.mark.system
def test_the_exit_tells_what_waits():
    out = run(
        """
        from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
        queue = BatchQueue("exit", BatchQueueConfig(threads=ThreadPolicy.fixed(1),
                                                    on_drop=lambda reason, count: print(reason, count, flush=True)))
        queue.shutdown()
        for n in range(100):
            queue.produce(n)
        """
    )
    assert out == "closed 1\nclosed 99\n"


def test_an_on_drop_that_raises_is_logged_and_the_totals_stay_exact(make_queue, caplog):
    def raises(reason, count):
        told[-1](reason, count)
        raise RuntimeError("from on_drop")

    def lose_three():
        caplog.clear()
        told.append(Told())
        queue = make_queue(on_drop=raises)
        queue.shutdown(PATIENCE)
        for n in range(3):
            queue.produce(n)
        queue.shutdown(PATIENCE)

    told = []
    within_a_second(lose_three)
    told[-1].wait_for("closed", 3)
    errors = [record for record in caplog.records if record.exc_info]
    assert [record.message for record in errors] == ["on_drop raised"] * 2
    assert "from on_drop" in "".join(traceback.format_exception(*errors[0].exc_info))


def buggy_line(batch):
    raise KeyError(batch[0])


def test_an_error_handler_gets_the_traceback_of_the_handlers_frames(make_queue):
    errors = []
    queue = make_queue(on_error=lambda batch, error: errors.append(error), consumer=buggy_line)
    queue.produce("item")
    assert queue.flush(PATIENCE)
    frames = traceback.extract_tb(errors[0].__traceback__)
    assert [frame.name for frame in frames] == ["buggy_line"]


def test_the_log_shows_both_errors_when_the_error_handler_raises_too(make_queue, caplog):
    def worse(batch, error):
        raise OSError("worse")

    queue = make_queue(consumer=buggy_line, on_error=worse)
    queue.produce("item")
    assert queue.flush(PATIENCE)
    shown = ["".join(traceback.format_exception(*record.exc_info)) for record in caplog.records]
    assert len(shown) == 2 and "in buggy_line" in shown[0] and "in worse" in shown[1]
    assert queue.stats().failed == 1


def test_an_exception_from_another_thread_fails_a_batch_and_loses_nothing():
    class Asked(Exception):
        pass

    def handler(batch):
        if batch == ["raise"]:
            ask(threading.get_ident())
        seen.extend(batch)

    def ask(thread):
        assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Asked)) == 1

    seen, errors, config = (
        [],
        [],
        BatchQueueConfig(
            threads=ThreadPolicy.fixed(1),
            consumer=handler,
            on_error=lambda batch, error: errors.append((batch, type(error))),
        ),
    )
    queue = BatchQueue("asked", config)
    (thread,) = drain_threads("asked")
    queue.produce("raise")
    assert queue.flush(PATIENCE)
    ask(thread.ident)  # it sleeps, or is about to
    queue.produce("next")
    assert queue.flush(PATIENCE)
    queue.produce("last")
    assert queue.shutdown(PATIENCE) is True
    stats = queue.stats()
    assert seen == ["last"] and (stats.handled, stats.failed) == (1, 2)
    assert errors == [(["raise"], Asked), (["next"], Asked)]


@pytest.mark.parametrize(
    "settings", [{"threads": ThreadPolicy.fixed(4)}, {"shared_scheduler": ("serial", ThreadPolicy.fixed(4))}]
)
def test_a_handler_is_called_by_one_thread_at_a_time_however_its_items_are_spread(settings):
    inside, most, total = [], [], [0]

    def handler(batch):
        inside.append(1)
        most.append(len(inside))
        gone.wait(0.0002)  # gives the GIL up
        inside.pop()
        total[0] += len(batch)

    gone = threading.Event()
    config = BatchQueueConfig(partitions=PartitionPolicy.fixed(4), partition_selector=PartitionSelector.round_robin(),
                              max_batch=5, **settings)  # fmt: skip
    queue = BatchQueue("serial", config)
    queue.add_handler(int, handler)
    queue.produce_many(range(1_000))
    assert queue.shutdown(PATIENCE) is True
    BatchQueueManager.shutdown_all(PATIENCE)
    accounts(queue.stats())
    assert (max(most), total[0]) == (1, 1_000)


def test_a_shutdown_that_was_interrupted_while_it_joined_is_finished_by_the_next(monkeypatch):
    class Late(Gate):
        consume = Gate.__call__

        def on_close(self):
            self("closing")

    gate = Late(is_open=False)
    queue = BatchQueue("joined", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=gate))
    (thread,) = drain_threads("joined")

    def interrupted(self, timeout=None):
        raise KeyboardInterrupt

    gate.open()
    monkeypatch.setattr(threading.Thread, "join", interrupted)
    monkeypatch.setattr(threading.Thread, "is_alive", lambda self: True)
    with pytest.raises(KeyboardInterrupt):
        queue.shutdown(PATIENCE)
    monkeypatch.undo()
    joined = []
    monkeypatch.setattr(thread, "is_alive", lambda: not joined)
    monkeypatch.setattr(thread, "join", lambda timeout: joined.append(timeout))
    assert queue.shutdown(PATIENCE) is True
    assert joined, "the thread is still waited for"


@pytest.mark.parametrize("on_drop", [None, lambda reason, count: None], ids=["without on_drop", "with on_drop"])
def test_each_refusal_is_in_the_log_once(make_queue, caplog, on_drop):
    queue = make_queue(on_drop=on_drop)
    assert queue.produce_many(list("abcd")) == 4
    assert queue.shutdown(PATIENCE)
    assert queue.produce_many(list("efg")) == 0
    assert queue.shutdown(PATIENCE)
    told = [record.getMessage() for record in caplog.records if "not handled" in record.getMessage()]
    pattern = re.compile(r'queue "test-0": (\d+) items not handled: (\w+)')
    sums = collections.Counter()
    for line in told:
        count, reason = pattern.fullmatch(line).groups()
        sums[reason] += int(count)
    assert sums == {"unrouted": 4, "closed": 3}
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_the_refusals_of_a_second_burst_are_told_too(make_queue):
    told = Told()
    queue = make_queue(on_drop=told)
    queue.shutdown(PATIENCE)
    for total in (5, 10):
        for n in range(5):
            assert queue.produce(n) is False
        told.wait_for("closed", total)


def test_refusals_are_told_at_once_while_no_alarm_can_be_set(make_queue, monkeypatch):
    told = Told()
    queue = make_queue(on_drop=told)
    queue.shutdown(PATIENCE)

    def cannot(seconds, work):
        raise DrainqError("patched threads")

    with monkeypatch.context() as patch:
        patch.setattr(SHARED, "after", cannot)
        for n in range(3):
            assert queue.produce(n) is False
        assert told.calls == [("closed", 1)] * 3
    assert queue.produce_many([1, 2]) == 0
    assert told.calls == [("closed", 1)] * 3, "the timer tells the others later"
    told.wait_for("closed", 5)
    assert told.calls[3:] == [("closed", 2)]
