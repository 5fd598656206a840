"""Each public call of the queues, while the Python code that runs inside it calls the same queue again.

With ``signals`` a timer's signal handler and the garbage collector strike too, with ``threads`` two other threads.
``python -m tests.test_hostile ROOM [signals] [threads]`` plays the table of one room in a process of its own.
"""

from __future__ import annotations

import faulthandler
import gc
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.hostile_scenes import ROOMS, Name, errors, strike, struck
from tests.shape.project import ROOT

LIMIT = 100
INHERITED = {"__doc__", "__module__", "__lt__", "__le__", "__gt__", "__ge__", "__ne__", "__weakref__"}


def methods(kinds: tuple[type, ...]) -> set[str]:
    """Return the calls of these classes that work on a queue: neither its construction, nor pickling."""
    return {
        f"{kind.__name__}.{name}"
        for kind in kinds
        for name, member in vars(kind).items()
        if name not in INHERITED | {"__new__", "__init__", "__reduce__", "__class_getitem__"}
        and not (name.startswith("_") and not name.startswith("__"))
        and (callable(member) or isinstance(member, (staticmethod, classmethod)))
    }


def main(room: str, *kinds: str) -> None:
    """Run each row of a room's table in each variant of the room."""
    over, scene = threading.Event(), ROOMS[room]

    def bother() -> None:
        while not over.is_set():
            strike("thread")

    if "threads" in kinds:
        sys.setswitchinterval(1e-6)
        for _ in range(2):
            threading.Thread(target=bother).start()
    if "signals" in kinds:
        gc.set_threshold(5, 2, 2)

        def interrupt(*_: object) -> None:
            cycle: list[Any] = [Name(0)]
            cycle.append(cycle)
            strike("signal")
            if not over.is_set():
                signal.setitimer(signal.ITIMER_REAL, 2e-4)

        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 2e-4)
    for row, play in scene.rows.items():
        for variant in scene.variants:
            print(row, variant, flush=True)
            faulthandler.dump_traceback_later(LIMIT, exit=True)
            for _ in range(4):
                made = scene(**variant)
                play(made)
                made.end()
    over.set()
    signal.setitimer(signal.ITIMER_REAL, 0)  # at the exit the signal would end the process
    faulthandler.cancel_dump_traceback_later()
    assert not errors, "\n".join(set(errors))
    print(*sorted(struck))


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_method_is_in_the_table(room: str) -> None:
    named = {
        f"{kind}.{name}"
        for row in ROOMS[room].rows
        for kind, _, names in [row.partition(": ")]
        for name in names.split()
    }
    assert named == methods(ROOMS[room].classes)


@pytest.mark.system
@pytest.mark.parametrize("kinds", [(), ("signals",), ("threads",), ("signals", "threads")], ids="+".join)
@pytest.mark.parametrize("room", ROOMS)
def test_no_call_hangs_or_crashes_or_loses_an_item(room: str, kinds: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tests.test_hostile", room, *kinds]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=10 * LIMIT)
    assert run.returncode == 0, f"{run.stdout[-200:]}\n{run.stderr[-6000:]}"
    places = (
        set() if "threads" in kinds else {"call", "del", "eq", "hash", "next", "repr"}
    )  # threads may empty a queue first
    assert places | {kind[:-1] for kind in kinds} <= set(run.stdout.splitlines()[-1].split())


if __name__ == "__main__":
    main(*sys.argv[1:])
