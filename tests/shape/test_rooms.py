"""The arrows of the Rust side, and facts that are written once."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import drainq

from .project import ROOT
from .rust import Crate, circles

CORE = ROOT / "crates" / "drainq-core" / "src"
BINDING = ROOT / "crates" / "drainq-py" / "src"


def code_lines(path: Path) -> list[tuple[str, str]]:
    """Return the file's lines without comments and without its tests, each with its place."""
    sources = path.read_text().partition("\n#[cfg(test)]\nmod ")[0]
    numbered = enumerate(sources.splitlines(), start=1)
    return [(f"{path.relative_to(ROOT)}:{number}", line.partition("//")[0]) for number, line in numbered]


def places(sources: list[Path], pattern: str) -> list[str]:
    return [place for source in sources for place, line in code_lines(source) if re.search(pattern, line)]


def test_only_sync_names_threads_and_atomics():
    pattern = r"\bstd::(sync|thread)\b|\bparking_lot\b|\bcrossbeam\w*::"
    door = sorted((CORE / "sync").rglob("*.rs"))
    others = [path for path in sorted(CORE.rglob("*.rs")) if path not in door]
    assert places(door, pattern)
    assert others
    assert places(others, pattern) == []


def test_only_one_file_of_the_binding_gives_up_and_takes_back_the_gil():
    pattern = r"\.detach\(|\battach\(|\btry_attach\(|\battach_unchecked\("
    assert places([BINDING / "gil.rs"], pattern)
    others = [path for path in sorted(BINDING.rglob("*.rs")) if path.name != "gil.rs"]
    assert others
    assert places(others, pattern) == []


def test_no_guard_of_a_lock_of_the_batch_queue_lives_as_long_as_a_block():
    """A guard made in the head of a `for`, `match`, `if let` or `while` is held to the end of its block."""
    batch = sorted((BINDING / "batch").rglob("*.rs"))
    assert len(places(batch, r"\.lock\(\)")) > 20
    assert places(batch, r"\b(for .* in|match|if let|while)\b.*\.lock\(\)") == []


def takes_of(crate: Path, *, children: bool = True) -> dict[str, set[str]]:
    """For each file of the crate the files from which it takes a name; ``children``: also those below it."""
    takes: dict[str, set[str]] = {}
    for arrow in Crate(crate).arrows(children=children):
        takes.setdefault(arrow.taker, set()).add(arrow.giver)
    return takes


def test_no_file_of_the_core_needs_a_file_that_needs_it():
    takes = takes_of(CORE)
    assert "batch/item.rs" in takes["batch/partition.rs"]
    assert circles(takes | {"batch/item.rs": {"batch/partition.rs"}}) != []
    assert circles(takes) == []


def test_no_file_of_the_binding_needs_a_file_that_needs_it():
    """A pool knows no queue, an awaitable knows no class, and a class does not know the files of its verbs."""
    takes = takes_of(BINDING)
    assert "batch/shared_scheduler.rs" in takes["batch/shared_queue/mod.rs"]
    assert "waiting/awaitable.rs" in takes["multi/sub_queue/put_async.rs"]
    assert "sources/set_queue/state.rs" in takes["sources/set_queue/mod.rs"]
    for circle in (
        ("batch/shared_scheduler.rs", "batch/shared_queue/mod.rs"),
        ("waiting/awaitable.rs", "multi/sub_queue/mod.rs"),
    ):
        planted = takes | {circle[0]: takes[circle[0]] | {circle[1]}}
        planted[circle[1]] = takes[circle[1]] | {circle[0]}
        assert [file for found in circles(planted) for file in found if file in circle] == sorted(circle)
    assert circles(takes) == []


def test_only_one_file_of_the_binding_makes_exceptions():
    pattern = r"\bnew_err\(|\bfrom_type\("
    assert places([BINDING / "errors.rs"], pattern)
    others = [path for path in sorted(BINDING.rglob("*.rs")) if path.name != "errors.rs"]
    assert others
    assert places(others, pattern) == []


def test_the_core_knows_nothing_of_python():
    cargo = shutil.which("cargo")
    if not cargo:
        pytest.skip("cargo is not installed")
    tree = subprocess.run(
        [cargo, "tree", "--package=drainq-core", "--prefix=none", "--edges=normal", "--offline"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "crossbeam-utils" in tree
    assert "pyo3" not in tree


def test_the_version_is_written_once():
    written = [path for path in (ROOT / "Cargo.toml", *ROOT.glob("crates/*/Cargo.toml"), ROOT / "pyproject.toml")
               if re.search(r'^version = "', path.read_text(), re.MULTILINE)]  # fmt: skip
    assert written == [ROOT / "Cargo.toml"]
    assert f'version = "{drainq.__version__}"' in written[0].read_text()
    assert importlib.metadata.version("drainq") == drainq.__version__
