"""The recorded mutants fit the sources: a fault that can no longer be planted proves nothing.

When a change makes one misfit, give it the new text in `scripts/mutants`, and see that its test still kills it:
`make mutants ARGS=name`.
"""

from __future__ import annotations

import ast

from scripts.mutants.__main__ import check
from scripts.mutants.rooms import ROOMS

from .project import ROOT

MUTANTS = [mutant for mutants in ROOMS.values() for mutant in mutants]


def functions(file: str) -> set[str]:
    """Return the tests in a file of tests."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_mutant_has_a_name_of_its_own_and_applies_exactly_once():
    assert len(MUTANTS) > 30
    assert all(ROOMS.values())
    assert check(MUTANTS) == []


def test_the_tests_that_the_mutants_name_exist():
    missing = []
    for mutant in MUTANTS:
        assert mutant.tests, mutant.name
        for test in mutant.tests:
            file, _, name = test.partition("::")
            if not (ROOT / file).is_file() or (name and name.partition("[")[0] not in functions(file)):
                missing.append(f"{mutant.name}: {test}")
    assert missing == []
