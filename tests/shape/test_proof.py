"""`docs/explain/proof.md` names tests, models and mutants: each of them exists."""

from __future__ import annotations

import ast
import re

import pytest
from scripts.mutants import core_room
from scripts.mutants.rooms import ROOMS

from .project import ROOT

DOCUMENT = (ROOT / "docs" / "explain" / "proof.md").read_text(encoding="utf-8")
ROWS = [line for line in DOCUMENT.splitlines() if line.startswith("| ")][2:]
MUTANTS = {*core_room.names(), *(mutant.name for mutants in ROOMS.values() for mutant in mutants)}
MODELS = {
    f"{path.stem}::{name}" if path.parent.name == "models" else f"{path.parent.name}::models::{name}"
    for path in [*(core_room.SOURCES / "models").glob("*.rs"), *core_room.SOURCES.glob("*/models.rs")]
    for name in re.findall(r"^fn (\w+)(?:<T: \w+>)?\(\)", path.read_text(encoding="utf-8"), re.MULTILINE)
}


def is_there(name: str) -> bool:
    """Return whether a test, or a model, of this name exists."""
    if name.startswith("tests/"):
        file, _, test = name.partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8")) if (ROOT / file).is_file() else ast.parse("")
        return any(isinstance(node, ast.FunctionDef) and node.name == test for node in ast.walk(tree))
    return name.removeprefix("models::") in MODELS


def test_the_search_finds_rows_models_and_mutants():
    assert len(ROWS) > 15
    assert "multi::models::shutdown_wakes_getters_and_putters" in MODELS
    assert len(MUTANTS) > 100


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:60])
def test_each_promise_names_tests_models_or_mutants_that_exist(row):
    names = re.findall(r"(mutant )?`((?:tests/|\w+)[\w/.:]*)`", row.split("|")[3])
    assert names, "a promise without a name is not proved"
    missing = [name for mutant, name in names if not (name in MUTANTS if mutant else is_there(name))]
    assert missing == []
