"""Who imports whom, and what ``import drainq`` costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .project import OPTIONAL, imports, sources

SIBLINGS = ("workers", "export", "delayed", "spark")


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
    done: set[str] = set()

    def walk(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"import cycle: {' -> '.join([*path[path.index(module) :], module])}"
        if module not in done:
            for imported in sorted(edges.get(module, ())):
                walk(imported, (*path, module))
            done.add(module)

    for module in sorted(edges):
        walk(module, ())


@pytest.mark.parametrize("room", SIBLINGS)
def test_the_rooms_that_stand_side_by_side_never_import_each_other(room):
    inside = [name for name in sources() if name == f"drainq.{room}" or name.startswith(f"drainq.{room}.")]
    if not inside:
        pytest.skip(f"there is no drainq.{room}")
    others = [f"drainq.{other}" for other in SIBLINGS if other != room]
    found = [edge for edge in imports() if edge.importer in inside]
    assert [edge for edge in found if any(f"{edge.imported}.".startswith(f"{other}.") for other in others)] == []
