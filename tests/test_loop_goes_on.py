"""The event loop keeps running while a coroutine of the package waits.

A thread ends the wait only after the loop has run many other steps. A call that stops the loop would wait for the thread,
and the thread for the loop.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.patience import PATIENCE
from tests.test_cancel_in_every_step import CASES

TICKS = 50
ENDLESS = {name for name in CASES if name.startswith(("stream_async", "async for"))}
"""The coroutines that end with the shutdown, and not with an item."""


@pytest.mark.parametrize("name", CASES)
def test_the_loop_goes_on_beside_it(name):
    case, has_gone_on = CASES[name](), threading.Event()

    async def tick():
        for _ in range(TICKS):
            await asyncio.sleep(0)
        has_gone_on.set()

    async def main():
        waiting = asyncio.create_task(case.run())
        await asyncio.sleep(0)
        ticking = asyncio.create_task(tick())
        ending = asyncio.create_task(asyncio.to_thread(end))
        await asyncio.wait_for(asyncio.gather(ticking, ending), PATIENCE)
        ended, _ = await asyncio.wait([waiting], timeout=PATIENCE if name not in ENDLESS else 0)
        waiting.cancel()
        return waiting in ended, waiting.result() if waiting in ended else None

    def end():
        assert has_gone_on.wait(PATIENCE), "the event loop stands still"
        case.act()

    is_ended, answer = asyncio.run(main())
    assert is_ended or name in ENDLESS
    found, expected = case.books(answer)
    assert sorted(found) == expected
