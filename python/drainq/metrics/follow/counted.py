"""The table ``followed``: the number of counted bytes and lines of each followed file.

1. A row and its metrics are written in one transaction, so they still agree after a crash.
2. Directory, inode and the digest of the first bytes identify a file: a renamed file stays known, and a reused inode is
   noticed.
3. If two commands follow one file, only one of them can count a byte: a command replaces a row only if no other command
   has changed it.
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

HEAD = 1024  # bytes at the beginning that distinguish a file from another with the same inode
GONE = "-"  # instead of a digest: the file vanished before it was counted to its end


@dataclass(frozen=True)
class Counted:
    """A row of the table.

    Args:
        directory: the file's absolute directory. inode: the file's inode, in decimal.
        name: its last known name in the directory.
        bytes: the number of counted bytes, from the beginning. changed: when it was last written to, in nanoseconds.
        lines, parsed, bad: counts of these bytes.
        head: SHA-256 of the first ``HEAD`` counted bytes, or fewer.
        sha256: the uncompressed content's digest once the file is counted to its end; empty before.
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
    """Return the digest of the first ``length`` bytes, at most ``HEAD``; "" if there are fewer or ``length`` is 0."""
    first = os.pread(file.fileno(), min(HEAD, length), 0)
    return hashlib.sha256(first).hexdigest() if first and len(first) == min(HEAD, length) else ""


class Memory:
    """The rows of one directory, kept in memory.

    Args:
        database: read at first and before each write. directory: an absolute path.
    """

    def __init__(self, database: Database, directory: str) -> None:
        self._database = database
        self.directory = directory
        self._rows = {row.inode: row for row in _rows(database, directory)}

    def __iter__(self) -> Iterator[Counted]:
        return iter(self._rows.values())

    def of(self, inode: int) -> Counted | None:
        """Return the row of a file."""
        return self._rows.get(str(inode))

    def write(self, rows: Iterable[Counted]) -> None:
        """Write rows, inside the caller's transaction.

        Raises:
            UserError: another command has counted a part of these files meanwhile.
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
    """Refuse a log that was followed and is not yet counted to its end.

    Raises:
        UserError: the message names the command to use instead.
    """
    directory, inode = os.path.realpath(os.path.dirname(path)), str(os.stat(path).st_ino)
    for row in _rows(database, directory, inode):
        with open(path, "rb") as file:
            same = not row.sha256 and head_of(file, row.bytes) == row.head
        if same:
            raise UserError(
                f"{path!r} is followed, and {row.lines:,} of its lines are counted; nothing was loaded: "
                f"count the others with --follow {os.path.join(directory, row.name)!r}"
            )


def counted_beginning(file: BinaryIO, database: Database) -> tuple[int, int, int, int]:
    """Find the longest beginning of a file that was loaded as a log. Return its bytes, lines, parsed and bad lines."""
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
    for line in file:
        digest.update(line)
        number, position = number + 1, position + len(line)
        if number in wanted and (counts := loaded.get((number, digest.hexdigest()))) and line.endswith(b"\n"):
            found = (position, *counts)
        if number >= most:
            break
    return found
