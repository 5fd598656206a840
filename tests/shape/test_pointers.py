"""Files that a document, a comment or the table of a room names exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from .project import ROOT

if not (ROOT / ".git").exists():
    pytest.skip("this is no checkout: git names the files", allow_module_level=True)
TRACKED = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
    "\0"
)
FILES = sorted(file for file in TRACKED if file and (ROOT / file).is_file())
NAMED = re.compile(r"`([\w./-]+\.(?:rs|py|md|sh))`")
MODULES = re.compile(r"^(?://! )?\| (?:module|file) \|.*\n(?:.*\|\n)+", re.MULTILINE)
ELSEWHERE = {"sched.py"}
"""Files of other projects, which a source is named with."""


def dead_names(file: str, text: str) -> list[str]:
    """Return the files that a text names in backticks, and that are not there."""
    lines = text.splitlines() if file.endswith(".md") else [line for line in text.splitlines() if "`" in line]
    named = {name for line in lines for name in NAMED.findall(line)} - ELSEWHERE
    return [name for name in named if not any(f"/{there}".endswith(f"/{name.lstrip('./')}") for there in FILES)]


def dead_rows(file: str, text: str) -> list[str]:
    """Return the modules in the first column of a room's table that the room does not have."""
    there = {path.stem for path in (ROOT / file).parent.iterdir()}
    cells = [row.split("|")[1] for table in MODULES.findall(text) for row in table.splitlines()[2:]]
    named = {name for cell in cells for name in re.findall(r"`+([\w./]+?)`+", cell)}
    return [name for name in named if Path(name).stem not in there and not (ROOT / file).with_name(name).exists()]


def test_the_searches_find_what_is_planted():
    assert dead_names("a.md", "see `batch/gone.rs` and `Makefile`") == ["batch/gone.rs"]
    table = "| module | what it holds |\n| --- | --- |\n| ``gone``, ``service`` | x |\n"
    assert dead_rows("python/drainq/delayed/cron/__init__.py", table) == ["gone"]


def test_each_file_that_is_named_is_there():
    dead = {}
    for file in FILES:
        if file.endswith((".rs", ".py", ".md", ".pyi")) and file not in (
            "CHANGELOG.md",
            "tests/shape/test_pointers.py",
        ):
            text = (ROOT / file).read_text(encoding="utf-8")
            tables = dead_rows(file, text) if Path(file).stem in ("mod", "lib", "__init__") else []
            if names := dead_names(file, text) + tables:
                dead[file] = names
    assert dead == {}
