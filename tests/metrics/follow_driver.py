"""A process that follows and kills itself, on one side of a commit; ``test_follow_killed.py`` starts it.

    python follow_driver.py PATH OUT ENGINE SIDE ROUND

SIDE is ``before`` or ``after`` the commit of that round, or ``never``: then it ends when nothing is left to count.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time

from drainq.metrics.follow import directory as directory_module
from drainq.metrics.follow import tail as tail_module
from drainq.metrics.follow.counted import Memory
from drainq.metrics.follow.run import follow

PATH, OUT, ENGINE, SIDE, ROUND = sys.argv[1:]


def dying(method):
    """Return the method, after whose n-th call the process is killed."""
    calls = itertools.count(1)

    def call(self, rows):
        method(self, rows)
        if next(calls) == int(ROUND):
            os.kill(os.getpid(), signal.SIGKILL)

    return call


class UntilIdle:
    """Says that the following ends once two rounds in a row had nothing to count."""

    def __init__(self) -> None:
        self.rounds, self.idle = 0, 0

    def wait(self, seconds: float) -> bool:
        self.idle = 0 if self.rounds != self.seen() else self.idle + 1
        self.rounds = self.seen()
        return self.idle >= 2

    def seen(self) -> int:
        return kept[0]


kept = [0]
keep = Memory.keep


def keep_and_count(self, rows):
    kept[0] += 1
    keep(self, rows)


Memory.keep = keep_and_count
directory_module.MOST_FILES = 2
tail_module.MOST = 20_000
if SIDE == "before":
    Memory.write = dying(Memory.write)
elif SIDE == "after":
    Memory.keep = dying(Memory.keep)
found = follow(
    PATH, out=OUT, engine=None if ENGINE == "file" else ENGINE, ended=UntilIdle(), every=0, settled=0,
    now=lambda: time.time() + 3600,
)  # fmt: skip
print(found.outcome.lines, found.uncounted)
