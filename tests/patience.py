"""The time for which a test waits for another thread.

A wait that nothing will end is a standstill, which `standstill.py` ends within seconds. The limit here is for waits
that `standstill.py` cannot recognise, so it may be long. A loop that polls is never at a standstill: its limit is
processor time of its own thread, which does not pass while a busy machine runs other threads.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

PATIENCE = 25.0
"""Seconds after which a test that waits has failed."""

LOOKS = 2.0
"""Seconds of processor time for which a test may poll before it fails."""


class Call(Future):
    """A call on a thread of its own: its result or its exception."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__()
        threading.Thread(target=self._run, args=(call,), daemon=True).start()

    def _run(self, call: Callable[[], object]) -> None:
        try:
            self.set_result(call())
        except BaseException as error:  # handed to whoever asks for the result
            self.set_exception(error)

    def result(self, timeout: float | None = PATIENCE) -> object:
        return super().result(timeout)

    def exception(self, timeout: float | None = PATIENCE) -> BaseException | None:
        return super().exception(timeout)


def eventually(condition: Callable[[], object], what: str = "") -> None:
    """Yield to other threads until the condition is true. Fail after ``LOOKS`` seconds of this thread's CPU time."""
    end = time.thread_time() + LOOKS
    while not condition():
        assert time.thread_time() < end, what or f"never became true: {condition}"
        os.sched_yield()


def freeze(pid: int) -> None:
    """Stop a process and wait until all its threads have stopped, which takes milliseconds after the signal."""

    def has_stopped(thread: Path) -> bool:
        try:
            return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"
        except (FileNotFoundError, ProcessLookupError):  # the thread has ended
            return True

    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: all(map(has_stopped, Path(f"/proc/{pid}/task").glob("*"))), f"process {pid} did not stop")
