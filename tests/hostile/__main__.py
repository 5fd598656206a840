"""Runs one room's table: ``python -m tests.hostile ROOM [signals] [threads] [collector]``.

The last line says how many entries ran and which kinds of places struck. A process that hangs names the
entry on its last line, shows all stacks after ``LIMIT`` seconds and ends. The limit is for one play of an entry: on a
busy machine the whole table may take longer. Where a thread still runs, its stack may change while it is shown, and
the process may end with a segmentation fault after the line ``Timeout``: Python shows stacks without the GIL.
"""

from __future__ import annotations

import collections
import faulthandler
import importlib
import sys
from types import ModuleType

from tests.hostile import mischief

ROOMS = ("batch", "multi", "set_queue")

LIMIT = 100

BOILERPLATE = {"__doc__", "__module__", "__lt__", "__le__", "__gt__", "__ge__", "__ne__", "__int__", "__weakref__"}


def room(name: str) -> ModuleType:
    """The module of this room."""
    assert name in ROOMS
    return importlib.import_module(f"tests.hostile.{name}")


def methods(classes: tuple[type, ...]) -> list[str]:
    """All that can be called of these classes, as ``Class.method``; a class itself as ``Class.__new__``."""
    return [
        f"{kind.__name__}.{name}"
        for kind in classes
        for name, member in vars(kind).items()
        if name not in BOILERPLATE
        and not (name.startswith("_") and not name.startswith("__"))
        and (callable(member) or isinstance(member, (staticmethod, classmethod)))
    ]


def properties(value: object) -> list[str]:
    """The names of an object's public attributes that are not methods."""
    return [
        name
        for name, member in vars(type(value)).items()
        if not name.startswith("_") and not callable(member) and not isinstance(member, (staticmethod, classmethod))
    ]


def main(name: str, *kinds: str) -> int:
    """Runs every entry of the room's table."""
    table = room(name).ENTRIES
    with mischief.loose(set(kinds)):
        for entry, calls in table.items():
            print(entry, flush=True)
            for call in calls:
                faulthandler.dump_traceback_later(LIMIT, exit=True)
                call()
                mischief.end_strikes()
    faulthandler.cancel_dump_traceback_later()
    assert not mischief.errors, "\n".join(collections.Counter(mischief.errors))
    print(len(table), *sorted(mischief.struck), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
