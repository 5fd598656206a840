"""The documentation's examples run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "slow_sources.py"


def run(*arguments):
    command = [sys.executable, str(EXAMPLE), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_example_tells_its_story_and_draws_it(tmp_path):
    pytest.importorskip("matplotlib", reason="the plot needs matplotlib: pip install matplotlib")
    numbers, picture = tmp_path / "rates.json", tmp_path / "rates.png"
    done = run("--seconds", 1, "--json", numbers, "--plot", picture)
    assert (done.returncode, done.stderr) == (0, "")
    assert "prefetched is" in done.stdout
    runs = json.loads(numbers.read_text(encoding="utf-8"))["rows_per_second"]
    assert sum(runs["prefetched"]) > 0 < sum(runs["asked directly"])  # which is more, is no matter of a busy machine
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_example_refuses_bad_options_without_a_traceback():
    done = run("--seconds", -1)
    assert done.returncode == 2
    assert "got -1.0" in done.stderr
    assert "Traceback" not in done.stderr
