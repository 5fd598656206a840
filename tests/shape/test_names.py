"""Names: no two types of a crate or of both crates share one, and no two classes of the package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from .project import ROOT, loaded_modules, sources
from .rust import code

CORE, BINDING = (ROOT / "crates" / name / "src" for name in ("drainq-core", "drainq-py"))

CLASS_OF_THE_CORES_TYPE = {
    "BatchQueue", "DDSketch", "MultiQueue", "SetQueue", "SubQueue",
}  # fmt: skip
"""The types of the binding that are the Python class of the core's type of the same name."""

ONE_OF_SEVERAL_BUILDS = {"sync/real.rs", "sync/loom.rs", "sync/shuttle.rs", "batch/no_gil_yield.rs"}
"""Files of which a build has one: their names are the same on purpose."""

TYPE = re.compile(r"^(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|union) (\w+)", re.MULTILINE)
TEST_MODULE = re.compile(
    r"^#\[cfg\([^\n]*\btest\b[^\n]*\)\]\n(?:#\[[^\n]*\]\n)*(?:pub(?:\([^)]*\))? )?mod (\w+);", re.MULTILINE
)


def rust_files(src: Path) -> dict[str, str]:
    """Return the code of a crate by file, without the files that only a test build has."""
    files = {path.relative_to(src).as_posix(): code(path) for path in sorted(src.rglob("*.rs"))}
    tests = {name for text in files.values() for name in TEST_MODULE.findall(text)} | {
        "models",
        "shared_scheduler_board_tests",
    }
    return {file: text for file, text in files.items() if tests.isdisjoint(re.split(r"[/.]", file))}


def types(files: Mapping[str, str]) -> dict[str, list[str]]:
    """Return where each type is declared."""
    found: dict[str, list[str]] = {}
    for file, text in files.items():
        for name in TYPE.findall(text):
            found.setdefault(name, []).append(file)
    return found


def twice(declared: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the types that are declared in more than one file."""
    return {name: files for name, files in declared.items() if len(set(files) - ONE_OF_SEVERAL_BUILDS) > 1}


def classes(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Return the modules that declare each class of Python; classes inside functions and classes count too."""
    found: dict[str, list[str]] = {}
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module)
    return found


def in_both(core: Iterable[str], binding: Iterable[str]) -> set[str]:
    """Return the names that both crates use, for two things."""
    return set(core) & set(binding) - CLASS_OF_THE_CORES_TYPE


def test_no_two_types_of_the_two_crates_share_a_name():
    core, binding = types(rust_files(CORE)), types(rust_files(BINDING))
    assert len(core) > 80 and len(binding) > 60
    assert in_both(core, binding) == set()
    assert CLASS_OF_THE_CORES_TYPE <= set(core) & set(binding)


@pytest.mark.parametrize("src", [CORE, BINDING], ids=["core", "binding"])
def test_no_two_types_of_a_crate_share_a_name(src):
    assert twice(types(rust_files(src))) == {}


def test_the_search_for_shared_names_finds_a_planted_one():
    planted = {"batch/a.rs": "pub struct Ticket(u64);", "multi/b.rs": "pub(super) enum Ticket {\n}\ntrait Wake {}"}
    assert twice(types(planted)) == {"Ticket": ["batch/a.rs", "multi/b.rs"]}
    assert in_both(types(planted), ["Wake", "BatchQueue"]) == {"Wake"}


def test_no_two_classes_of_the_package_share_a_name():
    stub = ast.parse((ROOT / "python" / "drainq" / "_native.pyi").read_text())
    declared = classes({module: ast.parse(path.read_text()) for module, path in sources().items()} | {"_native": stub})
    assert len(declared) > 250
    assert twice(declared) == {}


def test_the_search_for_shared_names_finds_a_planted_class():
    planted = {"a": ast.parse("class Plan: ..."), "b": ast.parse("def f():\n    class Plan: ...\n    class Step: ...")}
    assert twice(classes(planted)) == {"Plan": ["a", "b"]}


def test_the_root_has_few_names():
    assert len(loaded_modules()["drainq"].__all__) <= 21
