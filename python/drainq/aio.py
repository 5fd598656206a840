"""The batch queue and asyncio: producing from a coroutine, and handlers that are ``async def``.

Producing: an item is pushed if there is room, in one step that never waits. While its partition is full the coroutine
sleeps, and the drain thread that makes room wakes it. So a full queue never stops the event loop, and no thread waits
on a coroutine's behalf. The coroutines of a partition wait in one line, and the threads in another: if both wait, the
first to try after room was made gets the room.

Handling: the drain thread hands the batch to the event loop of the configuration and waits, without the GIL, until the
handler's coroutine has ended there. So the queue's promises hold: one call of a handler at a time,
in order, each batch counted once.

# Invariants

1. Between the push of an item and the end of its coroutine nothing is awaited: a task that is cancelled has either its
   item in the queue and its result, or neither. An item that was given up counts as rejected.
2. A coroutine that would wait for its own handler call raises WouldDeadlock: ``HANDLING`` goes with the context of the
   call, into every task that the handler starts.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any

from drainq.callables import is_async
from drainq.errors import WouldDeadlock
from drainq.threads import run_aside

_AT_ONCE = 200  # items that are produced until the other tasks have a turn
_SLICE = 0.1  # seconds after which a drain thread checks whether the handlers' event loop was closed

HANDLING: ContextVar[tuple[int, ...]] = ContextVar("drainq_handling", default=())
"""The queues in whose async handlers the current task runs, by number."""


async def produce(queue: Any, item: object, timeout: float | None, number: int, waits: bool) -> bool:
    """Queue an item. ``waits``: whether to wait for room if there is no timeout."""
    if timeout is not None and not timeout >= 0:
        raise ValueError(f"timeout must be a number of seconds >= 0, or None, got {timeout!r}")
    attempt = queue._attempt(item)
    try:
        if attempt.is_crowded():
            await asyncio.sleep(0)  # the event loop releases the GIL while it polls for events
        accepted: bool | None = attempt.try_now()
        if accepted is not None:
            return accepted
        if timeout == 0 or (timeout is None and not waits):
            attempt.give_up()
            return False
        if number in HANDLING.get():
            attempt.would_deadlock()
            raise WouldDeadlock(
                f"a handler of queue {queue.name!r} awaits room in a full partition of the same queue, which only its "
                "own return can make; use offer_async(item, timeout=0), IF_POSSIBLE, or a larger buffer_size or "
                "capacity"
            )
        answer: bool = await attempt.when_room(timeout)
        return answer
    except BaseException:  # a cancelled task, or a loop that is closed
        attempt.give_up()
        raise


async def produce_many(queue: Any, items: Iterator[object], number: int, waits: bool) -> int:
    """Queue items in order. Return how many were accepted. An item is read only after the item before it was tried."""
    accepted = 0
    for count, item in enumerate(items, start=1):
        accepted += await produce(queue, item, None, number, waits)
        if not count % _AT_ONCE:
            await asyncio.sleep(0)
    return accepted


async def remove_handler(queue: Any, number: int, kind: object, timeout: float | None) -> bool:
    """Call ``remove_handler`` on a thread, which waits until the handler's queued items are handled."""
    _refuse_in_handler(queue, number, "remove_handler")
    removed: bool = await run_aside(queue.remove_handler, kind, timeout)
    return removed


async def end(queue: Any, number: int, name: str, timeout: float | None) -> Any:
    """Wait as the method ``name`` of the queue does: ``flush``, or one that shuts the queue down.

    After the last handler call the method itself runs on a thread. It joins the drain threads, and in a queue of a
    shared scheduler it calls ``on_close``.
    """
    _refuse_in_handler(queue, number, name)
    if name == "flush":
        return await queue._when_flushed(timeout)
    is_over = await queue._when_ended(timeout)
    return await run_aside(getattr(queue, name), timeout if is_over else 0.0)


async def end_all(shutdown_all: Callable[[Any], bool], timeout: Any) -> bool:
    """Shut all queues down on a thread."""
    if HANDLING.get():
        raise WouldDeadlock(
            "shutdown_all_async was awaited in a handler, which it would wait for; await it in another task"
        )
    return await run_aside(shutdown_all, timeout)


def _refuse_in_handler(queue: Any, number: int, name: str) -> None:
    if number in HANDLING.get():
        raise WouldDeadlock(
            f"{name}_async of queue {queue.name!r} was awaited in one of its own handlers, which it would wait for; "
            "await it in another task"
        )


async def entered(queue: Any) -> Any:
    """Return the queue, for ``async with``."""
    return queue


def on_loop(handler: Any, loop: asyncio.AbstractEventLoop | None, number: int) -> Any:
    """Return a callable that runs an ``async def`` handler on the loop and waits. Return other handlers unchanged."""
    if loop is None or not is_async(handler):
        return handler
    return _OnLoop(handler, loop, number)


class _OnLoop:
    def __init__(
        self, handler: Callable[[list[Any]], Coroutine[Any, Any, object]], loop: asyncio.AbstractEventLoop, number: int
    ) -> None:
        self._handler = handler
        self._loop = loop
        self._number = number

    def __repr__(self) -> str:
        return f"<{self._handler!r} on {self._loop!r}>"

    def __call__(self, batch: list[Any]) -> None:
        coroutine = self._handler(batch)
        before = HANDLING.set((*HANDLING.get(), self._number))  # call_soon_threadsafe copies the context
        try:
            run_on(self._loop, coroutine, "handler", self._handler)
        finally:
            HANDLING.reset(before)


def run_on(loop: Any, coroutine: Coroutine[Any, Any, Any], role: str, function: object) -> Any:
    """Run a coroutine on another thread's event loop, and return its result. Errors name ``role`` and ``function``."""
    try:
        running = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except BaseException:  # the loop is closed
        coroutine.close()
        raise
    while True:
        concurrent.futures.wait([running], _SLICE)
        if running.done():
            return running.result()
        if loop.is_closed():
            coroutine.close()
            raise RuntimeError(f"the event loop of the {role} {function!r} was closed during a batch")


def check_loop(loop: object) -> None:
    """Raise TypeError if the object is no event loop."""
    if not isinstance(loop, asyncio.AbstractEventLoop):
        raise TypeError(f"loop must be an asyncio event loop, such as asyncio.get_running_loop(), got {loop!r}")


def is_here(loop: object) -> bool:
    """Return whether the current thread runs this event loop now."""
    return asyncio._get_running_loop() is loop
