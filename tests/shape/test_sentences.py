"""Documents and Python sources do without words that leave out who does something, or what is meant.

The rules are in CONTRIBUTING, "How we write"; this is the part of them that a search can hold.
"""

from __future__ import annotations

import re

import pytest

from .documents import DOCUMENTS, name
from .project import ROOT

RIDDLES = re.compile(
    r"\b(whoever|whomever|somebody|nobody|everybody|so many\b|hears? of|is told|are told|was told|were told|"
    r"been told|be told|tells? of|a look\b|looks at everything)\b",
    re.IGNORECASE,
)
"""Say the subject (*the consumer*), the number's name (``timeout`` *seconds*), the verb (*is called with*, *reads*)."""

RULES = "## How we write"
"""The section of CONTRIBUTING that names the words."""

SOURCES = sorted(path for folder in ("python", "benches") for path in (ROOT / folder).rglob("*.py*"))


def riddles(text: str) -> list[str]:
    before, rules, after = text.partition(RULES)
    text = before + after.partition("\n## ")[2] if rules else text
    return [line.strip() for line in text.splitlines() if RIDDLES.search(line)]


def test_the_search_finds_a_riddle():
    assert riddles("Whoever was told waits.") and not riddles("A waiter that was notified tries again.")
    assert len(SOURCES) > 100 and len(DOCUMENTS) > 20


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_a_document_has_no_riddles(document):
    assert riddles(document.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("source", [path for path in SOURCES if path.suffix in (".py", ".pyi")], ids=name)
def test_a_source_has_no_riddles(source):
    assert riddles(source.read_text(encoding="utf-8")) == []
