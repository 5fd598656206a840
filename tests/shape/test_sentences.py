"""Documents, Python sources and the binding do without words that leave out who does something, or what is meant.

The rules are in CONTRIBUTING, "How we write"; this is the part of them that a search can hold.
"""

from __future__ import annotations

import re

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

SOURCES = sorted(
    [path for folder in ("python", "benches") for path in (ROOT / folder).rglob("*.py*")]
    + list((ROOT / "crates" / "drainq-py" / "src").rglob("*.rs"))
)


def riddles(text: str) -> list[str]:
    before, rules, after = text.partition(RULES)
    text = before + after.partition("\n## ")[2] if rules else text
    return [line.strip() for line in text.splitlines() if RIDDLES.search(line)]


def test_the_search_finds_a_riddle():
    assert riddles("Whoever was told waits.") and not riddles("A waiter that was notified tries again.")
    assert len(SOURCES) > 100 and len(DOCUMENTS) > 20


def found_by(search, paths):
    """What a search finds in these files, by the file's name; files without a find are left out."""
    found = {name(path): search(path.read_text(encoding="utf-8")) for path in paths}
    return {path: lines for path, lines in found.items() if lines}


def test_no_document_and_no_source_has_a_riddle():
    assert found_by(riddles, [*DOCUMENTS, *(path for path in SOURCES if path.suffix in (".py", ".pyi", ".rs"))]) == {}


BINDING = sorted((ROOT / "crates" / "drainq-py" / "src").rglob("*.rs"))
METHODS = re.compile(r"^#\[pymethods\]\n.*?^\}", re.MULTILINE | re.DOTALL)
DOCUMENTED = re.compile(
    r"((?:^ *///[^\n]*\n)+)(?: *#\[[^\n]*\n)*"
    r" *(?:pub(?:\([^)]*\))? )?(?:(?:const|unsafe|async) )*(?:extern \"[^\"]+\" )?fn (\w+)",
    re.MULTILINE,
)
VERB = re.compile(r" */// (?:[A-Z][a-z]+s|Has|Whether)\b(?! *///)")


def without_a_verb(text: str) -> list[str]:
    """The functions whose documentation does not start with the verb of what they do; Python's methods apart."""
    return [name for doc, name in DOCUMENTED.findall(METHODS.sub("", text)) if not VERB.match(doc)]


def test_the_search_finds_a_function_without_a_verb():
    assert without_a_verb("/// The room.\n#[inline]\npub fn room() {}\n") == ["room"]
    assert without_a_verb("/// Returns the room.\npub fn room() {}\n") == []


def test_the_documentation_of_a_function_of_the_binding_starts_with_a_verb():
    assert found_by(without_a_verb, BINDING) == {}
