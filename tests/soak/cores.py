"""Which code ended an interpreter by a signal: the machine's stack of the thread that died, from the core it left.

CPython itself can crash while it ends and a daemon thread of Python runs: the thread looks whether the interpreter is
ending, the main thread frees the thread's state, and the thread reads the freed state (`take_gil`). A program of ten
lines without drainq does so on 3.10 to 3.13; see python/cpython#110052 and #124878, mended in 3.14. Such an end is
counted and told. Every other one is a failure, and so is one that left no core, or where there is no gdb to read it.
"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
from pathlib import Path

FRAME = re.compile(r"#(\d+) +(?:0x[0-9a-f]+ in )?(\S+) \(")
HANDLER = "<signal handler called>"


def keep_cores() -> None:
    """Let the processes that this one starts leave a core of any size."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))


def stack_of(program: str, directory: Path) -> list[str]:
    """The functions that the thread was in which died, the innermost first; empty if there is no core or no gdb."""
    core, gdb = next(directory.glob("core*"), None), shutil.which("gdb")
    if core is None or gdb is None:
        return []
    shown = subprocess.run(
        [gdb, "-batch", "-ex", "bt", program, str(core)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return functions(shown.stdout)


def functions(shown: str) -> list[str]:
    """The functions of a stack as gdb shows it, without those of a handler of the signal.

    Example:
        >>> functions("#0 raise (sig=11)\\n#1 <signal handler called>\\n#2 0x00007f8d in take_gil (tstate=0x55) at a.h:9")
        ['take_gil']
    """
    frames = {
        int(found[1]): found[2] for line in shown.rpartition(HANDLER)[2].splitlines() if (found := FRAME.match(line))
    }
    return [frames[number] for number in sorted(frames)]


def is_pythons_own(stack: list[str]) -> bool:
    """Whether the thread died as a daemon thread of Python that asked for the GIL of an interpreter which is gone."""
    return "take_gil" in stack[:4] and "thread_run" in stack
