"""The stub of the native module agrees with the module."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .project import PACKAGE, ROOT


def test_the_stub_agrees_with_the_runtime():
    assert (PACKAGE / "_native.pyi").is_file()
    pytest.importorskip("mypy.stubtest")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "drainq._native", "--mypy-config-file", ROOT / "pyproject.toml"],
        cwd=ROOT / "python", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "no issues found in 1 module" in checked.stdout
