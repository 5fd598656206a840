"""``drainq doctor``: its output, and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from drainq.cli import main
from drainq.commands import doctor


def test_each_look_says_what_it_found(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for name in ("drainq: ", "python: ", "gil: ", "cores: ", "open files: ", "sqlite: ", "java: ", "PYSPARK_PYTHON: "):
        assert name in out, name
    for extra in doctor.EXTRAS:
        assert f"[{extra}]: " in out


def test_the_extras_are_those_of_the_package():
    from importlib.metadata import metadata

    declared = set(metadata("drainq").get_all("Provides-Extra") or ())
    if "cli" not in declared:
        pytest.skip("the package was installed before it had this extra")
    assert set(doctor.EXTRAS) | {"java"} == declared


def test_what_is_broken_is_exit_code_1_with_a_remedy(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "OLDEST_PYTHON", (9, 9))
    assert main(["doctor", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is False
    [python] = [check for check in said["checks"] if check["name"] == "python"]
    assert (python["state"], python["remedy"]) == ("broken", "drainq needs Python 3.10 or newer")


def test_a_missing_optional_package_is_no_fault_and_its_extra_is_named(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "_is_there", lambda package: package != "psycopg")
    assert main(["doctor"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert (
        "missing [postgres]: delayed queues and writers on PostgreSQL (psycopg); pip install 'drainq[postgres]'" in out
    )


def test_few_open_files_are_a_warning(monkeypatch):
    monkeypatch.setattr(doctor, "FEW_FILES", 10**9)
    check = doctor._files()
    assert check.state in ("warning", "ok")  # ok where there is no limit at all
    assert check.state == "ok" or "ulimit -n" in str(check.remedy)


def test_a_look_that_raises_is_broken_and_the_others_are_made(monkeypatch):
    def raises():
        raise OSError("no")

    assert doctor._guarded(raises) == doctor.Check("raises", "broken", "the look at it raised OSError: no")


def test_another_python_for_spark_is_a_warning(monkeypatch, tmp_path):
    pytest.importorskip("pyspark")
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 3 1\n")
    other.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    check = doctor._pyspark_python()
    assert check.state == "warning" and "is Python 3.1, this is" in check.found


def test_a_java_home_without_java_is_a_warning(monkeypatch, tmp_path):
    pytest.importorskip("pyspark")
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: name == "pyspark" or None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check = doctor._java()
    assert (check.state, check.found) == ("warning", f"JAVA_HOME is {tmp_path}, which has no bin/java")


def test_quiet_prints_nothing_on_a_machine_that_is_right(monkeypatch, capsys):
    monkeypatch.setattr(
        doctor, "examine", lambda: iter([doctor.Check("a", "ok", "b"), doctor.Check("c", "missing", "d")])
    )
    assert main(["doctor", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_no_line_is_longer_than_40_columns_on_a_narrow_screen(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(
        doctor, "examine", lambda: iter([doctor.Check("name", "warning", "found " * 20, "remedy " * 9)])
    )
    main(["doctor"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 40


def test_a_look_creates_nothing(tmp_path):
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-m", "drainq.cli", "doctor"], cwd=tmp_path, env=environment, check=True, timeout=120,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_all_commands(shell, capsys):
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    out = capsys.readouterr().out
    for command in ("metrics", "delayed", "top", "doctor", "redrive"):
        assert command in out
