"""The logs that the command line names: by paths, by patterns, or by ``-`` for the standard input.

1. The name of an existing file means that file, even if it contains ``*``, ``?`` or ``[``.
2. The standard input is saved to a temporary file before the job begins, because a log is read twice: for its digest,
   and for its lines.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO

from drainq.metrics.errors import UserError
from drainq.sql.url import shown

STANDARD_INPUT = "-"


def is_remote(path: str) -> bool:
    """Return whether a log is at a URL, which Spark reads.

    Example:
        >>> is_remote("s3a://logs/access.log"), is_remote("logs/access.log")
        (True, False)
    """
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path) is not None


@contextlib.contextmanager
def named(words: Sequence[str], standard_input: IO[bytes] | None) -> Iterator[list[str]]:
    """Yield the paths of the logs that the words name.

    Args:
        words: paths, patterns (``logs/*.gz``, ``**`` for any depth), URLs, or ``-`` once.
        standard_input: the bytes for ``-``, plain or compressed.
    Raises:
        UserError: a pattern matches no file, a URL holds a password or names a database, or ``-`` is named twice, or
            there is no standard input.

    Example:
        >>> import io
        >>> with named(["-"], io.BytesIO(b"a line")) as paths:
        ...     print(open(paths[0]).read())
        a line
    """
    if words.count(STANDARD_INPUT) > 1:
        raise UserError("LOG must be - once at most, got it twice: the standard input can be read only once")
    with contextlib.ExitStack() as stack:
        paths = []
        for word in words:
            if word == STANDARD_INPUT and standard_input is None:
                raise UserError("LOG must not be - here, got '-': this process has no standard input")
            if word == STANDARD_INPUT and standard_input is not None:
                paths.append(_saved(standard_input, stack))
            else:
                paths += _matching(word)
        yield paths


def _saved(standard_input: IO[bytes], stack: contextlib.ExitStack) -> str:
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="drainq-stdin-"))
    path = os.path.join(directory, "stdin")
    with open(path, "wb") as file:
        shutil.copyfileobj(standard_input, file)
    return path


def _matching(word: str) -> list[str]:
    if is_remote(word) and (shown(word) != word or word.startswith(("postgres", "sqlite", "memory"))):
        raise UserError(
            f"LOG must be a file, or a URL of a file system that holds no password, got {shown(word)!r}; a database "
            "goes with --db, and what a file system asks for with --conf"
        )
    if is_remote(word) or not glob.has_magic(word) or os.path.exists(word):
        return [word]
    found = sorted(path for path in glob.glob(word, recursive=True) if os.path.isfile(path))
    if not found:
        raise UserError(f"LOG must match at least one file, got {shown(word)!r}, which matches none; check the pattern")
    return found
