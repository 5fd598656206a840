"""A prefetching source whose source is ``async def``: it keeps the promises of a plain one, on the program's event loop."""

from __future__ import annotations

import asyncio
import copy
import threading

import pytest

from drainq import Backoff, WouldDeadlock
from drainq.sources import PrefetchSource
from drainq.sources.async_source import ask_on_loop
from tests.sources.by_hand import HandExecutor, balanced
from tests.sources.threads import Call

SOON = Backoff(0.001, 0.001)


class Pages:
    """An async source: gives its answers one by one, each when the test lets it, then ends."""

    def __init__(self, *answers, opened=True):
        self.answers, self.asked, self.tasks = list(answers), [], []
        self.entered, self.gate = asyncio.Event(), asyncio.Event()
        if opened:
            self.gate.set()

    async def get_next_batch(self, n):
        self.asked.append(n)
        self.tasks.append(asyncio.current_task())
        self.entered.set()
        await self.gate.wait()
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        return answer


async def taken(source):
    return [item async for item in source]


ANSWERS = {
    "lists": ([[1, 2], [3], [4, 5]], [1, 2, 3, 4, 5]),
    "nothing now": ([[], [1], [], [2]], [1, 2]),
    "more than was asked for": ([range(50), [99]], [*range(50), 99]),
    "as they come": ([iter(range(50)), [99]], [*range(50), 99]),
    "duplicates": ([[1, 2, 1], [3]], [1, 2, 3]),
    "the end of an async iterator": ([[1], StopAsyncIteration(), [2]], [1]),
}


@pytest.mark.parametrize("shape", ["method", "function"])
@pytest.mark.parametrize("answers", ANSWERS)
def test_all_items_of_a_coroutine_arrive_once(answers, shape):
    async def main():
        given, expected = copy.deepcopy(ANSWERS[answers])
        pages = Pages(*given)

        async def function(n):
            return await pages.get_next_batch(n)

        async with PrefetchSource(pages if shape == "method" else function, 4, 1, backoff=SOON) as source:
            assert await taken(source) == expected
            assert balanced(source, len(expected)) and source.stats().errors == 0
            assert all(0 < n <= 4 for n in pages.asked) and source.finished

    asyncio.run(main())


def test_a_coroutine_is_asked_for_the_room_that_is_left_and_not_beside_itself():
    async def main():
        pages = Pages([1, 2, 3, 4], [5, 6, 7], opened=False)
        async with PrefetchSource(pages, 4, 1, eager=True) as source:
            await pages.entered.wait()
            assert [source.get_next_batch(1) for _ in range(100)] == [[]] * 100
            pages.entered.clear()
            pages.gate.set()
            while len(source) < 4 or source.stats().refilling:  # a pull during a refill asks for nothing
                await asyncio.sleep(0)
            assert pages.asked == [4]
            pages.gate.clear()
            assert source.get_next_batch(3) == [1, 2, 3]
            await pages.entered.wait()
            assert pages.asked == [4, 3]
            pages.gate.set()
            assert await taken(source) == [4, 5, 6, 7]

    asyncio.run(main())


def test_an_error_and_a_cancel_that_is_not_ours_are_reported_and_the_source_is_asked_again():
    async def main():
        heard = []
        pages = Pages(OSError("away"), asyncio.CancelledError(), "letters", [1])
        async with PrefetchSource(pages, 4, 1, backoff=SOON, on_error=heard.append) as source:
            assert await taken(source) == [1]
        assert [type(error).__name__ for error in heard] == ["OSError", "CancelledError", "UnfitItem"]

    asyncio.run(main())


@pytest.mark.parametrize("insists", [False, True], ids=["", "and returns items all the same"])
def test_a_close_cancels_the_coroutine_and_no_other_begins(insists):
    async def main():
        asked, was_cancelled, let_go, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event(), []

        async def hangs(n):
            asked.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(n)
                if insists:
                    was_cancelled.set()
                    await let_go.wait()
                    return [1, 2]
                raise

        heard = []
        async with PrefetchSource(hangs, 4, 1, eager=True, on_error=heard.append) as source:
            await asked.wait()
            if insists:  # or the end of the block closes the source, on another thread, which has to wake the loop
                assert not source.close()  # in the loop: it does not wait for the coroutine, which it cancels
                await was_cancelled.wait()
                assert not source.close()
                let_go.set()
        assert (cancelled, heard, source.stats().refilling) == ([4], [], False)
        assert await source.close_async(30)
        rest = [1, 2] if insists else []
        assert await taken(source) == rest and balanced(source, len(rest))

    asyncio.run(main())


def test_what_waits_for_the_thread_of_the_loop_is_refused():
    async def main():
        by_hand, heard = HandExecutor(), []
        source = PrefetchSource(Pages([1]), 4, 1, executor=by_hand, on_error=heard.append, eager=True)
        with pytest.raises(WouldDeadlock, match="async for"):
            source.wait(0)
        by_hand.run()
        assert "on the thread of that loop" in str(heard[0])
        with source:
            pass
        assert source.closed

    asyncio.run(main())


def test_another_thread_names_the_loop_and_a_closed_loop_is_an_error():
    async def numbers(n):
        return range(n)

    loop, heard, told = asyncio.new_event_loop(), [], threading.Event()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    source = PrefetchSource(
        numbers, 4, 3, loop=loop, backoff=SOON, on_error=lambda error: (heard.append(error), told.set())
    )
    try:
        assert source.wait(30) and source.get_next_batch(4) == [0, 1, 2, 3]
        while source.stats().refilling:  # its last step is the loop's
            told.wait(0.001)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
    source.get_next_batch(9)
    source.get_next_batch(9)
    assert told.wait(30) and "closed" in str(heard[0])
    assert source.close(30)


def test_no_request_begins_after_a_cancel_and_the_loop_that_was_named_is_the_one_that_runs_it():
    async def main(named):
        pages = Pages([1])
        ask = ask_on_loop(pages, None)
        ask.cancel()
        assert (await ask._answer(4), pages.asked) == ((), [])
        assert repr(ask_on_loop(pages, named)) == f"<{pages.get_next_batch!r} on {named!r}>"

    named = asyncio.new_event_loop()
    asyncio.run(main(named))
    named.close()


def test_a_loop_that_is_closed_during_a_request_is_an_error_and_a_cancel_after_it_is_none():
    async def hangs(n):
        entered.set()
        await asyncio.Event().wait()

    loop, entered = asyncio.new_event_loop(), asyncio.Event()
    ask = ask_on_loop(hangs, loop)
    asked = Call(lambda: ask(4))
    loop.run_until_complete(entered.wait())
    ask._task._log_destroy_pending = False
    loop.close()
    ask.cancel()
    with pytest.raises(RuntimeError, match="the event loop of the source .*hangs.* was closed during a batch"):
        asked.result()


@pytest.mark.parametrize("loop", [None, 7], ids=["none runs", "no loop"])
def test_a_source_without_an_event_loop_is_refused(loop):
    async def numbers(n):
        return range(n)

    with pytest.raises(TypeError, match="loop"):
        PrefetchSource(numbers, 4, 1, loop=loop)
