"""An item of many rows counts with its weight in all counters and in the calls of `on_drop`."""

import asyncio
import collections
import threading

import pytest

from drainq import BatchQueue, BatchQueueConfig, BufferStrategy, ThreadPolicy, WouldDeadlock
from tests.batch.conftest import PATIENCE, Gate, accounts


class Told:
    """An `on_drop` that adds up."""

    def __init__(self):
        self.sums = collections.Counter()

    def __call__(self, reason, count):
        self.sums[reason] += count


def full(make_queue, **settings):
    """Return a queue without room, whose items are their own weight, and whose handler holds an item of 1 row."""
    gate, told = Gate(is_open=False), Told()
    queue = make_queue(len_of=lambda item: item, buffer_size=10, consumer=gate, on_drop=told, **settings)
    assert queue.produce(1)
    gate.wait_entered()
    assert queue.produce(10)
    return queue, gate, told


def ends(queue, gate, told, **refused):
    """Open the gate, and check the whole account: 11 rows handled, the others refused for these reasons."""
    gate.open()
    assert queue.shutdown(PATIENCE) is True
    stats = queue.stats()
    accounts(stats)
    rejected = {reason: count for reason, count in stats.rejected.items() if count}
    assert (stats.handled, rejected, gate.items) == (11, refused, [1, 10])
    assert told.sums == {reason: count for reason, count in refused.items() if reason != "would_deadlock"}


@pytest.mark.parametrize(
    "refused",
    [
        pytest.param(lambda queue: queue.produce(7), id="produce"),
        pytest.param(lambda queue: queue.offer(7), id="offer"),
        pytest.param(lambda queue: queue.offer(7, timeout=0), id="offer-at-once"),
        pytest.param(lambda queue: queue.offer(7, timeout=0.001), id="offer-for-a-while"),
        pytest.param(lambda queue: queue.produce_many([3, 4]), id="produce_many"),
        pytest.param(lambda queue: queue.produce_many(iter([3, 4])), id="produce_many-of-an-iterator"),
    ],
)
def test_what_finds_no_room(make_queue, refused):
    queue, gate, told = full(make_queue, strategy=BufferStrategy.IF_POSSIBLE)
    assert not refused(queue)
    assert queue.stats().rejected["full"] == 7
    ends(queue, gate, told, full=7)


def test_what_waits_for_room_while_the_queue_closes(make_queue):
    queue, gate, told = full(make_queue)
    answers = []
    producers = [
        threading.Thread(daemon=True, target=lambda: answers.append(queue.produce(7))),
        threading.Thread(daemon=True, target=lambda: answers.append(queue.offer(8, timeout=PATIENCE))),
        threading.Thread(daemon=True, target=lambda: answers.append(queue.produce_many([9, 5]))),
    ]
    for producer in producers:
        producer.start()
    closing = threading.Thread(daemon=True, target=queue.shutdown)
    closing.start()
    for producer in producers:
        producer.join(PATIENCE)
    assert sorted(answers) == [0, False, False]
    gate.open()
    closing.join(PATIENCE)
    ends(queue, gate, told, closed=29)


def test_what_comes_after_the_close(make_queue):
    queue, gate, told = full(make_queue)
    gate.open()
    assert queue.shutdown(PATIENCE)
    assert [queue.produce(2), queue.offer(3, timeout=1), queue.produce_many([4, 5])] == [False, False, 0]
    ends(queue, gate, told, closed=14)


def test_what_a_handler_would_wait_for_itself(make_queue):
    told, refused = Told(), []

    def handler(batch):
        assert queue.produce(10)
        for call in (lambda: queue.produce(7), lambda: queue.offer(8, timeout=PATIENCE)):
            with pytest.raises(WouldDeadlock):
                call()
            refused.append(queue.stats().rejected["would_deadlock"])

    queue = make_queue(len_of=lambda item: 1 if item == "go" else item, buffer_size=10, on_drop=told)
    gate = Gate()
    queue.add_handler(str, handler)
    queue.add_handler(int, gate)
    assert queue.produce("go") and queue.flush(PATIENCE) and queue.flush(PATIENCE)
    stats = queue.stats()
    assert (refused, stats.failed, stats.handled, gate.items, told.sums) == ([7, 15], 0, 11, [10], {})
    assert stats.rejected["would_deadlock"] == 15


def test_what_fails_is_unrouted_kept_or_left_behind(make_queue):
    def keep_three(batch, error):
        return 3

    keep_three.dead_letters = True
    told, gate = Told(), Gate(is_open=False)
    queue = make_queue(
        len_of=lambda item: item[1], dispatch_key=lambda item: item[0], on_drop=told, on_error=keep_three
    )
    queue.add_handler("fails", lambda batch: 1 / 0)
    queue.add_handler("held", gate)
    queue.produce(("fails", 5))
    queue.produce(("unknown", 6))
    assert queue.flush(PATIENCE)
    queue.produce(("held", 4))
    gate.wait_entered()
    queue.produce(("fails", 20))
    assert queue.shutdown(0) is False
    stats = queue.stats()
    assert (stats.dead_lettered, stats.failed, stats.unrouted, stats.abandoned) == (3, 2, 6, 24)
    assert told.sums == {"unrouted": 6, "abandoned": 24}
    assert {name: (it.accepted, it.failed, it.unrouted) for name, it in stats.per_type.items()} == {
        "fails": (25, 5, 0),  # a type counts what was dead-lettered as failed
        "unknown": (6, 0, 6),
        "held": (4, 0, 0),
    }
    gate.open()


def test_what_has_no_rows_is_counted_and_told_nowhere():
    told = []
    config = BatchQueueConfig(
        threads=ThreadPolicy.fixed(1), len_of=lambda item: 0, on_drop=lambda reason, count: told.append((reason, count))
    )
    queue = BatchQueue("no rows", config)
    assert queue.produce("unrouted") and queue.produce_many(["unrouted"] * 2) == 2
    assert queue.shutdown(PATIENCE) is True
    assert queue.produce("closed") is False and queue.offer("closed", timeout=0) is False
    stats = queue.stats()
    accounts(stats)
    assert (stats.offered, stats.unrouted, stats.rejected["closed"], told) == (0, 0, 0, [])


def test_what_a_coroutine_gives_up():
    async def main():
        gate, told = Gate(is_open=False), Told()
        settings = BatchQueueConfig(
            threads=ThreadPolicy.fixed(1), len_of=lambda item: item, buffer_size=10, consumer=gate, on_drop=told
        )
        queue = BatchQueue("rows", settings)
        assert await queue.produce_async(1)
        await asyncio.to_thread(gate.wait_entered)
        assert await queue.produce_async(10)
        assert await queue.offer_async(7, timeout=0) is False
        assert await queue.offer_async(8, timeout=0.001) is False
        assert queue.stats().rejected["full"] == 15
        cancelled = asyncio.create_task(queue.produce_async(9))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert queue.stats().rejected["full"] == 24
        waiting = asyncio.create_task(queue.produce_async(6))
        await asyncio.sleep(0)
        end = asyncio.create_task(queue.shutdown_async())
        assert await waiting is False
        assert await queue.produce_async(5) is False
        gate.open()
        assert await end is True
        ends(queue, gate, told, full=24, closed=11)

    asyncio.run(main())


def test_a_flush_after_a_cut_says_that_items_without_weight_were_abandoned(make_queue):
    gate = Gate(is_open=False)
    queue = make_queue(consumer=gate, len_of=lambda item: item, max_batch=1)
    assert queue.produce_many([0, 0])
    gate.wait_entered()
    assert queue.shutdown(timeout=0.01) is False
    gate.open()
    assert queue.stats().abandoned == 0 and queue.flush(PATIENCE) is False


def test_a_flush_of_a_queue_whose_items_without_weight_were_all_handled_is_complete(make_queue):
    queue = make_queue(consumer=Gate(), len_of=lambda item: item)
    assert queue.produce_many([0, 0]) and queue.shutdown(PATIENCE) is True
    assert queue.flush(PATIENCE) is True
