"""Starts the daemon threads of drainq, which never delay the interpreter's exit, and runs waiting calls on them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from drainq.errors import DrainqError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import Self

    from drainq.arguments import Seconds

P = ParamSpec("P")
R = TypeVar("R")


def refuse_green_threads() -> None:
    """Raise an error if gevent or eventlet has patched ``threading``: a native wait would stop all green threads.

    The test is whether ``get_ident`` was replaced, which no debugger and no profiler does.
    """
    if not isinstance(threading.get_ident, BuiltinFunctionType):
        patched_by = str(getattr(threading.get_ident, "__module__", "another library")).partition(".")[0]
        raise DrainqError(
            f"{patched_by} has patched the module threading, and drainq needs real threads: leave threads out of the "
            "patch (gevent: monkey.patch_all(thread=False); eventlet: monkey_patch(thread=False)), or use drainq in "
            "another process"
        )


def start_thread(target: Callable[..., object], name: str, args: tuple[Any, ...] = ()) -> threading.Thread:
    """Start a daemon thread of this name that runs ``target`` with ``args``.

    Raises:
        RuntimeError: no more threads can be started, or the interpreter is ending.
        DrainqError: the module ``threading`` is patched.
    """
    refuse_green_threads()
    if sys.is_finalizing():  # before Python 3.12 ``start`` would wait for ever for a thread that cannot begin
        raise RuntimeError("can't start a thread while the interpreter ends")
    thread = threading.Thread(target=target, name=name, args=args, daemon=True)
    thread.start()
    return thread


async def run_aside(call: Callable[P, R], /, *arguments: P.args, **more: P.kwargs) -> R:
    """Run a waiting call on a separate thread, without stopping the event loop, and return its result.

    The event loop's executor is not used, because calls that wait would fill it, and other code needs it. If the
    coroutine is cancelled, the call continues, and its result is dropped.
    """
    import asyncio

    return await asyncio.wrap_future(start_aside(call, *arguments, **more))


def start_aside(call: Callable[P, R], /, *arguments: P.args, **more: P.kwargs) -> Future[R]:
    """Run a call on a thread of its own, in the caller's context, and return the future of its result."""
    import contextvars
    from concurrent.futures import Future

    running: Future[R] = Future()
    running.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            running.set_result(context.run(call, *arguments, **more))
        except BaseException as error:
            running.set_exception(error)

    start_thread(run, name="drainq-aside")
    return running


class ClosedByBlock:
    """The base class of objects that ``with`` and ``async with`` close at the end of the block."""

    def close(self, timeout: Seconds | None = None) -> bool:
        """Close the object. Return whether that was in time."""
        raise NotImplementedError

    async def close_async(self, timeout: Seconds | None = None) -> bool:
        """Call :meth:`close` as a coroutine. Cancelling it does not stop the close."""
        return await run_aside(self.close, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        await self.close_async()
