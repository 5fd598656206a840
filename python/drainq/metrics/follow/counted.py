"""How much of each followed file is counted: rows of the table ``followed``.

1. A row is written in the transaction of the metrics that it is about: after a crash it says exactly what is counted.
2. A file is known by its directory and inode, so it stays known when it is renamed; and by the digest of its first
   bytes, for inodes are used again.
3. Of two commands that follow one file, only one can count a byte: a row is only replaced if it still says what this
   command read or wrote last.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from typing import BinaryIO

from drainq.metrics.errors import UserError
from drainq.metrics.tables import FOLLOWED, SOURCES
from drainq.sql import Database, Upsert

HEAD = 1024  # bytes at the beginning of a file that tell it from another with the same inode
GONE = "-"  # instead of a digest: the file went away before it was counted to its end


@dataclass(frozen=True)
class Counted:
    """A row: a file, and how much of it is counted.

    Args:
        directory: where it lies, as an absolute path. inode: of the file, in decimal.
        name: in the directory, when it was last seen.
        bytes: how many from the beginning are counted. changed: when it was last written to, in nanoseconds.
        lines, parsed, bad: counts of these bytes.
        head: SHA-256 of the first bytes, ``HEAD`` of those that are counted, or fewer.
        sha256: of the whole uncompressed content, once the file is counted to its end; before, empty.
    """

    directory: str
    inode: str
    name: str
    bytes: int = 0
    changed: int = 0
    lines: int = 0
    parsed: int = 0
    bad: int = 0
    head: str = ""
    sha256: str = ""


def head_of(file: BinaryIO, length: int) -> str:
    """The digest of the first of ``length`` counted bytes; empty if none are counted, or the file has fewer."""
    first = os.pread(file.fileno(), min(HEAD, length), 0)
    return hashlib.sha256(first).hexdigest() if first and len(first) == min(HEAD, length) else ""


class Memory:
    """The rows of one directory.

    Args:
        database: is read once. directory: an absolute path.
    """

    def __init__(self, database: Database, directory: str) -> None:
        self._database = database
        self.directory = directory
        self._rows = {row.inode: row for row in _rows(database, directory)}

    def __iter__(self) -> Iterator[Counted]:
        return iter(list(self._rows.values()))

    def of(self, inode: int) -> Counted | None:
        """The row of a file."""
        return self._rows.get(str(inode))

    def write(self, rows: Iterable[Counted]) -> None:
        """Write rows, inside the caller's transaction.

        Raises:
            UserError: another command has counted something of these files meanwhile.
        """
        rows = list(rows)
        for row in rows:
            stored = next(_rows(self._database, row.directory, row.inode), None)
            if stored != self._rows.get(row.inode):
                raise UserError(f"another command counts {os.path.join(row.directory, row.name)!r}; end one of them")
        Upsert(FOLLOWED.name, FOLLOWED.names, key=FOLLOWED.key).write(self._database, [astuple(row) for row in rows])

    def keep(self, rows: Iterable[Counted]) -> None:
        """Remember rows whose transaction was committed."""
        self._rows.update((row.inode, row) for row in rows)


def _rows(database: Database, directory: str, inode: str | None = None) -> Iterator[Counted]:
    quote, mark = database.dialect.quote, database.dialect.placeholder
    names = ", ".join(quote(field.name) for field in fields(Counted))
    statement = f"SELECT {names} FROM {quote(FOLLOWED.name)} WHERE {quote('directory')} = {mark}"
    values = [directory]
    if inode is not None:
        statement, values = f"{statement} AND {quote('inode')} = {mark}", [directory, inode]
    for row in database.execute(statement, values):
        yield Counted(*row)


def check_not_followed(database: Database, path: str) -> None:
    """Refuse a log of which a part was counted as it was followed.

    Raises:
        UserError: with what to do instead.
    """
    directory, inode = os.path.realpath(os.path.dirname(path)), str(os.stat(path).st_ino)
    for row in _rows(database, directory, inode):
        with open(path, "rb") as file:
            same = row.bytes > 0 and not row.sha256 and head_of(file, row.bytes) == row.head
        if same:
            raise UserError(
                f"{path!r} is followed, and {row.lines:,} of its lines are counted; nothing was loaded: "
                f"count the others with --follow {os.path.join(directory, row.name)!r}"
            )


def counted_beginning(file: BinaryIO, database: Database) -> tuple[int, int, int, int]:
    """Bytes, lines, parsed and bad lines of the longest beginning of a file that was loaded as a log; or zeros."""
    quote = database.dialect.quote
    loaded = {
        (lines, sha256): (lines, parsed, bad)
        for sha256, lines, parsed, bad in database.execute(
            f"SELECT sha256, lines, parsed, bad FROM {quote(SOURCES.name)}"
        )
    }
    wanted = {lines for lines, _ in loaded}
    found = (0, 0, 0, 0)
    if not any(wanted):
        return found
    digest, number, position, most = hashlib.sha256(), 0, 0, max(wanted)
    file.seek(0)
    for line in file:
        digest.update(line)
        number, position = number + 1, position + len(line)
        if number in wanted and (counts := loaded.get((number, digest.hexdigest()))) and line.endswith(b"\n"):
            found = (position, *counts)
        if number >= most:
            break
    return found
