"""Names: two types never share one, a word means what the glossary says, and a retired word stays away.

Looked at are the types, functions and files of both crates, and the classes, functions, files and public names of the
Python package. ``plain_words.txt`` holds the words of names that mean in this project what they mean anywhere.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from .project import ROOT, public_things, sources
from .rust import code

CORE, BINDING = (ROOT / "crates" / name / "src" for name in ("drainq-core", "drainq-py"))

CLASS_OF_THE_CORES_TYPE = {
    "BatchQueue", "BufferStrategy", "DDSketch", "GroupBy", "MultiQueue", "PartitionPolicy", "SetQueue", "SubQueue", "ThreadPolicy",
}  # fmt: skip
"""The types of the binding that are the Python class of the core's type of the same name."""

ONE_OF_THREE_BUILDS = {"sync/real.rs", "sync/loom.rs", "sync/shuttle.rs"}
"""Files of the core of which a build has one: their names are the same on purpose."""

RETIRED = {
    "beside": "extra",
    "bond": "membership",
    "calm": "fast path",
    "hand over": "GIL yield, handoff",
    "hot": "raw method, fast path",
    "in line": "waiter",
    "lane": "route cache",
    "leftovers": "shutdown mode",
    "look around": "wake, reopen the fast path",
    "outgoing": "encode",
    "patience": "deadline",
    "seat": "position",
    "told": "notified",
    "upkeep": "admin",
    "watcher": "the thing that is watched, and why",
}
"""What was once in names, and what to say instead."""

TYPE = re.compile(r"^(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|union) (\w+)", re.MULTILINE)
FUNCTION = re.compile(
    r"^\s*(?:pub(?:\([^)]*\))? )?(?:const |unsafe |async )*(?:extern \"[^\"]+\" )?fn (\w+)", re.MULTILINE
)
TEST_MODULE = re.compile(
    r"^#\[cfg\([^\n]*\btest\b[^\n]*\)\]\n(?:#\[[^\n]*\]\n)*(?:pub(?:\([^)]*\))? )?mod (\w+);", re.MULTILINE
)
PLAIN = frozenset((ROOT / "tests" / "shape" / "plain_words.txt").read_text().split())


def rust_files(src: Path) -> dict[str, str]:
    """The code of a crate by file, without the files that only a test build has."""
    files = {path.relative_to(src).as_posix(): code(path) for path in sorted(src.rglob("*.rs"))}
    tests = {name for text in files.values() for name in TEST_MODULE.findall(text)} | {
        "models",
        "shared_scheduler_board_tests",
    }
    return {file: text for file, text in files.items() if tests.isdisjoint(re.split(r"[/.]", file))}


def types(files: Mapping[str, str]) -> dict[str, list[str]]:
    """Where each type is declared."""
    found: dict[str, list[str]] = {}
    for file, text in files.items():
        for name in TYPE.findall(text):
            found.setdefault(name, []).append(file)
    return found


def twice(declared: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The types that are declared in more than one file."""
    return {name: files for name, files in declared.items() if len(set(files) - ONE_OF_THREE_BUILDS) > 1}


def classes(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Where each class of Python is declared, by module; classes inside functions and other classes count too."""
    found: dict[str, list[str]] = {}
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module)
    return found


def in_both(core: Iterable[str], binding: Iterable[str]) -> set[str]:
    """The names that both crates use, for two things."""
    return set(core) & set(binding) - CLASS_OF_THE_CORES_TYPE


def words(name: str) -> list[str]:
    """``SubQueueStats`` and ``sub_queue_stats`` are the words sub, queue, stats."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]+|[a-z]+", name)]


def retired(name: str) -> list[str]:
    """The retired words in a name."""
    text = f" {' '.join(words(name))} "
    return [word for word in RETIRED if f" {word} " in text or f" {word}s " in text]


def glossary() -> set[str]:
    """The words that the glossary explains."""
    entries = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    return {word for entry in entries for word in re.findall(r"[a-z]+", entry.lower())}


def forms(word: str) -> set[str]:
    """The word, and what it may be a form of: ``flushed`` of flush, ``batches`` of batch, ``stopped`` of stop."""
    endings = ("s", "es", "ed", "d", "ing", "er", "r", "or", "able")
    cut = {word.removesuffix(ending) for ending in endings if word.endswith(ending)}
    return {word} | cut | {part + "e" for part in cut} | {part[:-1] for part in cut if part[-2:-1] == part[-1:]}


def unknown(name: str, known: set[str]) -> list[str]:
    """The words in a name that are neither in the glossary nor plain."""
    explained = known | PLAIN | {f"{word}s" for word in known}
    return [
        word
        for word in words(name)
        if len(word) > 1 and explained.isdisjoint(form for once in forms(word) for form in forms(once))
    ]


def names_of_files_and_types() -> dict[str, str]:
    """Each name that a reader meets first, with the place where it is: files, types, classes, exported names."""
    found: dict[str, str] = {}
    for src in (CORE, BINDING):
        for file, text in rust_files(src).items():
            for part in Path(file).with_suffix("").parts:
                found[part] = file
            found.update(dict.fromkeys(TYPE.findall(text), file))
    for module, path in sources().items():
        found.update(dict.fromkeys(module.split("."), module))
        tree = ast.parse(path.read_text())
        found.update({node.name: module for node in ast.walk(tree) if isinstance(node, ast.ClassDef)})
    exported = [public.name for public in public_things() if public.name.rpartition(".")[0] == public.module.__name__]
    found.update({name.rpartition(".")[2]: name for name in exported})
    return found


def names_of_functions() -> dict[str, str]:
    found: dict[str, str] = {}
    for src in (CORE, BINDING):
        for file, text in rust_files(src).items():
            found.update(dict.fromkeys(FUNCTION.findall(text), file))
    for module, path in sources().items():
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        found.update(
            {node.name: module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, functions)}
        )
    return found


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


def test_no_name_has_a_retired_word():
    found = names_of_files_and_types() | names_of_functions()
    assert len(found) > 900
    assert {name: (place, retired(name)) for name, place in found.items() if retired(name)} == {}


def test_the_search_for_retired_words_finds_a_planted_one():
    assert retired("hand_over_gil") == ["hand over"] and retired("InLine") == ["in line"]
    assert retired("LaneTable") == ["lane"] and retired("watchers") == ["watcher"]
    assert retired("planet") == [] and retired("inline_lines") == []


def test_the_words_of_names_are_in_the_glossary_or_plain():
    """A word of the project gets its line in docs/glossary.md; a word that needs none goes into plain_words.txt."""
    known, found = glossary(), names_of_files_and_types()
    assert len(known) > 120 and len(found) > 500
    new = {word: f"{name} in {place}" for name, place in found.items() for word in unknown(name, known)}
    assert new == {}, f"explain in docs/glossary.md, or add to plain_words.txt: {', '.join(sorted(new))}"


def test_the_search_for_unknown_words_finds_a_planted_one():
    known = glossary()
    assert unknown("FrobnicatedPartition", known) == ["frobnicated"]
    assert unknown("SubQueueStats", known) == []


def test_a_retired_word_is_not_plain():
    assert PLAIN.isdisjoint(RETIRED)
