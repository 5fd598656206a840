"""Nothing that Python code can do in between makes a public call hang, crash or lose an item."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.hostile.__main__ import LIMIT, ROOMS, methods, room
from tests.shape.project import ROOT

pytestmark = pytest.mark.system

ALWAYS = {"call", "del", "eq", "getattr", "hash", "index", "log", "next", "repr", "warning"}
"""Unless the room says itself what strikes there (``STRIKES``)."""
ALL = ("signals", "threads", "collector")


@pytest.mark.parametrize("name", ROOMS)
def test_every_public_method_is_in_the_table(name):
    assert sorted(room(name).ENTRIES) == sorted(methods(room(name).CLASSES))


@pytest.mark.parametrize("kinds", [(), ("signals",), ("threads",), ALL], ids=lambda kinds: "+".join(kinds) or "plain")
@pytest.mark.parametrize("name", ROOMS)
def test_no_call_hangs_or_crashes_or_loses_an_item(name, kinds):
    command = [sys.executable, "-m", "tests.hostile", name, *kinds]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=10 * LIMIT)
    assert run.returncode == 0, f"{run.stdout[-200:]}\n{run.stderr[-6000:]}"
    count, *struck = run.stdout.splitlines()[-1].split()
    assert int(count) == len(room(name).ENTRIES) > 5
    extra = {"signals": {"signal"}, "threads": {"thread"}, "collector": {"collector"}}
    always: set[str] = getattr(room(name), "STRIKES", ALWAYS)
    expected = always.union(*(extra[kind] for kind in kinds))
    if "signals" not in kinds:
        expected -= {"collector"}
    assert expected <= set(struck), "each place struck"
