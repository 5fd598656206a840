"""``async def`` sources: a request runs as a task of the program's event loop, while the thread of the refill waits.

The loop is the program's own, because the source's connections belong to it. The thread waits as it does for a
plain source, so one refill runs at a time and asks for the room that is left.

Invariants:
    1. Items that the coroutine returns enter the buffer by the rules of ``prefetch_read``, even after a cancel.
    2. No request begins after :meth:`AskOnLoop.cancel`, and a running request is cancelled once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from drainq.callables import is_async
from drainq.errors import WouldDeadlock

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

AsyncAsk = Callable[[int], Awaitable["Iterable[T] | None"]]
"""An ``async def`` that takes a batch size and answers as a plain source does."""


class AsyncPullSource(Protocol[T_co]):
    """An object that returns batches to a coroutine."""

    async def get_next_batch(self, batch_size: int, /) -> Iterable[T_co] | None:
        """Return up to ``batch_size`` items; None ends the stream."""
        ...


class AskOnLoop(Generic[T]):
    """Asks an ``async def`` source on an event loop. A forked child, which has no such loop, asks nothing.

    Args:
        source: the async function.
        loop: the event loop; None is the one that runs now.

    Raises:
        TypeError: ``loop`` is no event loop, or it is None and none runs here.
    """

    def __init__(self, source: AsyncAsk[T], loop: AbstractEventLoop | None) -> None:
        from asyncio import _get_running_loop  # asyncio loads with its first use

        from drainq.aio import check_loop

        loop = _get_running_loop() if loop is None else loop
        if loop is None:
            raise TypeError(
                f"source is an async function, got {source!r}, and no event loop runs here: make the PrefetchSource "
                "in a coroutine, or pass the loop that is to run it as loop="
            )
        check_loop(loop)
        self._source, self._loop = source, loop
        self._cancelled = False
        self._task: Task[Any] | None = None

    def __repr__(self) -> str:
        return f"<{self._source!r} on {self._loop!r}>"

    def __call__(self, batch_size: int) -> Iterable[T] | None:
        """Return the source's answer, on a thread that is not the event loop's."""
        from drainq.aio import run_on

        if self.is_here():
            raise WouldDeadlock(
                f"{self!r} was asked on the thread of that loop: leave out executor=, or run it elsewhere"
            )
        answer: Iterable[T] | None = run_on(self._loop, self._answer(batch_size), "source", self._source)
        return answer

    async def _answer(self, batch_size: int) -> Iterable[T] | None:
        import asyncio

        self._task = asyncio.current_task()  # first, so that ``cancel`` finds the task or the task sees ``_cancelled``
        try:
            return () if self._cancelled else await self._source(batch_size)
        except StopAsyncIteration:
            return None
        except asyncio.CancelledError:
            if self._cancelled:
                return ()
            raise
        finally:
            self._task = None

    def cancel(self) -> None:
        """Cancel the running request, and begin no other."""
        first, self._cancelled = not self._cancelled, True
        task = self._task
        if first and task is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(task.cancel)

    def is_here(self) -> bool:
        """Return whether the current thread runs the event loop now."""
        from drainq.aio import is_here

        return is_here(self._loop)


def ask_on_loop(source: Any, loop: AbstractEventLoop | None) -> AskOnLoop[Any] | None:
    """Return a callable for a source whose function or ``get_next_batch`` is ``async def``; None for other sources."""
    ask = getattr(source, "get_next_batch", source)
    return AskOnLoop(ask, loop) if is_async(ask) else None
