"""From a batch queue's error handler into a delayed queue, and back."""

from __future__ import annotations

import threading

import pytest

from drainq.delayed import to_delayed_queue


def test_the_batch_and_its_error_come_again_after_the_delay(queue, world):
    handle = to_delayed_queue(queue, delay=10)
    assert handle(["row 1", {"row": 2}], ValueError("no such table")) == 2
    assert handle(["row 3"], ValueError("again")) == 1
    assert queue.try_poll() is None
    world.clock.advance(10)
    batch = queue.try_poll_many(10)
    assert batch.payload == [
        {"batch": ["row 1", {"row": 2}], "error": "ValueError: no such table"},
        {"batch": ["row 3"], "error": "ValueError: again"},
    ]
    assert len(set(batch.message_id)) == 2
    assert all(key.startswith("given-up/") for key in batch.message_id)
    assert "delay=60.0" in repr(to_delayed_queue(queue))


def test_two_failed_batches_of_equal_items_are_two_messages(queue):
    handle = to_delayed_queue(queue, delay=0)
    assert [handle(["ping"], ValueError("away")) for _ in range(2)] == [1, 1]
    assert [message["batch"] for message in queue.try_poll_many(9).payload] == [["ping"], ["ping"]]


def test_items_that_the_codec_cannot_encode_are_turned_into_something_it_can(queue, world):
    class Row:
        def __init__(self, n):
            self.n = n

    with pytest.raises(TypeError):
        to_delayed_queue(queue)([Row(1)], ValueError("x"))
    to_delayed_queue(queue, delay=0, encode_item=lambda row: {"n": row.n}, key_prefix="rows")([Row(1)], ValueError("x"))
    envelope = queue.try_poll()
    assert envelope.payload["batch"] == [{"n": 1}]
    assert envelope.message_id.startswith("rows/")


def test_what_a_batch_queue_gives_up_on_is_delivered_again_later(queue, world):
    from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy

    broken = threading.Event()
    broken.set()
    written: list[int] = []

    def write(batch):
        if broken.is_set():
            raise ConnectionError("the sink is away")
        written.extend(batch)

    config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=write, on_error=to_delayed_queue(queue, delay=60))
    with BatchQueue("rows", config) as rows:
        assert rows.produce_many(list(range(100))) == 100
        assert rows.flush(30)
        stats = rows.stats()
        assert (stats.accepted, stats.dead_lettered, stats.failed) == (100, 100, 0)
        broken.clear()
        world.clock.advance(60)
        stop = threading.Event()

        def again(envelope):
            assert envelope.payload["error"] == "ConnectionError: the sink is away"
            assert rows.produce_many(envelope.payload["batch"]) == len(envelope.payload["batch"])
            if queue.stats().ready == 0:
                stop.set()

        queue.consume(again, stop=stop)
        assert rows.flush(30)
    assert sorted(written) == list(range(100))
    assert queue.stats().in_flight == 0
