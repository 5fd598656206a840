"""Python functions that the native module calls: logging, handlers, balancers.

They call user code several times, on threads that may outlive the main thread. Between two such calls there must be no
native code (``crates/drainq-py/src/gil.rs``).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from drainq.callables import check_answer, check_callable
from drainq.logger import log as _log
from drainq.timer import SHARED, Alarm

# ``getLogger`` takes the lock that all of logging shares. A signal handler that raises in there, on the thread of a
# producer, would leave it locked. So the logger is found once.


def log(level: str, message: str, error: BaseException | None = None) -> None:
    """Write to the logger ``drainq``, with the error's traceback if there is one."""
    getattr(_log, level)("%s", message, exc_info=error)


def report_drops(message: str, on_drop: Callable[[str, int], object] | None, reason: str, count: int) -> None:
    """Report unhandled items to the log and to ``on_drop``."""
    try:
        log("warning", message)
    finally:  # Ctrl-C while the line is written does not end ``on_drop``
        if on_drop is not None:
            try:
                check_answer("on_drop", on_drop(reason, count))
            except Exception as error:
                log("error", "on_drop raised", error)


def later(seconds: float, work: Callable[[], object]) -> Alarm:
    """Call ``work`` on a thread of the timer."""
    return SHARED.after(seconds, work)


def handler_parts(name: str, handler: Any, loop: Any, number: int) -> tuple[Any, list[Any]]:
    """Return the callables of a handler: ``consume``, and ``on_idle``, ``on_close`` and ``on_abandoned`` or None.

    Args:
        name: the name of the caller's parameter.
        handler: a callable, or an object with ``consume``.
        loop: the event loop that runs ``async def`` handlers, or None.
        number: the number of the queue.
    Raises:
        TypeError: the handler has another shape, or a call of it would run nothing.
    """
    taking = {"consume": ("batch",), "on_idle": (), "on_close": (), "on_abandoned": ("batch",)}
    consume, *parts = (part if callable(part := getattr(handler, each, None)) else None for each in taking)
    part_name = f"{name}.consume" if consume is not None else name
    if consume is None:
        if not callable(handler):
            wanted = "a callable that takes a list, or have a method consume(batch)"
            raise TypeError(f"{name} must be {wanted}; got {handler!r}")
        consume = handler
    if loop is not None:
        from drainq.aio import on_loop

        consume = on_loop(consume, loop, number)
    check_callable(part_name, consume, "batch")
    for (each, arguments), part in zip(list(taking.items())[1:], parts):
        if part is not None:
            check_callable(f"{name}.{each}", part, *arguments)
    return consume, parts


def report_failure(handler: Callable[[list[Any], BaseException], Any], batch: list[Any], error: BaseException) -> int:
    """Call an error handler. Return the number of items that it put into a durable queue, if it has one."""
    counts = bool(getattr(handler, "dead_letters", False))
    answer = handler(batch, error)
    check_answer("the error handler", answer)
    return operator.index(answer) if counts else 0


def plan(balancer: Any, throughput: list[int], owners: list[int], threads: int) -> list[int] | None:
    """Ask a balancer (an object with ``assign``, or a callable) for new owners of the partitions."""
    answer = getattr(balancer, "assign", balancer)(throughput, owners, threads)
    return None if answer is None else [operator.index(owner) for owner in answer]
