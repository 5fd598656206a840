"""Type checkers on a program that uses drainq: they find every planted mistake, and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..shape.project import ROOT

HERE = Path(__file__).parent
MISTAKES, RIGHT = HERE / "planted_mistakes.py", HERE / "right_program.py"


def planted() -> dict[int, str]:
    """Return the mistakes by line."""
    lines = enumerate(MISTAKES.read_text().splitlines(), start=1)
    return {number: found[1] for number, line in lines if (found := re.search(r"# (E\d+): ", line))}


def by_mypy(program: Path, folder: Path) -> set[int]:
    """Return the lines in which mypy finds an error."""
    (folder / "mypy.ini").write_text(f"[mypy]\nstrict = True\nmypy_path = {ROOT / 'python'}\npython_version = 3.10\n")
    command = [sys.executable, "-m", "mypy", f"--config-file={folder}/mypy.ini", f"--cache-dir={folder}/cache", program]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    return {int(line) for line in re.findall(rf"{program.name}:(\d+): error", ran.stdout)}


def by_pyright(program: Path, folder: Path) -> set[int]:
    """Return the lines in which pyright finds an error; basedpyright is pyright with a node of its own."""
    pytest.importorskip("basedpyright")
    settings = {
        "include": [str(program)],
        "extraPaths": [str(ROOT / "python")],
        "typeCheckingMode": "standard",
        "pythonVersion": "3.10",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", folder]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = json.loads(ran.stdout)
    assert found["summary"]["filesAnalyzed"] == 1, ran.stdout
    errors = [it for it in found["generalDiagnostics"] if it["severity"] == "error"]
    return {it["range"]["start"]["line"] + 1 for it in errors}


CHECKERS = pytest.mark.parametrize("check", [by_mypy, by_pyright])


@CHECKERS
def test_every_mistake_is_found_but_the_one_that_no_type_tells(check, tmp_path):
    mistakes = planted()
    assert len(mistakes) == 39
    found = check(MISTAKES, tmp_path)
    assert {mistakes.get(line, f"line {line}") for line in found} == set(mistakes.values()) - {"E16"}


@CHECKERS
def test_a_right_program_has_no_error(check, tmp_path):
    assert check(RIGHT, tmp_path) == set()
