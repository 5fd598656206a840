"""The documents use plain words: the rules are in CONTRIBUTING.md, the words of the project in docs/glossary.md."""

from __future__ import annotations

import re

import pytest

from .documents import DOCUMENTS, FENCE, name
from .project import ROOT, loaded_modules

RIDDLES = re.compile(r"\b(whoever|nobody|somebody|everybody|anybody|so many|told|hears? of)\b", re.IGNORECASE)
"""Words that stand for a subject or a number that the sentence does not name."""

ROOMS = ("drainq", "drainq.delayed", "drainq.export", "drainq.spark", "drainq.sql", "drainq.workers")


def prose(text: str) -> str:
    """A document without its code and its emphasised words; lines stay where they are."""
    text = FENCE.sub(lambda code: "\n" * code[0].count("\n"), text)
    return re.sub(r"`[^`]*`|\*[^*\n]+\*", "", text)


def rows(section: str) -> list[str]:
    return [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")][2:]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_a_document_names_its_subjects(document):
    lines = enumerate(prose(document.read_text()).splitlines(), start=1)
    assert [(number, found[0]) for number, line in lines for found in RIDDLES.finditer(line)] == []


def test_the_search_for_riddles_finds_them():
    assert [found[0] for found in RIDDLES.finditer(prose("Whoever was told `nobody` takes so many."))] == [
        "Whoever",
        "told",
        "so many",
    ]


@pytest.mark.parametrize("room", ["drainq-py/src/batch", "drainq-core/src"])
def test_comments_of_the_native_code_name_their_subjects(room):
    sources = sorted((ROOT / "crates" / room).rglob("*.rs"))
    lines = [(path.name, line) for path in sources for line in path.read_text().splitlines() if "//" in line]
    assert len(lines) > 500
    assert [(file, line) for file, line in lines if RIDDLES.search(line.partition("//")[2])] == []


FORMER_WORDS = re.compile(
    r"(?<![a-z])(lease|seat|unseat|enlist|in_line|leftover|bond|watch|watcher|watched|settle|beside|promised_load)s?(?![a-z])",
    re.IGNORECASE,
)
"""Words that the core once used for what the glossary calls otherwise."""


def test_the_core_uses_the_words_of_the_glossary():
    sources = sorted((ROOT / "crates" / "drainq-core").rglob("*.rs"))
    code = [(path.name, line.partition("//")[0]) for path in sources for line in path.read_text().splitlines()]
    assert FORMER_WORDS.search("let seat_of_thread = enlist();")
    assert len(code) > 5000
    assert [(file, line) for file, line in code if FORMER_WORDS.search(line)] == []


DOCUMENTED = re.compile(
    r"((?:^ *///[^\n]*\n)+)(?: *#\[[^\n]*\n)* *(?:pub(?:\([^)]*\))? )?(?:(?:const|unsafe) )*fn (\w+)", re.MULTILINE
)
VERB = re.compile(r" */// (?:[A-Z][a-z]+s|Has|Whether)\b")


def test_the_documentation_of_a_function_of_the_core_starts_with_a_verb():
    core = ROOT / "crates" / "drainq-core" / "src"
    rooms = [path for room in ("batch", "multi", "ring", "wait", "sync") for path in (core / room).rglob("*.rs")]
    documented = [(path.name, *found) for path in rooms for found in DOCUMENTED.findall(path.read_text())]
    assert len(documented) > 300
    assert [(file, name) for file, doc, name in documented if not VERB.match(doc)] == []


def test_the_glossary_explains_each_word_once_in_a_room():
    rooms = (ROOT / "docs" / "glossary.md").read_text().split("\n## ")[1:]
    assert len(rooms) > 5
    for room in rooms:
        words = [word.strip() for row in rows(room) for word in row.split(",")]
        assert words
        assert sorted(set(words)) == sorted(words)


@pytest.mark.parametrize("room", ROOMS)
def test_each_public_name_is_in_a_document(room):
    public = [exported for exported in loaded_modules()[room].__all__ if not exported.startswith("__")]
    assert public
    text = "\n".join(document.read_text() for document in DOCUMENTS)
    assert [exported for exported in public if not re.search(rf"\b{exported}\b", text)] == []
