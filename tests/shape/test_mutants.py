"""The recorded mutants fit the sources: a fault that can no longer be planted proves nothing.

When a change makes one misfit, give it the new text in `scripts/mutants`, and see that its test still kills it:
`make mutants ARGS=name`.
"""

from __future__ import annotations

import ast

import pytest
from scripts.mutants.__main__ import check
from scripts.mutants.rooms import ROOMS

from .project import ROOT

MUTANTS = [mutant for mutants in ROOMS.values() for mutant in mutants]


def functions(file: str) -> set[str]:
    """The tests in a file of tests."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_mutant_has_a_name_of_its_own_and_applies_exactly_once():
    assert len(MUTANTS) > 60
    assert all(ROOMS.values())
    assert check(MUTANTS) == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_test_that_a_mutant_names_exists(mutant):
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert (ROOT / file).is_file(), file
        assert not name or name.partition("[")[0] in functions(file), test
