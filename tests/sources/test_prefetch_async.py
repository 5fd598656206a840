"""``async for`` over a prefetching source: every item once, also with tasks that are cancelled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from drainq import Backoff
from drainq.sources import PrefetchSource
from drainq.sources.async_items import LONGEST_WAIT, AsyncItems, wait_for_refills


def test_it_ends_with_the_stream():
    async def main() -> list[int]:
        return [number async for number in PrefetchSource(iter(range(100)), 7, 2)]

    assert asyncio.run(main()) == list(range(100))


def test_it_waits_for_a_slow_source_and_the_event_loop_goes_on():
    let_go = threading.Event()

    def slow(n: int) -> list[str] | None:
        assert let_go.wait(30)
        return ["a"] if not asked.append(n) and len(asked) == 1 else None

    asked: list[int] = []

    async def main() -> list[str]:
        async def items() -> list[str]:
            return [item async for item in PrefetchSource(slow, 5, 1)]

        waiting = asyncio.create_task(items())
        for _ in range(100):  # the loop goes on, or the test would never end
            await asyncio.sleep(0)
        assert not waiting.done()
        let_go.set()
        return await waiting

    assert asyncio.run(main()) == ["a"]


def test_it_ends_with_the_close_and_hands_out_what_was_fetched():
    async def main() -> list[int]:
        source = PrefetchSource(lambda n: list(range(n)), 5, 1, eager=True)
        source.wait(30)
        await asyncio.to_thread(source.close)
        return [item async for item in source]

    assert asyncio.run(main()) == list(range(5))


def test_a_close_ends_the_wait_for_a_refill_that_hangs_when_its_time_is_over():
    asked, release = threading.Event(), threading.Event()
    source = PrefetchSource(lambda n: asked.set() or release.wait(30) or [], 5, 1, eager=True)
    assert asked.wait(30)
    assert asyncio.run(source.close_async(0.01)) is False and source.closed
    release.set()
    assert asyncio.run(source.close_async(30)) is True


def test_an_error_of_the_source_comes_out_of_the_loop():
    def broken(n: int) -> list[int]:
        raise OSError("away")

    async def main() -> None:
        source = PrefetchSource(broken, 5, 1, on_error="raise", backoff=Backoff(60.0, 60.0, 2.0))
        with pytest.raises(OSError, match="away"):
            async for _ in source:
                raise AssertionError("there is no item")
        await asyncio.to_thread(source.close)

    asyncio.run(main())


class FindsNothingAtFirst:
    """A source whose first pull is empty; the second gives, raises, or finds the end of the stream."""

    closed = False

    def __init__(self, second):
        self.answers = [[], second]
        self.listeners = []
        self.subscribe, self.unsubscribe = self.listeners.append, self.listeners.remove

    @property
    def finished(self) -> bool:
        return len(self.answers) == 1 and self.answers[0] is None

    def get_next_batch(self, _n):
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer or []


@pytest.mark.parametrize(
    ("second", "outcome"),
    [
        (["a"], "a"),
        (None, StopAsyncIteration),
        (OSError("away"), OSError),
        (asyncio.CancelledError(), asyncio.CancelledError),
    ],
)
def test_a_step_that_had_to_wait_leaves_no_listener_behind(second, outcome):
    source = FindsNothingAtFirst(second)

    async def main():
        try:
            return await AsyncItems(source).__anext__()
        except BaseException as error:
            return type(error)

    assert (asyncio.run(main()), source.listeners) == (outcome, [])


@pytest.mark.parametrize(("timeout", "longest"), [(None, LONGEST_WAIT), (3_600.0, LONGEST_WAIT), (0.1, 0.1)])
def test_a_wait_looks_again_although_no_refill_tells_it(timeout, longest, monkeypatch):
    waits, news = [], iter([False, False, True])

    class Silent:
        def give(self):
            """Tell nobody."""

        clear = give

        async def wait(self, seconds):
            waits.append(seconds)

    monkeypatch.setattr("drainq.sources.async_items.LoopSignal", Silent)
    source = PrefetchSource(lambda n: [], 5, 1)
    assert asyncio.run(wait_for_refills(source, lambda: next(news), timeout)) is True
    assert len(waits) == 2 and max(waits) <= longest
