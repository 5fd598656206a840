"""Words: documents, comments and messages name their subjects, and documentation starts with a verb.

The rules are in CONTRIBUTING.md, "How we write"; this is the part of them that a search can hold. The words of the
project are in docs/glossary.md.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from .documents import DOCUMENTS, FENCE, name
from .project import ROOT, loaded_modules

RIDDLES = re.compile(
    r"\b(whoever|whomever|somebody|nobody|everybody|anybody|so many|hears? of|(?:is|are|was|were|been|be) told|tells? of"
    r"|a look|looks at everything)\b",
    re.IGNORECASE,
)
"""Words that stand for a subject, a number or a verb that the sentence does not name."""

RULES = "## How we write"
"""The section of CONTRIBUTING.md that names these words."""

CRATES = ROOT / "crates"
SOURCES = sorted(
    [path for folder in ("python", "benches") for path in (ROOT / folder).rglob("*.py*") if path.suffix != ".pyc"]
    + list((CRATES / "drainq-py/src").rglob("*.rs"))
    + [
        path
        for path in (CRATES / "drainq-core/src").rglob("*.rs")
        if "test" not in path.stem and "models" not in path.parts
    ]
)
DOCUMENTED = re.compile(
    r"((?:^ *///[^\n]*\n)+)(?: *#\[[^\n]*\n)*"
    r" *(?:pub(?:\([^)]*\))? )?(?:(?:const|unsafe|async) )*(?:extern \"[^\"]+\" )?fn (\w+)",
    re.MULTILINE,
)
METHODS = re.compile(r"^( *)#\[pymethods\]\n.*?^\1\}", re.MULTILINE | re.DOTALL)
VERB = re.compile(r" */// (?:[A-Z][a-z]+s|Has|Whether)\b(?! *///)")
NO_VERB = frozenset(
    "a an the this that these those it its he they their there such all any both each every no none nothing one two"
    " what which who whom whose whether how where when while why if unless because so and or but not only"
    " about after at before between by for from in into of off on per since than to under until up with without as"
    " is are was were be has true false seconds items texts columns".split()
)
"""First words that show that a docstring names a thing, or asks a question, instead of telling what happens."""
ROOMS = (
    "drainq",
    "drainq.delayed",
    "drainq.export",
    "drainq.sources",
    "drainq.spark",
    "drainq.sql",
    "drainq.statistics",
    "drainq.workers",
)


def riddles(text: str) -> list[str]:
    """Return the lines with such a word; code, emphasised words and the rules themselves apart."""
    before, rules, after = text.partition(RULES)
    text = before + after.partition("\n## ")[2] if rules else text
    text = re.sub(r"`[^`\n]*`|(?<!\*)\*[^*\n]+\*", "", FENCE.sub("", text))
    return [line.strip() for line in text.splitlines() if RIDDLES.search(line)]


def without_a_verb(text: str) -> list[str]:
    """Return the functions of Rust whose documentation does not start with what they do; Python's methods apart."""
    return [function for doc, function in DOCUMENTED.findall(METHODS.sub("", text)) if not VERB.match(doc)]


def without_a_first_verb(text: str) -> list[str]:
    """Return the functions of Python whose docstring begins with a word that is no verb; properties apart."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            is_property = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
            words = re.findall(r"\w+", ast.get_docstring(node) or "Does nothing.")
            if not is_property and (not words or words[0].lower() in NO_VERB):
                found.append(node.name)
    return found


def found_by(search: Callable[[str], list[str]], paths: Iterable[Path]) -> dict[str, list[str]]:
    """Return what a search finds in these files, by the file's name; files without a find are left out."""
    found = {name(path): search(path.read_text(encoding="utf-8")) for path in paths}
    return {path: lines for path, lines in found.items() if lines}


def test_the_searches_find_what_is_planted():
    assert riddles("Whoever was told waits.") and not riddles("A waiter that was notified tries again.")
    assert not riddles("The word `nobody` and the word *nobody* are no riddles.")
    assert without_a_verb("/// The room.\n#[inline]\npub fn room() {}\n") == ["room"]
    assert without_a_verb("/// Returns the room.\npub fn room() {}\n") == []
    room = 'class House:\n    {}def room(self):\n        """{}"""\n'
    assert without_a_first_verb(room.format("", "The room.")) == ["room"]
    assert without_a_first_verb(room.format("async ", "Whether there is room.")) == ["room"]
    assert without_a_first_verb(room.format("", "Return the room.")) == []
    assert without_a_first_verb(room.format("@property\n    ", "The room.")) == []
    assert len(SOURCES) > 400 and len(DOCUMENTS) > 20


def test_no_document_and_no_source_has_a_riddle():
    assert found_by(riddles, [*DOCUMENTS, *SOURCES]) == {}


def test_the_documentation_of_a_function_starts_with_a_verb():
    rust = [path for path in SOURCES if path.suffix == ".rs"]
    assert len(rust) > 150
    assert found_by(without_a_verb, rust) == {}


def test_the_docstring_of_a_function_starts_with_a_verb():
    files = [path for folder in ("python", "benches", "scripts", "examples") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 250
    assert found_by(without_a_first_verb, files) == {}


def test_the_glossary_explains_each_word_once_in_a_room():
    rooms = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(rooms) > 5
    for room in rooms:
        rows = [line.split("|")[1] for line in room.splitlines() if line.startswith("| ")][2:]
        words = [word.strip() for row in rows for word in row.split(",")]
        assert words
        assert sorted(set(words)) == sorted(words)


@pytest.mark.parametrize("room", ROOMS)
def test_each_public_name_is_in_a_document(room):
    public = [exported for exported in loaded_modules()[room].__all__ if not exported.startswith("__")]
    assert public
    text = "\n".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    assert [exported for exported in public if not re.search(rf"\b{exported}\b", text)] == []
