"""The documents tell the truth: their code runs, their links lead somewhere, their verbs exist.

Each ``python`` block runs: the blocks of one document are one program, from top to bottom. Documents
that start Spark run in ``tests/spark``, on the session of the other tests there. A block that begins with the
name of a file is that file beside the program; pytest runs it if it is ``test_*.py``. A ``pycon`` block is a
session of its own and prints what it shows. An ``output`` block is what the program prints. What must not run
is fenced as ``text``.
"""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .documents import DOCUMENTS, FENCE, LINK, blocks, files, name, program
from .project import ROOT

LONGEST_RUN = 60  # seconds for all the code of a document
RUNNABLE = [document for document in DOCUMENTS if program(document).strip() and "pyspark" not in program(document)]
SHOWN = [(document, block) for document in DOCUMENTS for block in blocks(document) if block.language == "pycon"]


def test_the_search_finds_the_documents_and_their_code():
    assert {"README.md", "docs/index.md", "docs/tutorial.md"} <= {name(document) for document in DOCUMENTS}
    assert ROOT / "README.md" in RUNNABLE
    assert ROOT / "docs" / "tutorial.md" in RUNNABLE


@pytest.mark.parametrize("document", RUNNABLE, ids=name)
def test_the_code_of_the_document_runs_and_warns_of_nothing(document, tmp_path):
    script = tmp_path / f"{document.stem}_document.py"  # not the name of a module that it imports
    script.write_text(program(document))
    for file, code in files(document).items():
        (tmp_path / file).write_text(code)
    ran = run("-W", "error", script, cwd=tmp_path)
    assert ran.returncode == 0, f"{name(document)}:\n{ran.stdout}{ran.stderr}"
    assert "Traceback" not in ran.stderr, ran.stderr
    shown = "".join(block.code for block in blocks(document) if block.language == "output")
    assert not shown or ran.stdout == shown
    for tests in tmp_path.glob("test_*.py"):
        ran = run("-m", "pytest", "-q", "-p", "no:cacheprovider", tests.name, cwd=tmp_path)
        assert ran.returncode == 0, f"{name(document)}:\n{ran.stdout}{ran.stderr}"


def run(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=LONGEST_RUN, check=False,
    )  # fmt: skip


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


@pytest.mark.parametrize(
    ("word", "page"),
    [
        ("backpressure", "tutorial"),
        ("graceful shutdown", "howto/deploy"),
        ("gunicorn", "howto/deploy"),
        ("SIGTERM", "howto/deploy"),
        ("rate limit", "howto/delayed"),
        ("dead letter", "howto/delayed"),
        ("Prometheus", "howto/monitoring"),
    ],
)
def test_a_word_that_people_search_for_is_on_the_page_that_answers_it(word, page):
    for document in (ROOT / f"docs/{page}.md", ROOT / "docs/index.md"):
        assert word in document.read_text(), name(document)


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
