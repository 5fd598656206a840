"""The imports between modules, and the cost of ``import drainq``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .project import OPTIONAL, imports, sources
from .rust import circles

SIBLINGS = ("workers", "export", "delayed", "spark")

MAY_KNOW = {
    room: set(others.split())
    for room, others in {
        "drainq": "_native backoff batch_config errors manager sigterm size_policies sources statistics",
        "backoff": "arguments clock",
        "__main__": "cli",
        "_calls": "aio callables logger timer",
        "aio": "callables errors threads",
        "batch_config": "_calls _native aio arguments callables size_policies",
        "size_policies": "_native",
        "cli": "_native ctrl_c errors sql",
        "delivery": "_native arguments backoff callables clock errors fork pickling size_policies sql statistics threads timer",
        "columns": "_native arguments errors pickling",
        "commands": "_native errors threads",
        "datasource": "delayed errors sql",
        "delayed": "arguments backoff callables clock errors fork loop_signal monitoring pickling sql statistics threads timer",
        "export": "_native arguments batch_config callables clock delivery errors fork statistics threads",
        "manager": "_native aio arguments batch_config errors",
        "metrics": "_native batch_config columns errors spark sql statistics threads workers",
        "sources": "_native aio arguments backoff callables clock errors fork loop_signal pickling sql statistics threads timer",
        "fork": "logger",
        "monitoring": "_native arguments fork threads timer",
        "spark": "_native arguments backoff batch_config callables datasource delivery errors fork sql statistics threads timer",
        "sketch": "_native",
        "sql": "arguments errors threads",
        "statistics": "arguments",
        "pytest_plugin": "delayed testing",
        "testing": "_native arguments",
        "threads": "arguments errors",
        "timer": "fork threads",
        "workers": "_native arguments backoff batch_config callables clock delivery errors fork sql threads timer",
    }.items()
}
"""For each room of the Python package the rooms that it imports: these and no others. ``drainq`` is the package's door."""


def in_a_new_interpreter(code: str) -> list[str]:
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return answer.stdout.split()


def test_importing_drainq_loads_no_optional_dependency():
    loaded = in_a_new_interpreter("import drainq, sys; print(*sys.modules)")
    assert "drainq._native" in loaded
    assert [name for name in loaded if name.partition(".")[0] in OPTIONAL] == []


def test_importing_drainq_starts_no_thread():
    code = "import drainq, os, threading; print(threading.active_count(), *os.listdir('/proc/self/task'))"
    if sys.platform != "linux":
        code = "import drainq, threading; print(threading.active_count(), 'one')"
    assert len(in_a_new_interpreter(code)) == 2


def test_nothing_inside_imports_the_package_root():
    found = imports()
    assert len(found) > 3
    assert [edge for edge in found if edge.imported == "drainq"] == []


def test_no_two_modules_import_each_other_not_even_in_a_roundabout_way():
    edges: dict[str, set[str]] = {}
    for edge in imports():
        edges.setdefault(edge.importer, set()).add(edge.imported)
    assert "drainq.errors" in edges["drainq"]
    assert circles(edges) == []


def test_a_room_imports_only_the_rooms_that_it_may_know():
    found: dict[str, set[str]] = {}
    for edge in imports():
        room, other = (name.split(".")[1] if "." in name else "drainq" for name in (edge.importer, edge.imported))
        if room != other:
            found.setdefault(room, set()).add(other)
    assert {room for room in found if room not in MAY_KNOW} == set(), "a new room needs its line in MAY_KNOW"
    assert {room: others - MAY_KNOW[room] for room, others in found.items() if others - MAY_KNOW[room]} == {}


def test_the_door_that_shows_every_room_knows_no_room_with_an_optional_dependency():
    assert MAY_KNOW["drainq"].isdisjoint({*SIBLINGS, "metrics"})


@pytest.mark.parametrize("room", SIBLINGS)
def test_the_rooms_that_stand_side_by_side_never_import_each_other(room):
    inside = [name for name in sources() if name == f"drainq.{room}" or name.startswith(f"drainq.{room}.")]
    if not inside:
        pytest.skip(f"there is no drainq.{room}")
    others = [f"drainq.{other}" for other in SIBLINGS if other != room]
    found = [edge for edge in imports() if edge.importer in inside]
    assert [edge for edge in found if any(f"{edge.imported}.".startswith(f"{other}.") for other in others)] == []
