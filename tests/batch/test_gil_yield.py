"""The GIL between producers that never give it up and drain threads that need it.

A producer keeps the GIL here: no thread gets it by asking, for the switch interval is a quarter of an hour. So if
a handler is called at all, it is because a produce call yielded the GIL. Such a producer cannot wait for a
thread either, only let processor time pass; a drain thread that got none in that time is given another try.
"""

from __future__ import annotations

import _thread
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from drainq import BatchQueue, BufferStrategy
from tests.batch.conftest import PATIENCE

pytestmark = pytest.mark.needs_gil("there is a GIL to yield")

TRIES = 40
"""On one busy core up to 4 are needed."""


@contextmanager
def keeping_the_gil() -> Iterator[None]:
    """No other thread gets the GIL by asking for it."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1_000)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def pass_time(seconds: float) -> None:
    """Lets time pass with the GIL held."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def is_yielded(queue: BatchQueue, handled: list[Any], produce: Callable[[], object], times: int) -> bool:
    """Return whether one of `times` produce calls lets the handler run."""
    for _ in range(TRIES):
        assert queue.flush(PATIENCE)
        handled.clear()
        before = queue.stats().gil_yields
        with keeping_the_gil():
            for _ in range(times):
                produce()
                if handled:
                    break
                pass_time(0.0005)
            came = bool(handled)
        if came and queue.stats().gil_yields > before:
            return True
    return False


def queue_of(make_queue, **settings):
    handled: list[Any] = []
    # The nap after a flush is long enough for a try to begin within it; it finds what the try produced.
    queue = make_queue(strategy=BufferStrategy.IF_POSSIBLE, min_idle=0.02, **settings)
    queue.add_handler("all" if "dispatch_key" in settings else int, handled.extend)
    assert queue.produce(0)  # From here on its type is known.
    return queue, handled


WAYS = {
    "one-by-one": lambda queue: lambda: queue.produce(1),
    "lists": lambda queue: lambda: queue.produce_many([1, 2, 3]),
    "iterators": lambda queue: lambda: queue.produce_many(iter([1, 2, 3])),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("room", [{"buffer_size": 1_000}, {"capacity": 1_000, "buffer_size": 1_000_000}], ids=str)
def test_a_producer_whose_partition_or_queue_fills_up_lets_the_handler_run(make_queue, way, room):
    queue, handled = queue_of(make_queue, **room)
    produce = WAYS[way](queue)

    def fill_then_produce():
        while queue.stats().total_used < 300 and not handled:  # the fast path ends at a quarter; full it never is
            produce()
        produce()

    assert is_yielded(queue, handled, fill_then_produce, 150)
    assert queue.stats().rejected["full"] == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_drain_thread_that_waited_for_long_gets_the_gil_from_a_partition_that_is_nearly_empty(make_queue, way):
    queue, handled = queue_of(make_queue, buffer_size=1_000_000, dispatch_key=lambda item: "all")
    assert is_yielded(queue, handled, WAYS[way](queue), 100)


def test_a_handler_that_produces_lets_another_drain_thread_run(make_queue):
    queue = make_queue(threads=2, partitions=2, buffer_size=1_000, strategy=BufferStrategy.IF_POSSIBLE, min_idle=0.02)
    handled: list[Any] = []
    came: list[bool] = []

    def produce_others(batch):
        with keeping_the_gil():
            while not handled and queue.produce("other"):
                pass_time(0.0005)
            came.append(bool(handled))

    queue.add_handler(int, produce_others)
    queue.add_handler(str, handled.extend)
    for _ in range(TRIES):
        handled.clear()
        assert queue.produce(1)
        assert queue.flush(PATIENCE)
    assert len(came) == TRIES and any(came)
    assert queue.stats().gil_yields


def test_a_list_on_the_fast_path_checks_once_whether_a_drain_thread_waits(make_queue):
    """The partition is far less than a quarter full, so a push does not check; the call checks once, when it ends."""
    queue, handled = queue_of(make_queue, buffer_size=1_000_000)
    assert is_yielded(queue, handled, lambda: queue.produce_many([1, 2, 3]), 80)


def test_a_drain_thread_falls_idle_only_with_the_gil(make_queue):
    """A producer that holds it may be in the middle of a call that checks nothing; its item must be found."""
    queue = make_queue(min_idle=0.03)
    queue.add_handler(int, lambda batch: None)

    def stays():
        """Return whether an item stays where it is, because the thread that would take it waits for the GIL, or its
        producer yields to that thread."""
        for _ in range(2):  # twice in a row so many that a nap follows
            assert queue.produce_many([0] * 20_000)
            assert queue.flush(PATIENCE)
        with keeping_the_gil():  # within the nap
            pass_time(0.08)  # the nap is over, and nothing was found
            before = queue.stats().gil_yields
            assert queue.produce(1)
            pass_time(0.08)
            return queue.stats().total_used == 1 or queue.stats().gil_yields > before

    assert any(stays() for _ in range(TRIES))
    assert queue.flush(PATIENCE)


def ask_for_the_gil(queue: BatchQueue) -> bool:
    """Have the drain thread take an item and ask for the GIL, which it does not get; whether it took one."""
    assert queue._attempt(1).try_now()
    end = time.perf_counter() + 0.5
    while queue.stats().total_used and time.perf_counter() < end:
        pass
    pass_time(0.01)
    return queue.stats().total_used == 0


def fill_while_asked(queue):
    """Leaves no room while a drain thread asks for the GIL: false if none did."""
    if not ask_for_the_gil(queue):
        return False
    while queue._attempt(1).try_now():
        pass
    return True


def test_an_attempt_is_crowded_while_a_drain_thread_waits_for_the_gil_and_a_quarter_is_used(make_queue):
    queue, _ = queue_of(make_queue, buffer_size=8)

    def is_told():
        assert queue.flush(PATIENCE)
        with keeping_the_gil():
            taken, attempt = ask_for_the_gil(queue), queue._attempt(1)
            answers = [attempt.is_crowded()]
            for _ in range(2):
                assert queue._attempt(1).try_now()
                answers.append(attempt.is_crowded())
            return taken and answers == [False, False, True]

    assert any(is_told() for _ in range(TRIES))
    assert queue.flush(PATIENCE)
    assert not any(queue._attempt(1).is_crowded() for _ in range(3))


def test_a_wait_for_the_gil_is_counted_among_those_of_its_length(make_queue):
    queue, _ = queue_of(make_queue, buffer_size=8)
    waited = 0.02

    def is_counted():
        assert queue.flush(PATIENCE)
        longer = lambda: sum(count for bound, count in queue.stats().gil_waits if bound > waited)  # noqa: E731
        before = longer()
        with keeping_the_gil():
            asks = ask_for_the_gil(queue)
            pass_time(waited)
        assert queue.flush(PATIENCE)
        return asks and longer() > before

    assert any(is_counted() for _ in range(TRIES))


@pytest.mark.parametrize(
    "produce",
    [
        lambda queue: queue.produce(1),
        lambda queue: queue.offer(1),
        lambda queue: queue.offer(1, timeout=0),
        lambda queue: queue.produce_many([1]) == 1,
        lambda queue: queue.produce_many(iter([1])) == 1,
    ],
    ids=["produce", "offer", "offer at once", "a list", "an iterator"],
)
def test_an_item_without_room_is_refused_only_after_a_waiting_drain_thread_has_had_the_gil(make_queue, produce):
    queue, _ = queue_of(make_queue, buffer_size=8)

    def goes_in():
        assert queue.flush(PATIENCE)
        with keeping_the_gil():
            if not fill_while_asked(queue):
                return False
            return queue.stats().total_used == 8 and produce(queue)

    assert any(goes_in() for _ in range(TRIES))


def test_a_drain_thread_that_is_about_to_sleep_gets_the_gil_from_a_producer_without_room(make_queue):
    """What came after its last look woke nobody; without the GIL the thread would neither sleep nor look again."""
    room = 131_072
    queue = make_queue(min_idle=0.03, buffer_size=room, strategy=BufferStrategy.IF_POSSIBLE)
    queue.add_handler(int, lambda batch: None)

    def is_yielded_to():
        assert queue.flush(PATIENCE)  # of what the try before left
        for _ in range(2):  # twice in a row so many that a nap follows
            assert queue.produce_many([0] * 20_000) == 20_000
            assert queue.flush(PATIENCE)
        with keeping_the_gil():  # within the nap
            pass_time(0.08)  # the nap is over, and nothing was found
            assert queue.produce(1)
            pass_time(0.02)
            stays = queue.stats().total_used == 1
            return all(queue.produce(1) for _ in range(room)) and stays

    assert any(is_yielded_to() for _ in range(TRIES))


def test_an_item_without_room_whose_queue_closes_while_its_producer_yields_is_refused_as_closed(make_queue):
    def closes_meanwhile():
        queue, _ = queue_of(make_queue, buffer_size=8)
        assert queue.flush(PATIENCE)
        with keeping_the_gil():
            if not fill_while_asked(queue):
                return False
            _thread.start_new_thread(queue.shutdown, (PATIENCE,))  # it asks for the GIL, too
            queue.produce(1)
        return queue.stats().rejected["closed"] == 1

    assert any(closes_meanwhile() for _ in range(TRIES))
