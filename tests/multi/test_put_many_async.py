"""``put_many_async`` puts what ``put_many`` puts, waits on the event loop, and always says how much went in."""

from __future__ import annotations

import asyncio

import pytest

from drainq import MultiQueue, SetQueue, ShutDown

from .test_twins import Kind, asleep

KINDS = {"plain": (MultiQueue, False), "unique": (MultiQueue, True), "set queue": (SetQueue, False)}


@pytest.fixture(params=KINDS)
def make(request):
    kind, unique = KINDS[request.param]

    def make(capacity=None):
        if not unique:
            return Kind(kind, capacity)
        both = Kind(SetQueue)
        both.queue = MultiQueue()
        both.end = both.queue.add_sub_queue("s", capacity=capacity, unique=True)
        return both

    return make


def test_it_waits_for_room_as_often_as_it_has_to(make):
    async def main():
        both = make(2)
        task = asyncio.create_task(both.end.put_many_async(iter(range(7)), timeout=60))
        taken = []
        while len(taken) < 7:
            taken += await both.queue.get_many_async(2)
        assert (await task, taken) == (7, list(range(7)))
        assert both.waiting()

    asyncio.run(main())


def test_what_did_not_fit_in_time_is_rejected_as_put_many_rejects_it(make):
    async def main():
        for seconds in (0, 0.001):
            both, other = make(3), make(3)
            assert await both.end.put_many_async("abcde".split() + list("xyz"), timeout=seconds) == 3
            assert other.end.put_many("abcde".split() + list("xyz"), timeout=seconds) == 3
            assert both.queue.stats().put == other.queue.stats().put == 3
            assert getattr(both.queue.stats(), "rejected", 1) == getattr(other.queue.stats(), "rejected", 1) == 1
            assert both.queue.get_many(9) == ["abcde", "x", "y"]
            assert both.waiting()

    asyncio.run(main())


def test_a_cancellation_says_how_many_went_in(make):
    async def main():
        both = make(2)
        accepted = []

        async def put():
            try:
                await both.end.put_many_async(range(5))
            except asyncio.CancelledError as error:
                accepted.append(error.accepted)
                raise

        task = asyncio.create_task(put())
        await asleep(both, putters=1)
        assert both.queue.get() == 0
        while both.queue.qsize() < 2:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert accepted == [3] and both.queue.get_many(9) == [1, 2]
        assert both.waiting() and getattr(both.queue.stats(), "rejected", 2) == 2

    asyncio.run(main())


def test_a_shutdown_says_how_many_went_in(make):
    async def main():
        both = make(2)
        task = asyncio.create_task(both.end.put_many_async(range(5)))
        await asleep(both, putters=1)
        both.queue.shutdown()
        with pytest.raises(ShutDown) as refused:
            await task
        assert refused.value.accepted == 2 and getattr(both.queue.stats(), "rejected", 3) == 3

    asyncio.run(main())


def test_a_task_that_is_woken_and_finds_no_room_keeps_its_place_in_the_line(make):
    async def main():
        both = make(1)
        both.end.put("first")
        many = asyncio.create_task(both.end.put_many_async(["a"]))
        await asleep(both, putters=1)
        one = asyncio.create_task(both.end.put_async("b"))
        await asleep(both, putters=2)
        assert both.queue.get() == "first"
        both.end.put("in between", block=False)
        for _ in range(5):  # the woken task is tried, finds no room, and sleeps again
            await asyncio.sleep(0)
        assert [await both.queue.get_async() for _ in range(3)] == ["in between", "a", "b"]
        await asyncio.gather(many, one)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["unique", "set queue"])
def test_a_key_that_raises_ends_it_with_what_went_in(kind):
    async def main():
        queue = MultiQueue()
        end = queue.add_sub_queue("s", unique=True) if kind == "unique" else SetQueue()
        with pytest.raises(TypeError) as refused:
            await end.put_many_async(["a", "a", "b", [], "c"])
        assert refused.value.accepted == 2 and (queue if kind == "unique" else end).qsize() == 2

    asyncio.run(main())


def test_duplicates_are_left_out_and_not_counted(make):
    both = make()
    items = [0, 1, 0, 2, 1]
    expected = make()
    count = expected.end.put_many(items)
    assert asyncio.run(both.end.put_many_async(items)) == count
    assert both.queue.get_many(9) == expected.queue.get_many(9)


@pytest.mark.parametrize("kind", ["unique", "set queue"])
def test_the_other_tasks_have_their_turns_while_many_are_put(kind):
    """A plain sub-queue takes any number in one native step; where each item is hashed, a thousand are one turn."""

    async def main():
        end, turns = MultiQueue().add_sub_queue("s", unique=True) if kind == "unique" else SetQueue(), 0

        async def others():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        assert await end.put_many_async(range(10_500)) == 10_500
        task.cancel()
        return turns

    assert 10 <= asyncio.run(main()) <= 13


def test_a_cancellation_between_two_turns_says_how_many_went_in():
    async def main():
        queue = SetQueue()
        waiting = queue.put_many_async(range(5_000))
        assert waiting.send(None) is None and waiting.send(None) is None
        with pytest.raises(KeyError) as thrown:
            waiting.throw(KeyError())
        assert thrown.value.accepted == len(queue) == 2_000
        with pytest.raises(RuntimeError, match="awaited already"):
            await waiting

    asyncio.run(main())


def test_one_that_is_dropped_or_refused_puts_nothing(make):
    both = make()
    with pytest.raises(ValueError, match="timeout"):
        both.end.put_many_async([1], timeout=-1)
    with pytest.raises(TypeError, match="put a single item into a list"):
        both.end.put_many_async("abc")
    with pytest.warns(RuntimeWarning, match=r"put_many_async' was never awaited"):
        both.end.put_many_async([1])
    assert both.queue.qsize() == 0
