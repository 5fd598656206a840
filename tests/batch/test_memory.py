"""The memory of ended queues is freed: no list of live queues keeps a part of one."""

import pytest

from tests.batch.test_lifecycle import run
from tests.memory import needs_mallinfo

QUEUES = 50
"""Queues of a round. What is left of one, in a list that keeps it, is 600 bytes and more."""

SETTINGS = {
    "own thread": "threads=1",
    "scheduler": 'shared_scheduler=("memory", 1)',
    "weights": 'shared_scheduler=("memory", 1), len_of=lambda item: 2',
    "dispatch key": 'shared_scheduler=("memory", 1), dispatch_key=type',
}


@needs_mallinfo
@pytest.mark.parametrize("settings", SETTINGS)
def test_a_queue_that_has_ended_leaves_no_memory_behind(settings):
    """In a process of its own, where no other thread takes memory; what a list keeps shows in every round, noise does not."""
    out = run(
        f"""
        from drainq import BatchQueue, BatchQueueConfig
        from tests.memory import in_use

        def use(name):
            with BatchQueue(name, BatchQueueConfig(buffer_size=128, {SETTINGS[settings]})) as queue:
                queue.add_handler(int, len)
                assert queue.produce_many([0] * 100) == 100 and queue.flush()

        def left_by(first):
            before = in_use()
            for number in range(first, first + {QUEUES}):
                use(f"queue-{{number}}")
            return in_use() - before

        left_by(0)
        for round in range(1, 16):
            left = left_by(round * {QUEUES}) // {QUEUES}
            if left < 200:
                break
        print(left)
        """
    )
    assert int(out) < 200, "bytes for each queue"
