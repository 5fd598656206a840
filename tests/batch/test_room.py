"""A producer at a full partition."""

import threading

import pytest

from drainq import (
    DrainqError,
    WouldDeadlock,
)
from tests.batch.conftest import PATIENCE, Gate, accounts
from tests.patience import eventually


def full_queue(make_queue, **settings):
    """Return a queue of two places, both taken, whose handler holds a third item."""
    gate = Gate(is_open=False)
    queue = make_queue(buffer_size=2, **settings)
    queue.add_handler(int, gate)
    queue.produce(0)
    gate.wait_entered()
    assert queue.produce(1) and queue.produce(2)
    return queue, gate


def test_offer_waits_until_its_timeout(make_queue):
    queue, gate = full_queue(make_queue)
    assert queue.offer(3, timeout=0) is False
    assert queue.offer(3, timeout=0.01) is False
    accepted = []
    producer = threading.Thread(target=lambda: accepted.append(queue.offer(4, timeout=PATIENCE)))
    producer.start()
    gate.open()
    producer.join(PATIENCE)
    assert accepted == [True]
    assert queue.stats().rejected["full"] == 2


def test_a_handler_that_waits_for_its_own_queue_is_told(make_queue):
    told = []
    queue = make_queue(buffer_size=1)

    def handler(batch):
        for call in (queue.flush, queue.shutdown, lambda: queue.remove_handler(str), lambda: queue.remove_handler(int)):
            try:
                told.append(call())
            except WouldDeadlock:
                told.append("refused")
        try:
            while True:
                queue.produce("more")
        except WouldDeadlock as error:
            told.append(str(error))

    queue.add_handler(int, handler)
    queue.produce(1)
    assert queue.flush(PATIENCE)
    assert told[:4] == ["refused", "refused", False, "refused"]
    assert "would" not in told[4] and "waits for room" in told[4]
    stats = queue.stats()
    assert stats.rejected["would_deadlock"] == 1
    assert stats.failed == 0
    assert issubclass(WouldDeadlock, DrainqError)


def test_a_handler_that_does_not_wait_for_its_own_full_queue_is_refused_alone(make_queue):
    queue, answers = make_queue(buffer_size=2), []
    queue.add_handler(int, lambda batch: answers.extend(queue.offer("more", timeout=0) for _ in range(4)))
    queue.produce(1)
    assert queue.flush(PATIENCE)
    stats = queue.stats()
    assert answers == [True, True, False, False]
    assert (stats.failed, stats.rejected["full"], stats.rejected["would_deadlock"]) == (0, 2, 0)


def test_a_handler_may_produce_into_its_own_queue_while_there_is_room(make_queue):
    queue, words = make_queue(), Gate()
    queue.add_handler(int, lambda batch: queue.produce_many([str(n) for n in batch]))
    queue.add_handler(str, words)
    queue.produce_many(range(5))
    queue.flush(PATIENCE)
    queue.flush(PATIENCE)
    assert words.items == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_a_long_list_waits_as_often_as_it_must_and_counts_all_it_put(make_queue, kind):
    """Each time room appears, a part of the rest goes in at once; the class is new, and known the second time."""
    gate, answers = Gate(is_open=False), []
    queue = make_queue(buffer_size=64, consumer=gate)
    assert queue.produce("hold")
    gate.wait_entered()
    for times in (1, 2):
        items = list(range(5000))
        producer = threading.Thread(
            daemon=True, target=lambda items=items: answers.append(queue.produce_many(kind(items)))
        )
        producer.start()
        gate.open()
        producer.join(PATIENCE)
        assert answers == [5000] * times
        assert queue.flush(PATIENCE)
        assert gate.items == ["hold", *items * times]
    stats = queue.stats()
    assert (stats.accepted, stats.handled, sum(stats.rejected.values())) == (10_001, 10_001, 0)


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_a_list_that_waits_for_room_when_the_queue_closes_counts_what_it_put_alone(make_queue, kind):
    gate, answers = Gate(is_open=False), []
    queue = make_queue(buffer_size=2, consumer=gate)
    assert queue.produce("hold")
    gate.wait_entered()
    producer = threading.Thread(daemon=True, target=lambda: answers.append(queue.produce_many(kind(range(5)))))
    producer.start()
    eventually(lambda: queue.stats().accepted == 3)
    assert queue.shutdown(0) is False
    producer.join(PATIENCE)
    gate.open()
    stats = queue.stats()
    assert (answers, stats.accepted, stats.abandoned, stats.rejected["closed"]) == ([2], 3, 3, 3)
    accounts(stats)


@pytest.mark.parametrize("call", ["produce", "offer", "produce_many", "offer, timed"])
def test_a_blocking_queue_lets_each_call_wait(make_queue, call):
    """The gate opens once the call has begun: its dispatch key has been asked for, and the call keeps the GIL."""
    gate, begun = Gate(is_open=False), threading.Event()

    def begins(item):
        if item == "waits":
            begun.set()
        return str

    def open_then():
        assert begun.wait(PATIENCE)
        gate.open()

    queue = make_queue(buffer_size=2, dispatch_key=begins, consumer=gate)
    assert queue.produce("hold")
    gate.wait_entered()
    assert queue.produce("a") and queue.produce("b")
    opener = threading.Thread(daemon=True, target=open_then)
    opener.start()
    calls = {
        "produce": lambda: queue.produce("waits"),
        "offer": lambda: queue.offer("waits"),
        "produce_many": lambda: queue.produce_many(["waits"]),
        "offer, timed": lambda: queue.offer("waits", timeout=PATIENCE),
    }
    assert calls[call]() == 1
    assert queue.flush(PATIENCE)
    assert gate.items == ["hold", "a", "b", "waits"]
    assert (queue.stats().offered, queue.stats().rejected["full"]) == (4, 0)
