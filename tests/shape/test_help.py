"""``help()`` teaches: every public callable explains itself, and its examples run."""

from __future__ import annotations

import doctest
import inspect
import os
import re
import sys

import pytest

from .project import Public, loaded_modules, public_things

PUBLIC = public_things()


def examples() -> list[doctest.DocTest]:
    """Return every docstring with an example, of the package's Python modules and of the public native classes."""
    found: dict[tuple[str, str], doctest.DocTest] = {}
    finder, parser = doctest.DocTestFinder(exclude_empty=True), doctest.DocTestParser()
    for module in loaded_modules().values():
        for test in finder.find(module, module.__name__):
            if test.examples:
                found[test.name, test.docstring] = test
    for public in PUBLIC:
        text = inspect.getdoc(public.thing) or ""
        if ">>> " in text and text not in {inspect.cleandoc(docstring) for _, docstring in found}:
            scope = dict(vars(public.module))
            found[public.name, text] = parser.get_doctest(text, scope, public.name, None, 0)
    return list(found.values())


EXAMPLES = examples()


def test_the_search_finds_the_public_names():
    names = {public.name for public in PUBLIC}
    assert len(names) > 5
    assert {"drainq.DrainqError", "drainq.WouldDeadlock"} <= names
    assert EXAMPLES


def test_help_is_not_empty():
    empty = []
    for public in PUBLIC:
        text = inspect.getdoc(public.thing) or ""
        if not text and inspect.isdatadescriptor(public.thing):
            text = described_by_its_class(public)
        if len(text.strip()) <= 10:
            empty.append(str(public))
    assert empty == []


def test_help_shows_the_arguments_of_every_function_and_method():
    unshown = []
    for public in PUBLIC:
        try:
            if inspect.isroutine(public.thing):
                inspect.signature(public.thing)
        except ValueError:
            unshown.append(str(public))
    assert unshown == []


def described_by_its_class(attribute: Public) -> str:
    """Return the lines on an attribute in the docstring of its class, if there are any."""
    owner, _, name = attribute.name.rpartition(".")
    text = next(inspect.getdoc(public.thing) or "" for public in PUBLIC if public.name == owner)
    return next((line for line in text.splitlines() if re.match(rf"\s+[\w, ]*\b{name}\b[\w, ]*: ", line)), "")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_example_runs(example, tmp_path, monkeypatch, capsys):
    if all(doctest.SKIP in line.options for line in example.examples):
        pytest.skip("it says of itself that it needs more than this process")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, _ = doctest.DocTestRunner(optionflags=options).run(example, out=sys.stdout.write)
    assert failed == 0, capsys.readouterr().out
