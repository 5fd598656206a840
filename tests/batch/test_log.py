"""A log that raises: a record that cannot be logged goes to `sys.unraisablehook`, stops no thread of drainq, and Ctrl-C
is kept.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pytest

from tests.batch.conftest import PATIENCE
from tests.batch.test_lifecycle import run


class Raises(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        raise RuntimeError(f"cannot log: {record.getMessage()}")


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield a log that raises, and what was told elsewhere because of it."""
    seen: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: seen.append(str(info.exc_value)))
    logger, raises = logging.getLogger("drainq"), Raises()
    logger.addFilter(raises)
    yield seen
    logger.removeFilter(raises)


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
