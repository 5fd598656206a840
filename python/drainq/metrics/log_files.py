"""The logs named by the user: their size, kind and digest, and which of them are loaded already.

1. The SHA-256 of its *uncompressed* content identifies a source, so ``access.log.1`` and, a day later,
   ``access.log.2.gz`` are one source.
2. A source that changes during the reading is refused as a whole.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import overload

from drainq.metrics.errors import FileChanged, UserError
from drainq.metrics.log_formats import found_in, why_refused
from drainq.metrics.log_names import is_remote
from drainq.metrics.open_log import BOM, check_text, is_compressed, opened
from drainq.metrics.tables import SOURCES
from drainq.sql import Database
from drainq.sql.url import shown

_CHUNK = 1 << 20
FIRST_BYTES = 1 << 18  # bytes that tell the kind and the format of a log


@dataclass(frozen=True)
class Source:
    """One log.

    Args:
        number: its place among the logs of this run.
        path: as the user wrote it.
        compressed: whether it begins like a compressed file.
        size: bytes in the file.
        changed: when it was last written to, in nanoseconds.
        format: of its lines, as ``--format`` takes it; empty for common or combined.
        sha256: its digest, if that is known.
    """

    number: int
    path: str
    compressed: bool
    size: int
    changed: int
    format: str = ""
    sha256: str = ""

    @property
    def absolute(self) -> str:
        """The path that tasks open."""
        return os.path.abspath(self.path)

    def again(self) -> Source:
        """Return the log as it is now."""
        return find(self.number, self.path, self.format)

    def check_unchanged(self) -> None:
        """Raise FileChanged if the file was written to since ``find`` read its size and time."""
        now = self.again()
        if (now.size, now.changed) != (self.size, self.changed):
            raise FileChanged(
                f"{self.path!r} changed while it was read, and nothing was loaded; load it once rotated, or a copy"
            )


def find(number: int, path: str, format: str | None = None) -> Source:
    """Read the size, the time and the kind of one log. Without a ``format``, find it from the first lines.

    Raises:
        UserError: the log is missing, unreadable, a URL, not a file or not text, or several formats fit it.
    """
    if is_remote(path):
        raise UserError(f"{shown(path)!r} is a URL, which only `drainq metrics LOG --engine spark` reads; copy the log")
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            kind = (
                "a directory; name the logs in it"
                if stat.S_ISDIR(status.st_mode)
                else "not a file; save its content to one"
            )
            raise UserError(f"{path!r} is {kind}")
        with open(path, "rb") as file:
            compressed = is_compressed(file.read(FIRST_BYTES))
        with opened(path) as text:
            head = text.read(FIRST_BYTES)
        check_text(path, head)
    except FileNotFoundError:
        raise UserError(f"there is no log {shown(path)!r}; check the name") from None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the log {shown(path)!r}: {getattr(error, 'strerror', None) or error}") from error
    format = format_of(path, head) if format is None else format
    return Source(number, path, compressed, status.st_size, status.st_mtime_ns, format)


def format_of(path: str, head: bytes) -> str:
    """Return the format of a log with these first bytes.

    Raises:
        UserError: formats of different meanings fit, or the log is of a known kind that no format can read.
    """
    head = head.removeprefix(BOM)
    found = found_in(head)
    if found == [""] and (why := why_refused(head)):
        raise UserError(f"{path!r} is {why}")
    if len(found) > 1:
        raise UserError(
            f"the lines of {path!r} fit the formats {', '.join(found)}, which mean different things by a number; "
            "name one with --format"
        )
    return found[0]


def digest(source: Source) -> str:
    """Compute the SHA-256 of the uncompressed content, in hex.

    Raises:
        UserError: the compressed file is damaged or cut off.
    """
    if source.sha256:
        return source.sha256
    found = hashlib.sha256()
    with opened(source.path) as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


class Digests:
    """Computes the digests of sources in the background, while Spark starts."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="drainq-digest")
        self._waiting: list[Future[str]] = [self._pool.submit(digest, source) for source in sources]

    @overload
    def result(self) -> list[str]: ...
    @overload
    def result(self, timeout: float) -> list[str] | None: ...
    def result(self, timeout: float | None = None) -> list[str] | None:
        """Wait for all digests, and return them in the order of the sources. Return None after ``timeout`` seconds."""
        if wait(self._waiting, timeout).not_done:
            return None
        return [waiting.result() for waiting in self._waiting]

    def close(self) -> None:
        """Cancel the digests that have not begun, and wait for the others."""
        self._pool.shutdown(cancel_futures=True)


def loaded_before(database: Database, digests: Sequence[str]) -> set[str]:
    """Return which of these digests are in the database."""
    quote, mark = database.dialect.quote, database.dialect.placeholder
    statement = f"SELECT {quote('sha256')} FROM {quote(SOURCES.name)} WHERE {quote('sha256')} = {mark}"
    return {digest for digest in digests if database.execute(statement, (digest,))}
