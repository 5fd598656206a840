"""A warning of a set-up mismatch points at the line of the call that it warns of."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from drainq import BatchQueue, BatchQueueConfig, BatchQueueManager, DrainqWarning

ONE = BatchQueueConfig(threads=1, consumer=len)
SHARED = BatchQueueConfig(shared_scheduler=("warned", 1), consumer=len)


def make_first() -> None:
    BatchQueueManager.get_or_create("first", SHARED)


CALLS: dict[str, Callable[[], object]] = {
    "threads": lambda: BatchQueue("cut", ONE.replace(threads=4, partitions=2)).shutdown(),
    "handler": lambda: BatchQueueManager.get("first").add_handler(int, len),
    "settings": lambda: BatchQueueManager.get_or_create("first", SHARED.replace(buffer_size=7)),
    "scheduler": lambda: BatchQueueManager.create("second", SHARED.replace(shared_scheduler=("warned", 2))),
}


@pytest.mark.usefixtures("clean_manager")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_warning_points_at_the_line_of_the_call(call: Callable[[], object]) -> None:
    make_first()
    gc.collect()  # of other tests, which may warn when they are collected
    with pytest.warns(DrainqWarning) as caught:
        call()
    [warning] = caught
    assert (warning.filename, warning.lineno) == (__file__, call.__code__.co_firstlineno)
