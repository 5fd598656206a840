"""Ends a test at a standstill: none of its threads runs or waits for a processor, so it will never end.

A time limit also finds an endless wait, but on a busy machine the limit must be long. The kernel reports how long each
thread has run, and whether it waits for a processor now, so a standstill can be distinguished from a busy machine. A
watcher reads this for the threads of the test and of the programs that it has started. The watcher is a process,
because a thread would disturb forks, and tests of threads and the GIL.

1. A thread that wakes now and then to check for Ctrl-C does not end a standstill: it runs for less than ``SHARE``.
2. A test that gets little time on a busy machine is not at a standstill: each of its threads either used a turn, which
   is more than ``SHARE``, or waits for a processor.
3. Time is counted in the watcher's checks, so neither a stopped machine nor a starved watcher fails a test.
4. If the kernel has no such report (``/proc/*/schedstat``), only the time limit of each test is left.

Source: ``Documentation/scheduler/sched-stats.rst`` of Linux.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 20.0
"""Seconds of standstill after which a test fails."""

LOOK = 0.5
"""Seconds between two checks."""

SHARE = 0.01
"""The share of one processor below which nothing happens."""

DEAF = 1
"""Signals in a row that a process may leave unanswered, because it waits in native code. The next signal aborts it."""


@contextmanager
def watched() -> Iterator[None]:
    """Fail a test that comes to a standstill in the block, and print the stacks of all threads."""
    if not Path("/proc/self/schedstat").exists() or threading.current_thread() is not threading.main_thread():
        yield
        return

    def fail(*_: object) -> None:
        import pytest

        faulthandler.dump_traceback(file=sys.__stderr__)
        pytest.fail(f"nothing has happened for {SECONDS:g} seconds")

    before = signal.signal(signal.SIGUSR2, fail)
    watcher = subprocess.Popen([sys.executable, "-I", __file__, str(os.getpid())])
    try:
        yield
    finally:
        watcher.kill()
        watcher.wait()
        signal.signal(signal.SIGUSR2, before)


@contextmanager
def watched_unless_debugged(config: Any) -> Iterator[None]:
    """Do the same as :func:`watched`, unless pytest runs a debugger."""
    if config.getoption("usepdb") or config.getoption("trace"):
        yield
        return
    with watched():
        yield


def threads_of(process: int) -> list[Path]:
    """Return the directories of the threads of a process, and of all processes below it, the watcher apart."""
    found, processes = [], [process]
    for number in processes:
        for thread in Path(f"/proc/{number}/task").glob("*"):
            found.append(thread)
            children = map(int, (thread / "children").read_text().split())
            processes += [child for child in children if child != os.getpid()]
    return found


def look(process: int) -> dict[Path, tuple[int, bool]]:
    """Return for each thread how many nanoseconds it has run, and whether it now runs, waits for a processor or a disk,
    or is stopped by a signal or a debugger."""
    seen = {}
    for thread in threads_of(process):
        ran = int((thread / "schedstat").read_text().split()[0])
        seen[thread] = ran, (thread / "stat").read_text().rpartition(")")[2].split()[0] in "RDTt"
    return seen


def watch(process: int) -> None:
    """Send the process a signal at each standstill, until the process ends."""
    before: dict[Path, tuple[int, bool]] = {}
    looks = unheard = 0
    while True:
        time.sleep(LOOK)
        try:
            now = look(process)
        except (FileNotFoundError, ProcessLookupError):  # a thread has ended meanwhile
            os.kill(process, 0)
            now = {}
        ran = [now[thread][0] - before[thread][0] for thread in now.keys() & before.keys()]
        waits = any(now[thread] == (before[thread][0], True) for thread in now.keys() & before.keys())
        if now.keys() == before.keys() and not waits and sum(ran) < SHARE * LOOK * 1e9:
            looks += 1
        else:
            looks = unheard = 0
        before = now
        if looks * LOOK >= SECONDS:
            os.kill(process, signal.SIGABRT if unheard == DEAF else signal.SIGUSR2)
            looks, unheard = 0, unheard + 1


if __name__ == "__main__":
    watch(int(sys.argv[1]))
