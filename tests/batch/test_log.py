"""A log that raises: what cannot be logged goes to `sys.unraisablehook`, and stops no thread of drainq; Ctrl-C is kept."""

from __future__ import annotations

import ctypes
import logging
import signal
import sys
from collections.abc import Iterator

import pytest

from drainq import BufferStrategy
from tests.batch.conftest import PATIENCE, Gate
from tests.batch.test_lifecycle import run
from tests.batch.test_shutdown import drain_threads, ended


class Raises(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        raise RuntimeError(f"cannot log: {record.getMessage()}")


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A log that raises, and what was told elsewhere because of it."""
    seen: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: seen.append(str(info.exc_value)))
    logger, raises = logging.getLogger("drainq"), Raises()
    logger.addFilter(raises)
    yield seen
    logger.removeFilter(raises)


def test_a_warning_that_cannot_be_logged_stops_no_drain_thread(make_queue, lost):
    told = []
    queue = make_queue(on_drop=lambda reason, count: told.append((reason, count)))
    for n in range(2):
        assert queue.produce(n) and queue.flush(PATIENCE)
    assert lost == [
        "cannot log: queue \"test-0\" has no handler for <class 'int'>: its items are counted as unrouted",
        'cannot log: queue "test-0": 1 items not handled: unrouted',
        'cannot log: queue "test-0": 1 items not handled: unrouted',
    ]
    assert queue.shutdown(PATIENCE)
    assert told == [("unrouted", 1)] * 2 and queue.stats().unrouted == 2


def test_a_failure_that_cannot_be_logged_fails_its_batch_and_no_other(make_queue, lost):
    seen = []

    def handler(batch):
        seen.extend(batch)
        1 / (batch[0] - 1)

    queue = make_queue(consumer=handler)
    for n in range(3):
        assert queue.produce(n) and queue.flush(PATIENCE)
    assert lost == ['cannot log: a handler of queue "test-0" raised on a batch of 1']
    stats = queue.stats()
    assert (seen, stats.handled, stats.failed) == ([0, 1, 2], 2, 1)


def test_an_error_handler_that_raises_is_told_of_with_what_it_was_to_handle(make_queue, lost):
    def raises(*_):
        raise KeyError("bad")

    queue = make_queue(consumer=raises, on_error=raises)
    assert queue.produce(1) and queue.flush(PATIENCE)
    assert lost == [
        'cannot log: a handler of queue "test-0" raised',
        'cannot log: and so did the error handler of queue "test-0"',
    ]
    assert queue.stats().failed == 1


def test_a_refusal_that_cannot_be_logged_is_counted_and_told(make_queue, lost):
    told, gate = [], Gate(is_open=False)
    queue = make_queue(
        buffer_size=1,
        strategy=BufferStrategy.IF_POSSIBLE,
        consumer=gate,
        on_drop=lambda reason, count: told.append((reason, count)),
    )
    assert queue.produce(0)
    gate.wait_entered()
    assert queue.produce_many([1, 2, 3, 4]) == 1
    assert queue.produce(5) is False and queue.offer(6) is False
    gate.open()
    assert queue.flush(PATIENCE) and queue.shutdown(PATIENCE)
    assert told == [("full", 3), ("full", 2)] and queue.stats().rejected["full"] == 5
    assert lost == [f'cannot log: queue "test-0": {count} items not handled: full' for count in (3, 2)]
    ended(drain_threads("test-0"))


@pytest.mark.system
def test_what_a_signal_handler_raises_while_a_lost_report_is_told_of_is_told_before_it(make_queue, lost):
    """`PyErr_SetInterrupt` runs no Python code, so the handler of the signal is called by what comes after on_drop."""

    def time_is_up(*_):
        raise TimeoutError("time is up")

    interrupt = ctypes.pythonapi["PyErr_SetInterrupt"]
    interrupt.restype = None
    queue = make_queue(on_drop=interrupt)
    assert queue.shutdown(PATIENCE)
    before = signal.signal(signal.SIGINT, time_is_up)
    try:
        assert queue.produce(1) is False
    finally:
        signal.signal(signal.SIGINT, before)
    assert lost == ["time is up", 'cannot log: queue "test-0": 1 items not handled: closed']
    assert queue.stats().rejected["closed"] == 1


CTRL_C = """
import _thread, logging, threading
from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy

def ctrl_c():
    _thread.interrupt_main()
    for _ in range(1_000):
        pass

class Handler(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())
        if {within!r} == "the log":
            ctrl_c()

def on_drop(reason, count):
    calls.append((reason, count))
    if {within!r} == "on_drop":
        ctrl_c()

lines, calls = [], []
logging.getLogger("drainq").addHandler(Handler())
queue = BatchQueue("interrupted", BatchQueueConfig(threads=ThreadPolicy.fixed(1), on_drop=on_drop))
queue.shutdown()
answers = []
try:
    answers.append(queue.produce(1))
    for _ in range(1_000):
        pass
except KeyboardInterrupt:
    answers.append("Ctrl-C")
print(answers[-1], calls, lines, queue.stats().rejected["closed"])
"""


@pytest.mark.system
@pytest.mark.parametrize("within", ["the log", "on_drop"])
def test_ctrl_c_while_a_drop_is_reported_comes_again_after_the_call(within):
    """The report raises nothing, so it is the program that must hear of Ctrl-C."""
    line = 'queue "interrupted": 1 items not handled: closed'
    assert run(CTRL_C.format(within=within)) == f"Ctrl-C [('closed', 1)] [{line!r}] 1\n"


def test_a_keyboard_interrupt_that_an_on_drop_raises_on_another_thread_ends_nothing():
    out = run(
        """
        import threading
        from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
        def on_drop(reason, count):
            if threading.current_thread() is not threading.main_thread():
                raise KeyboardInterrupt
        queue = BatchQueue("other", BatchQueueConfig(threads=ThreadPolicy.fixed(1), on_drop=on_drop))
        queue.produce(1)  # there is no handler: the drain thread reports it
        assert queue.flush(20)
        thread = threading.Thread(target=lambda: queue.produce(2))
        thread.start(), thread.join()
        print(queue.shutdown(20), queue.stats().unrouted)
        """
    )
    assert out == "True 2\n"


def test_ctrl_c_within_each_of_two_reports_of_one_call_comes_again_after_the_call():
    out = run(
        """
        import threading
        from drainq import BatchQueue, BatchQueueConfig, PartitionPolicy, ThreadPolicy
        leave, reported = threading.Event(), []
        def on_drop(reason, count):
            if threading.current_thread() is threading.main_thread():
                reported.append(reason)
                raise KeyboardInterrupt
        queue = BatchQueue("twice", BatchQueueConfig(
            threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.fixed(2), on_drop=on_drop))
        queue.add_handler(int, lambda batch: leave.wait())
        for unrouted in (1, 2):  # the second report waits
            queue.produce(1.5)
            while queue.stats().unrouted < unrouted:
                pass
        queue.produce(1)
        came = False
        try:
            queue.shutdown(0.05)
            for _ in range(1_000):
                pass
        except KeyboardInterrupt:
            came = True
        leave.set()
        print(came, reported[0])
        """
    )
    assert out == "True abandoned\n"
