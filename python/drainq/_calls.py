"""Python functions that the native module calls: logging, handlers, balancers.

Some call user code, on threads that may outlive the main thread. If CPython ends such a thread in a call, the native
module halts it (``crates/drainq-py/src/guarded_calls.rs``).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from drainq.callables import check_answer, check_callable
from drainq.logger import log as _log
from drainq.timer import SHARED, Alarm

# ``getLogger`` takes the lock that all of logging shares. A signal handler that raises while a producer's thread is in
# ``getLogger`` would leave the lock locked. So the logger is looked up once, at import.


def log(level: str, message: str, error: BaseException | None = None) -> None:
    """Write to the logger ``drainq``, with the error's traceback if there is one."""
    getattr(_log, level)("%s", message, exc_info=error)


def report_drops(message: str, on_drop: Callable[[str, int], object] | None, reason: str, count: int) -> None:
    """Report unhandled items to the log and to ``on_drop``."""
    try:
        log("warning", message)
    finally:  # ``on_drop`` is called even if Ctrl-C interrupts the log line
        if on_drop is not None:
            try:
                check_answer("on_drop", on_drop(reason, count))
            except Exception as error:
                log("error", "on_drop raised", error)


def later(seconds: float, work: Callable[[], object]) -> Alarm:
    """Call ``work`` after ``seconds`` on a thread of the timer."""
    return SHARED.after(seconds, work)


def handler_parts(name: str, handler: Any, loop: Any, number: int) -> tuple[Any, list[Any]]:
    """Return ``consume`` of a handler, and a list: ``on_idle``, ``on_close``, ``on_abandoned``, each None if missing.

    Args:
        name: the name of the caller's parameter.
        handler: a callable, or an object with ``consume``.
        loop: the event loop that runs ``async def`` handlers, or None.
        number: the number of the queue.
    Raises:
        TypeError: the handler is none of these, takes other arguments, or its call would run none of its code.
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
    """Call an error handler. Return the number of items that it put into its durable queue, or 0 if it has none."""
    counts = bool(getattr(handler, "dead_letters", False))
    answer = handler(batch, error)
    check_answer("the error handler", answer)
    return operator.index(answer) if counts else 0


def plan(balancer: Any, throughput: list[int], owners: list[int], threads: int) -> list[int] | None:
    """Ask a balancer (an object with ``assign``, or a callable) for new owners of the partitions."""
    answer = getattr(balancer, "assign", balancer)(throughput, owners, threads)
    return None if answer is None else [operator.index(owner) for owner in answer]
