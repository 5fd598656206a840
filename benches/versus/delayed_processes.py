"""Consumers in processes of their own: started once, given their work through pipes, timed inside.

Each process holds one contestant. A round begins at a barrier and ends with the last message that any of them
finished; all clocks are the machine's one monotonic clock. That every message was taken exactly once is checked in
every round.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from benches.versus.delayed_workers import CONTESTANTS

_SPAWN = multiprocessing.get_context("spawn")


class Remaining:
    """How many messages are still to be taken, counted over all processes; calling it takes one and says whether it was the last."""

    def __init__(self) -> None:
        self._left = _SPAWN.Value("l", 0)

    def set(self, count: int) -> None:
        """Begin again with ``count`` messages."""
        with self._left.get_lock():
            self._left.value = count

    def __call__(self) -> bool:
        with self._left.get_lock():
            self._left.value -= 1
            return bool(self._left.value <= 0)

    def reached(self) -> bool:
        """Return whether the last message was taken."""
        return bool(self._left.value <= 0)


class Consumers:
    """``count`` processes that consume from one contestant's queue.

    Args:
        name: of the contestant.
        url: of the database.
        count: how many processes.
    """

    def __init__(self, name: str, url: str, count: int) -> None:
        self._remaining = Remaining()
        barrier = _SPAWN.Barrier(count)
        self._pipes: list[Connection] = []
        self._processes = []
        for _ in range(count):
            here, there = _SPAWN.Pipe()
            process = _SPAWN.Process(target=_serve, args=(name, url, there, barrier, self._remaining), daemon=True)
            process.start()
            self._pipes.append(here)
            self._processes.append(process)
        for pipe in self._pipes:
            pipe.recv()

    def seconds_to_consume(self, count: int, size: int) -> float:
        """Take all ``count`` messages, ``size`` at a time, and return how long that took."""
        self._remaining.set(count)
        for pipe in self._pipes:
            pipe.send(size)
        done = [pipe.recv() for pipe in self._pipes]
        taken = sum(taken for taken, _, _ in done)
        if taken != count:
            raise AssertionError(f"{count} messages were offered, {taken} taken")
        return max(ended for _, _, ended in done) - min(started for _, started, _ in done)

    def close(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join(30)


def _serve(name: str, url: str, pipe: Connection, barrier: Any, remaining: Remaining) -> None:
    make: Callable[[str], Any] = CONTESTANTS[name]
    rival = make(url)
    pipe.send("ready")
    while (size := pipe.recv()) is not None:
        barrier.wait()
        started = time.perf_counter()
        taken, ended = rival.consume(size, remaining)
        pipe.send((taken, started, ended))
    rival.close()
