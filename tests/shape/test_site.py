"""The tables of arguments and attributes on the site name each one alone, with its type, and leave out no field."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
from collections.abc import Iterator
from typing import Any

import griffe
import pytest
from scripts.docs_griffe import QUIET, ExampleSections

from .project import ROOT

PAGES = [path for page in ROOT.glob("docs/reference/*.md") for path in re.findall(r"(?m)^::: (\S+)", page.read_text())]


@pytest.fixture(scope="module")
def package() -> Any:
    return griffe.load(
        "drainq", search_paths=[ROOT / "python"], extensions=griffe.load_extensions(ExampleSections()),
        docstring_parser="google", docstring_options=QUIET,
    )  # fmt: skip


def public(of: Any) -> list[str]:
    return [key for key, member in of.all_members.items() if key[0] != "_" and not (of.is_module and member.is_alias)]


def shown(package: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yield each public class, function and member, with the rows of its tables."""
    for path in PAGES:
        page = package if path == "drainq" else package[path.removeprefix("drainq.")]
        names = (page.exports or public(page)) if page.is_module else []
        for thing in [page[str(getattr(each, "name", each))] for each in names] or [page]:
            for one in [thing, *([thing.all_members[key] for key in public(thing)] if thing.is_class else [])]:
                sections = one.docstring.parsed if one.docstring is not None else []
                kinds = ("parameters", "attributes")
                yield one, [row for section in sections if section.kind.value in kinds for row in section.value]


def test_each_row_is_one_argument_or_attribute_with_its_type(package):
    rows = [(one.path, row.name, row.annotation) for one, rows in shown(package) for row in rows]
    assert len(rows) > 500
    names = [ast.parse(str(kind), mode="eval").body for *_, kind in rows if kind is not None]
    assert not [ast.unparse(kind) for kind in names if isinstance(kind, ast.Tuple)]
    assert [row for row in rows if not row[1].strip("*").isidentifier() or row[2] is None] == []


def test_the_page_of_a_record_has_a_row_for_each_field(package):
    missing = []
    for one, rows in shown(package):
        if one.is_class:
            made = getattr(importlib.import_module(one.module.path), one.name)
            fields = [each.name for each in dataclasses.fields(made)] if dataclasses.is_dataclass(made) else []
            fields = fields or getattr(made, "_fields", ()) or getattr(made, "__struct_fields__", ())
            documented = {row.name for row in rows} | {key for key, member in one.members.items() if member.docstring}
            missing += [f"{one.path}.{field}" for field in fields if field[0] != "_" and field not in documented]
    assert missing == [], "\n".join(missing)
