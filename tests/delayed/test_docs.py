"""The Python in the how-to runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "delayed.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_page_has_examples():
    assert len(BLOCKS) == 10


@pytest.mark.parametrize("number", range(9))
def test_an_example_of_the_page_runs(number, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKS[number]], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
