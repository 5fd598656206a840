"""Coroutines of the delayed queue: the twins of the calls that wait, whose names end in ``_async``.

Database calls run on threads of the queue, at most as many calls at once as the queue has connections. The event
loop's default executor is not used, because waiting database calls would block the program's other work there. It also
ends with the loop, but a cancelled poll must release its messages even after ``asyncio.run`` has ended. Waiting for a
message uses a :class:`~drainq.loop_signal.LoopSignal`, so ten thousand waiting tasks hold no thread.

# Invariants

1. A separate thread releases the messages that a cancelled call takes, even if the loop has ended.
2. :meth:`CallThreads.close` returns only when these messages are released, or time runs out.
3. A forked child has its own threads and ignores the parent's calls.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

from drainq.delayed.own_connection import lent
from drainq.errors import ShutDown
from drainq.fork import renew_in_child
from drainq.threads import ClosedByBlock, start_aside, start_thread

Q = TypeVar("Q")
P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=ClosedByBlock)
_log = logging.getLogger("drainq")


def twin(
    method: Callable[Concatenate[Q, P], R], *, undo: Callable[[Q, R], object] | None = None
) -> Callable[Concatenate[Q, P], Coroutine[Any, Any, R]]:
    """Return the coroutine function that runs a method of a queue, or of a part of it, on one of the queue's threads.

    Args:
        method: waits for the database; its object has a ``_session``.
        undo: called with the method's result if the coroutine was cancelled meanwhile.
    """

    @functools.wraps(method)
    async def call(self: Q, /, *arguments: P.args, **more: P.kwargs) -> R:
        calls: CallThreads = self._session.calls  # type: ignore[attr-defined]
        if more.get("connection") is not None:
            async with lent(more["connection"]) as connection:
                more["connection"] = connection
                return await calls.complete(lambda: method(self, *arguments, **more))
        if undo is None:
            return await calls.run(method, self, *arguments, **more)
        return await calls.take(lambda: method(self, *arguments, **more), lambda taken: undo(self, taken))

    call.__name__ += "_async"
    call.__qualname__ += "_async"
    call.__doc__ = f"Call :meth:`{method.__name__}` as a coroutine." + (
        " When cancelled, release what it takes." if undo else ""
    )
    return call


def twin_of_open(opens: Callable[P, C]) -> Callable[P, Coroutine[Any, Any, C]]:
    """Return the coroutine function that opens a queue on a thread of its own; the queue has no threads yet."""

    @functools.wraps(opens)
    async def open_async(*arguments: P.args, **more: P.kwargs) -> C:
        running = start_aside(opens, *arguments, **more)
        try:
            return await asyncio.wrap_future(running)
        except (asyncio.CancelledError, GeneratorExit):
            running.add_done_callback(lambda _: start_aside(lambda: running.result().close()) and None)
            raise

    open_async.__name__, open_async.__qualname__ = "open_async", "DelayedQueue.open_async"
    open_async.__doc__ = "Call :meth:`open` as a coroutine. When cancelled, close what it opens."
    return open_async


class CallThreads:
    """Runs calls for coroutines. A thread starts when it is needed.

    Args:
        most: the most concurrent calls.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._renew_in_child()
        renew_in_child(self)

    def _renew_in_child(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._returning: set[Future[None]] = set()

    def submit(self, work: Callable[[], R]) -> Future[R]:
        """Run the call in a thread."""
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._most, thread_name_prefix="drainq-delayed")
            return self._executor.submit(work)

    async def run(self, call: Callable[P, R], /, *arguments: P.args, **more: P.kwargs) -> R:
        """Run the call in a thread and return its result.

        When the task is cancelled, a call that has not begun is dropped. A running call ends, and its result is lost.
        """
        context = contextvars.copy_context()
        return await asyncio.wrap_future(self.submit(lambda: context.run(call, *arguments, **more)))

    async def complete(self, call: Callable[[], R]) -> R:
        """Run the call in a thread and return its result. When the task is cancelled, wait for the end of the call."""
        running = self.submit(functools.partial(contextvars.copy_context().run, call))
        answer = asyncio.wrap_future(running)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            while not (running.cancel() or running.done()):
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([answer])
            raise

    async def take(self, call: Callable[[], R], give_back: Callable[[R], object]) -> R:
        """Run the call in a thread and return its result. When cancelled, pass the result to ``give_back``.

        If the event loop is closed before the task has ended, which ``asyncio.run`` never does, a message that was
        taken is delivered again when its lease ends.
        """
        running = self.submit(call)
        try:
            return await asyncio.wrap_future(running)
        except BaseException:
            if not running.cancelled() and not (running.done() and running.exception() is not None):
                self.give_back_after(running, give_back)
            raise

    def give_back_after(self, running: Future[R], give_back: Callable[[R], object]) -> Future[None]:
        """Pass the result of a call to ``give_back``, on a thread that :meth:`close` waits for."""
        returned: Future[None] = Future()
        with self._lock:
            self._returning.add(returned)

        def finish() -> None:
            try:
                give_back(running.result())
            except ShutDown:
                pass
            except Exception:
                _log.warning("could not give back what a cancelled call took; it comes back when its lease runs out")
            finally:
                with self._lock:
                    self._returning.discard(returned)
                returned.set_result(None)

        def taken(_: Future[R]) -> None:
            # A separate thread, because this may run on the loop's thread, and the pool may be busy or closed.
            start_thread(finish, name="drainq-give-back")

        running.add_done_callback(taken)
        return returned

    def close(self, timeout: float) -> bool:
        """Wait, at most ``timeout`` seconds, for results that are being released. Then end each thread after its calls.

        Returns:
            False if the time ran out.
        """
        with self._lock:
            returning, executor, self._executor = set(self._returning), self._executor, None
        late = wait(returning, timeout).not_done
        if executor is not None:
            executor.shutdown(wait=False)
        return not late
