"""The README shows what the program prints today, but for the numbers."""

from __future__ import annotations

import re

import pytest

from drainq.cli import main
from tests.shape.project import ROOT

pytest.importorskip("pyarrow")
LINE = '10.0.0.{n} - - [17/May/2015:10:{n:02}:03 +0000] "GET /{n} HTTP/1.1" 200 1{n}\n'


def shapes(output: str) -> set[str]:
    """The lines of an output after the log's own, with # for each number, pace and time; the endpoints' rows are one."""
    lines = output.partition("rank ")[2].splitlines()
    rows = {re.sub(r"[\d,.]+( s\b|)", "#", re.sub(r"\S*/report\.html|^ +\d+ +/.*", "#", line)) for line in lines}
    return {" ".join(re.sub(r"\s-$|-{2,}|\w+/s", " ", row).split()) for row in rows} - {"", "start Spark # session #"}


def test_the_readme_shows_the_lines_that_the_program_prints(tmp_path, capsys):
    (shown,) = re.findall(r"```text\n(drainq-out/access\.log: .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    log = tmp_path / "access.log"
    log.write_text("".join(LINE.format(n=n) for n in range(20)))
    assert main(["metrics", str(log), "--engine", "local", "--out", str(tmp_path / "out")]) == 0
    printed = shapes(capsys.readouterr().out)
    assert len(printed) > 7
    assert printed == shapes(shown)
