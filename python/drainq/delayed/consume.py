"""Runs the loops that pass messages to a handler (``consume_loop.py``), on threads and on event loops.

A loop is a generator, which yields each envelope for the handler and each pause. :func:`consume` runs a loop in the
caller's thread, or several loops on threads. :func:`consume_async` resumes each loop on the queue's threads. On the
caller's event loop, one task for each loop runs the handler and sleeps during pauses.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import suppress
from functools import partial
from typing import Any

from drainq.arguments import Seconds, seconds_or_none, whole
from drainq.callables import check_answer, check_callable, is_async
from drainq.delayed.consume_loop import ConsumerLoop, Pause, consumer_loop, too_long
from drainq.delayed.envelope import Leased
from drainq.delayed.storage_session import Session
from drainq.loop_signal import LoopSignal
from drainq.threads import start_aside

_STOP_CHECK = 0.1
"""Seconds between two checks of ``stop`` while there is nothing to do."""


def consume(
    session: Session,
    handler: Callable[[Any], object],
    *,
    stop: Any,
    concurrency: int,
    grace: Seconds | None,
    time_limit: Seconds | None,
    **options: Any,
) -> int:
    """Run the loop in this thread, or loops on threads; see :meth:`drainq.delayed.DelayedQueue.consume`."""
    check_callable("handler", handler, "envelope")
    if stop is not None and not callable(getattr(stop, "is_set", None)):
        raise TypeError(f"stop must have is_set(), as threading.Event has, got {stop!r}")
    concurrency, longest = whole("concurrency", concurrency, least=1), seconds_or_none("grace", grace)
    options["time_limit"] = seconds_or_none("time_limit", time_limit, positive=True)
    session.check_open()
    if concurrency == 1 and longest is None:
        return _run(consumer_loop(session, stop=stop, **options), handler, stop)
    ending = _Stop(stop)
    loops = [consumer_loop(session, stop=ending, **options) for _ in range(concurrency)]
    running: list[Future[int]] = []
    check = None if longest is None else _STOP_CHECK
    try:
        for loop in loops:
            running.append(start_aside(_run, loop, handler, ending))
        ended = wait(running, check, FIRST_EXCEPTION)
        while ended.not_done and not ending.is_set() and not any(each.exception() for each in ended.done):
            ended = wait(running, check, FIRST_EXCEPTION)
    finally:
        ending.is_cut_off = True
        try:
            wait(running, longest)
        finally:
            for loop in loops:
                loop.cut_off()
    for each in running:
        if each.done():
            each.result()
    return sum(loop.handled for loop in loops)


def _run(loop: ConsumerLoop, handler: Callable[[Any], object], stop: Any) -> int:
    """Run a loop in this thread."""
    steps = loop.run()
    error: BaseException | None = None
    step: Leased | Pause | int | None
    try:
        while True:
            step = loop.follow() if error is None else None
            if step is None:
                step = steps.send(error)
            error = None
            if isinstance(step, int):
                return step
            if isinstance(step, Pause):
                _sleep(loop.session, stop, step)
                continue
            began = time.monotonic()
            try:
                check_answer("the handler", handler(step))
            except BaseException as raised:
                error = raised
            loop.took = time.monotonic() - began
    finally:
        steps.close()


async def consume_async(
    session: Session,
    handler: Callable[[Any], Awaitable[object]],
    *,
    stop: asyncio.Event | None,
    concurrency: int,
    grace: Seconds | None,
    time_limit: Seconds | None,
    **options: Any,
) -> int:
    """Run loops with a handler on this event loop; see :meth:`drainq.delayed.DelayedQueue.consume_async`."""
    if not is_async(handler):
        raise TypeError(
            f"handler must be an async function that takes (envelope), got {handler!r}: write async def, or use consume"
        )
    if not (stop is None or isinstance(stop, asyncio.Event)):
        raise TypeError(f"stop must be an asyncio.Event or None, got {stop!r}")
    concurrency, longest = whole("concurrency", concurrency, least=1), seconds_or_none("grace", grace)
    limit = seconds_or_none("time_limit", time_limit, positive=True)
    if limit is not None:
        handler = _within(limit, handler)
    session.check_open()
    ends = [_Stop(stop) for _ in range(concurrency)]
    loops = [consumer_loop(session, stop=end, **options) for end in ends]
    if concurrency == 1 and longest is None:
        return await _run_async(loops[0], handler, ends[0], stop)
    tasks = [asyncio.ensure_future(_run_async(loop, handler, end, stop)) for loop, end in zip(loops, ends)]
    cutting = asyncio.ensure_future(_cut_off(tasks, stop, longest))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in (*tasks, cutting):
            task.cancel()
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()
    return sum(loop.handled for loop in loops)


def _within(limit: float, handler: Callable[[Any], Awaitable[object]]) -> Callable[[Any], Awaitable[object]]:
    """Return a handler that cancels ``handler`` after ``limit`` seconds, and then raises TimeoutError.

    ``handler`` runs in a separate task, so a cancel of the consumer is not mistaken for the time limit.
    """

    async def limited(envelope: Any) -> object:
        task = asyncio.ensure_future(handler(envelope))
        try:
            await asyncio.wait([task], timeout=limit)
            if task.done():
                return task.result()
            task.cancel()
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            _error_of(task)
            raise
        raise too_long(limit) from _error_of(task)

    return limited


def _error_of(task: asyncio.Future[object]) -> BaseException | None:
    """Return the error of a task that has ended. asyncio logs an error that was never read."""
    return None if task.cancelled() else task.exception()


async def _cut_off(tasks: Iterable[asyncio.Future[int]], stop: asyncio.Event | None, grace: float | None) -> None:
    """Cancel the tasks when ``grace`` seconds have passed since ``stop`` was set."""
    if stop is None or grace is None:
        return
    await stop.wait()
    await asyncio.sleep(grace)
    for task in tasks:
        task.cancel()


async def _run_async(
    loop: ConsumerLoop, handler: Callable[[Any], Awaitable[object]], stopped: _Stop, stop: asyncio.Event | None
) -> int:
    """Run a loop with a handler on this event loop."""
    session, error = loop.session, None
    steps = loop.run()
    changed = LoopSignal()
    stopping = None if stop is None else asyncio.create_task(stop.wait())
    if stopping is not None:
        stopping.add_done_callback(lambda _: changed.give())
    session.wakeup.add_listener(changed.give)
    running: Future[Leased | Pause | int] | None = None
    step: Leased | Pause | int | None
    try:
        while True:
            step = loop.follow() if error is None else None
            if step is None:
                running = session.calls.submit(partial(steps.send, error))
                step = await asyncio.shield(asyncio.wrap_future(running))
            error = None
            if isinstance(step, int):
                return step
            if isinstance(step, Pause):
                changed.clear()
                if session.wakeup.count() == step.noted and not (session.closed or stopped.is_set()):
                    await changed.wait(step.seconds)
                continue
            began = time.monotonic()
            try:
                await handler(step)
            except Exception as failed:
                error = failed
            finally:
                loop.took = time.monotonic() - began
    except BaseException as cut_off:
        stopped.is_cut_off = True
        if running is not None:
            ended = session.calls.give_back_after(running, lambda _: steps.close())
            if not isinstance(cut_off, GeneratorExit):
                await asyncio.shield(asyncio.wrap_future(ended))
        raise
    finally:
        session.wakeup.remove_listener(changed.give)
        if stopping is not None:
            with suppress(RuntimeError):  # the event loop was closed
                stopping.cancel()


class _Stop:
    """The ``stop`` of loops that run in the background. An interruption sets it too, so that handled messages are
    acknowledged.
    """

    def __init__(self, stop: Any) -> None:
        self._stop = stop
        self.is_cut_off = False

    def is_set(self) -> bool:
        return self.is_cut_off or (self._stop is not None and self._stop.is_set())


def _sleep(session: Session, stop: Any, pause: Pause) -> None:
    """Wait for an offer or the end of the pause, checking ``stop`` now and then."""
    if stop is None:
        session.wakeup.wait(*pause)
        return
    left = pause.seconds
    while left > 0 and not (session.closed or stop.is_set()):
        part = min(left, _STOP_CHECK)
        if session.wakeup.wait(pause.noted, part):
            return
        left -= part
