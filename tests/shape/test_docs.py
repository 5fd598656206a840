"""The documents tell the truth: their code runs, their links lead somewhere, their verbs exist.

Each ``python`` block runs: the blocks of one document are one program, from top to bottom. A
``pycon`` block is a session of its own and prints what it shows. What must not run is fenced
as ``text``.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from drainq.errors import DrainqError
from drainq.spark.java import java_home

from .project import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)#\s]+)[^)]*\)")
LONGEST_RUN = 180  # seconds for all the code of a document


@dataclass(frozen=True)
class Block:
    """One fenced piece of a document; ``line`` is where its code starts, counted from 1."""

    language: str
    code: str
    line: int


def blocks(document: Path) -> list[Block]:
    text = document.read_text()
    return [
        Block(found["language"], found["code"], text.count("\n", 0, found.start("code")) + 1)
        for found in FENCE.finditer(text)
    ]


def program(document: Path) -> str:
    """The document's code, as one program whose line numbers are the document's."""
    lines: list[str] = []
    for block in blocks(document):
        if block.language == "python":
            lines += [""] * (block.line - 1 - len(lines)) + block.code.splitlines()
    return "\n".join(lines)


RUNNABLE = [document for document in DOCUMENTS if program(document).strip()]
SHOWN = [(document, block) for document in DOCUMENTS for block in blocks(document) if block.language == "pycon"]


def name(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


def test_the_search_finds_the_documents_and_their_code():
    assert {"README.md", "docs/index.md", "docs/tutorial.md"} <= {name(document) for document in DOCUMENTS}
    assert ROOT / "README.md" in RUNNABLE
    assert ROOT / "docs" / "tutorial.md" in RUNNABLE


@pytest.mark.parametrize("document", RUNNABLE, ids=name)
def test_the_code_of_the_document_runs_and_warns_of_nothing(document, tmp_path):
    script = tmp_path / f"{document.stem}_document.py"  # not the name of a module that it imports
    script.write_text(program(document))
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    try:
        environ["JAVA_HOME"] = java_home()
    except DrainqError:
        if "pyspark" in script.read_text():
            pytest.skip("no Java for Spark")
    strict = [] if "pyspark" in script.read_text() else ["-W", "error"]  # PySpark and pandas warn of themselves
    ran = subprocess.run(
        [sys.executable, *strict, script], cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=LONGEST_RUN, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, f"{name(document)}:\n{ran.stdout}{ran.stderr}"
    assert "Traceback" not in ran.stderr, ran.stderr


@pytest.mark.parametrize(
    ("document", "block"), SHOWN, ids=lambda value: name(value) if isinstance(value, Path) else value.line
)
def test_the_session_prints_what_it_shows(document, block, capsys):
    test = doctest.DocTestParser().get_doctest(block.code, {}, name(document), str(document), block.line - 1)
    failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=sys.stdout.write)
    assert tried > 0
    assert failed == 0, capsys.readouterr().out


def test_links_between_documents_lead_somewhere():
    links = [
        (document, link["target"])
        for document in DOCUMENTS
        for link in LINK.finditer(FENCE.sub("", document.read_text()))
        if "://" not in link["target"] and not link["target"].startswith("mailto:")
    ]
    assert links
    assert [(name(document), target) for document, target in links if not (document.parent / target).exists()] == []


def test_the_index_leads_to_every_document():
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link["target"]).resolve() for link in LINK.finditer(index.read_text())}
    documents = {document for document in DOCUMENTS if index.parent in document.parents and document != index}
    assert documents
    assert sorted(map(name, documents - linked)) == []


def test_each_make_verb_that_a_document_names_exists():
    verbs = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test"} <= verbs
    named = {
        (name(document), verb)
        for document in DOCUMENTS
        for verb in re.findall(r"(?:`|^)make ([a-z][a-z-]+)", document.read_text(), re.MULTILINE)
    }
    assert {"demo", "test"} <= {verb for _, verb in named}
    assert [(document, verb) for document, verb in sorted(named) if verb not in verbs] == []
