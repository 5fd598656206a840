"""Threads that wait in a set queue; nothing here sleeps."""

from __future__ import annotations

from collections.abc import Callable

from drainq import SetQueue
from tests.patience import PATIENCE, Call, eventually

__all__ = ["PATIENCE", "Call", "blocked", "eventually", "waits"]


def waits(waiting: SetQueue, getters: int = 0, putters: int = 0) -> None:
    """Yield to other threads until so many of them wait in the queue."""

    def blocked() -> tuple[int, int]:
        stats = waiting.stats()
        return stats.blocked_getters, stats.blocked_putters

    eventually(lambda: blocked() == (getters, putters), f"{getters} getters and {putters} putters do not wait")


def blocked(call: Callable[[], object], outcome: list) -> Call:
    """Start a thread in a call of the queue; its answer, or the class of its error, goes into the outcome."""

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:
            outcome.append(type(error))

    return Call(run)
