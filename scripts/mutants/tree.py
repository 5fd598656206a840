"""A copy of the project in which mutants are planted, so that no fault is ever in the working tree.

The copy lies in `target/mutants/tree` and stays there between two runs, and so do the files that cargo built
from it: a file is written only if its content differs, and a build after one planted fault takes seconds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

from .mutant import ROOT, Mutant

HOME = ROOT / "target" / "mutants"
NATIVE = "python/drainq/_native.abi3.so"


class DoesNotApply(Exception):
    """Raised if the mutant's file is missing, or does not have the old text exactly once."""


class Tree:
    """The copy. It belongs to one run at a time."""

    def __init__(self) -> None:
        HOME.mkdir(parents=True, exist_ok=True)
        self.top = HOME / "tree"
        self._lock = self._claim()
        self._sound = b""  # the content without the fault of the file that has one

    def _claim(self) -> IO[str]:
        lock = (HOME / "lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit(f"mutants: another run is at work in {HOME}")
        return lock

    def copy(self) -> None:
        """Make the copy equal to the working tree: the files that git tracks, and those that it does not ignore."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        wanted = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
        for name in wanted:
            self._write(name, (ROOT / name).read_bytes())
        for folder in ("crates", "python", "tests", "scripts"):
            for path in sorted((self.top / folder).rglob("*")):
                name = path.relative_to(self.top).as_posix()
                if path.is_file() and name not in wanted and path.suffix in (".py", ".rs", ".pyi", ".sql"):
                    path.unlink()

    def _write(self, name: str, content: bytes) -> None:
        path = self.top / name
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def build(self) -> str:
        """Build the native module of the copy. Return the compiler's complaint, or an empty text."""
        built = subprocess.run(
            ["cargo", "build", "--quiet", "--package", "drainq-py", "--features", "pyo3/extension-module",
             "--target-dir", str(HOME / "build")],
            cwd=self.top,
            env={**os.environ, "PYO3_PYTHON": sys.executable, "CARGO_PROFILE_DEV_DEBUG": "0"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if built.returncode != 0:
            return built.stdout.strip() or "cargo build failed"
        library = next(path for path in (HOME / "build" / "debug").glob("lib*.so") if "native" in path.name)
        self._install(library)
        return ""

    def _install(self, library: Path) -> None:
        fresh = self.top / f"{NATIVE}.new"
        shutil.copyfile(library, fresh)
        fresh.replace(self.top / NATIVE)

    def keep_native(self) -> None:
        """Set the module just built aside, as the one without a fault."""
        shutil.copyfile(self.top / NATIVE, HOME / "sound.so")

    def restore_native(self) -> None:
        """Put the module without a fault back."""
        self._install(HOME / "sound.so")

    def plant(self, mutant: Mutant) -> None:
        """Put the fault in.

        Raises:
            DoesNotApply: its old text is not exactly once in its file.
        """
        self._sound = (self.top / mutant.file).read_bytes()
        self._write(mutant.file, faulty(mutant, self.top).encode())

    def restore(self, mutant: Mutant) -> None:
        """Take the fault out."""
        self._write(mutant.file, self._sound)


def faulty(mutant: Mutant, top: Path = ROOT) -> str:
    """Return the text of the mutant's file with the fault in it.

    Raises:
        DoesNotApply: its old text is not exactly once in its file.
    """
    path = top / mutant.file
    if not path.is_file():
        raise DoesNotApply(f"there is no file {mutant.file}")
    text = path.read_text(encoding="utf-8")
    if (count := text.count(mutant.old)) != 1:
        raise DoesNotApply(f"its old text is {count} times in {mutant.file}, not once")
    return text.replace(mutant.old, mutant.new)
