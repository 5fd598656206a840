"""The tail of a followed file: finds appended lines, and misses none when the file is rotated.

1. A byte is counted once: the number of counted bytes is a row, written in the transaction of the metrics.
2. Only whole lines are counted. A last line without a line end is counted once the file was rotated away and has not
   changed for some seconds.
3. After a rotation both files are read, because a server writes to the old file until it opens the new one. The old
   file has ended once the new one has lines.
4. A file with the same inode and the same first bytes is the same file. If its first bytes differ, or it is shorter, it
   was truncated or its inode was reused, and it is counted from its beginning.
5. A file that is rotated away and counted to its end is entered as a loaded log, by its content, so it is not counted
   again under its new name. A file that was made and rotated away between two rounds is counted too.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from drainq.metrics.errors import UserError
from drainq.metrics.follow.counted import GONE, Counted, Memory, head_of
from drainq.metrics.log_files import format_of
from drainq.metrics.open_log import HEAD, is_compressed
from drainq.metrics.outcome import LogCounts

MOST = 64 << 20  # bytes of one file in one round, unless a line has more
TASK = 8 << 20  # bytes for one thread
PIECE = 2 << 20  # bytes that are parsed at once


@dataclass(frozen=True)
class Appended:
    """Whole lines of a file, for one task.

    Args:
        source: the file's place in the round. begin: the lines' place in the file, in bytes. data: the lines.
        format: of the lines, as of a source.
    """

    source: int
    begin: int
    data: bytes
    format: str = ""

    def pieces(self) -> Iterator[bytes]:
        """Yield the lines, in pieces of whole lines."""
        for begin, end in _cuts(self.data, PIECE):
            yield self.data[begin:end]


@dataclass(frozen=True)
class Grown:
    """A file and its new lines of this round.

    Args:
        path: of the file. counted: its row before the round. data: whole lines, an ended file's last line, or nothing.
        changed, head, sha256: the new values of the row. format: of the lines.
    """

    path: str
    counted: Counted
    data: bytes
    changed: int
    head: str
    sha256: str
    format: str = ""

    def tasks(self, source: int) -> list[tuple[Appended, ...]]:
        """Cut the lines into tasks for several threads."""
        begin = self.counted.bytes
        cuts = _cuts(self.data, TASK)
        return [(Appended(source, begin + start, self.data[start:end], self.format),) for start, end in cuts]

    def after(self, counts: LogCounts) -> Counted:
        """Return the row of the file after the round."""
        row = self.counted
        return dataclasses.replace(
            row, name=os.path.basename(self.path), bytes=row.bytes + len(self.data), changed=self.changed,
            lines=row.lines + counts.lines, parsed=row.parsed + counts.parsed, bad=row.bad + counts.bad,
            head=self.head, sha256=self.sha256,
        )  # fmt: skip


@dataclass
class _Open:
    """An open file. ``quiet``: the time since which it is rotated away and unchanged; None if it was not rotated."""

    file: BinaryIO
    path: str
    counted: Counted
    quiet: float | None = None


class Tail:
    """A followed file, with its rotations.

    Args:
        path: of the file, which need not exist yet.
        memory: the counted bytes of the files in its directory.
        beginning: returns the bytes, lines, parsed and bad lines of a file's beginning that was loaded as a log.
        settled: seconds without a change after which a rotated file is counted to its end.
        say: called with a sentence for the user.
        format: of the lines; None: found from the first lines of each file.
    """

    def __init__(
        self,
        path: str,
        memory: Memory,
        beginning: Callable[[BinaryIO], tuple[int, int, int, int]],
        settled: float,
        say: Callable[[str], None],
        format: str | None = None,
    ) -> None:
        self._format = format
        self.path, self._memory, self._beginning, self._settled, self._say = path, memory, beginning, settled, say
        self._open: list[_Open] = []
        self._missing = False
        self._lost: list[Counted] = []
        self.uncounted: dict[str, str] = {}
        self._reopen()

    def look(self, now: float) -> list[Grown]:
        """Return the files with new lines, and those that ended or are gone.

        Args:
            now: the time in seconds. Only differences between calls matter.
        Raises:
            UserError: the file cannot be read.
        """
        self._open_current(now)
        found = [grown for each in self._open if (grown := self._read(each, now)) is not None]
        for row in self._lost:
            path = os.path.join(row.directory, row.name)
            found.append(Grown(path, row, b"", row.changed, row.head, GONE))
        return found

    def keep(self) -> None:
        """Take over the new rows, which the caller has written, and close the files that have ended."""
        self._lost.clear()
        for each in list(self._open):
            row = self._memory.of(int(each.counted.inode))
            if row is not None:
                each.counted = row
                if row.sha256:
                    each.file.close()
                    self._open.remove(each)

    def close(self) -> None:
        """Close the files."""
        for each in self._open:
            each.file.close()

    def _reopen(self) -> None:
        """Find the files that the last command did not count to their end."""
        try:
            current = os.stat(self.path).st_ino
        except OSError:
            current = -1
        name = os.path.basename(self.path)
        there = {entry.inode(): entry.path for entry in os.scandir(self._memory.directory) if os.path.isfile(entry)}
        for row in self._memory:
            if row.sha256 or int(row.inode) == current or not _is_of(row.name, name):
                continue
            path = there.get(int(row.inode))
            file = open(path, "rb") if path else None
            if file is not None and head_of(file, row.bytes) == row.head:
                self._open.append(_Open(file, str(path), row))
                continue
            if file is not None:
                file.close()
            self._lost.append(row)
            reason = (
                f"{self.path!r} was rotated while it was not followed, and the old file is gone; "
                f"what was appended to it after byte {row.bytes:,} is not counted"
            )
            self.uncounted[row.inode] = reason
            self._say(reason)
        self._open_unseen(current)

    def _open_unseen(self, current: int) -> None:
        """Open files that were made and rotated away since the last round. They are newer than every counted file."""
        name = os.path.basename(self.path)
        rows = [*(row for row in self._memory if _is_of(row.name, name)), *(each.counted for each in self._open)]
        known = {current, *(int(row.inode) for row in rows)}
        newest = max((row.changed for row in rows), default=0)
        for entry in os.scandir(self._memory.directory) if newest else ():
            if (
                entry.name == name
                or not _is_of(entry.name, name)
                or not os.path.isfile(entry)
                or entry.inode() in known
            ):
                continue
            if entry.stat().st_mtime_ns <= newest:
                continue
            file = open(entry.path, "rb")
            copied = any(row.bytes and head_of(file, row.bytes) == row.head for row in rows)
            if copied or is_compressed(os.pread(file.fileno(), HEAD, 0)):
                file.close()
                continue
            self._say(f"{entry.path!r} was rotated away unseen, and is counted too")
            self._open.append(_Open(file, entry.path, self._row_of(file)))

    def _open_current(self, now: float) -> None:
        """Open the file that has the path now, if it is another file than before."""
        try:
            status = os.stat(self.path)
            last = next((each for each in self._open if each.quiet is None), None)
            if last is not None and os.fstat(last.file.fileno()).st_ino == status.st_ino:
                return
            again = next((each for each in self._open if os.fstat(each.file.fileno()).st_ino == status.st_ino), None)
            file = None if again else open(self.path, "rb")
        except FileNotFoundError:
            if not self._missing:
                self._say(f"there is no file {self.path!r} now; waiting for one")
            self._missing = True
            for each in self._open:
                each.quiet = now if each.quiet is None else each.quiet
            return
        except OSError as error:
            raise UserError(f"cannot read the log {self.path!r}: {error.strerror or error}") from error
        self._missing = False
        if file is not None and self._open:
            self._open_unseen(status.st_ino)
        for each in self._open:
            each.quiet = now if each.quiet is None else each.quiet
        if file is not None:
            self._open.append(_Open(file, self.path, self._row_of(file)))
        elif again is not None:
            again.quiet, again.path = None, self.path

    def _row_of(self, file: BinaryIO) -> Counted:
        """Return the row of a file, or a new one."""
        inode, name = os.fstat(file.fileno()).st_ino, os.path.basename(self.path)
        row = self._memory.of(inode)
        if row is not None and head_of(file, row.bytes) == row.head:
            return dataclasses.replace(row, sha256="")
        if row is not None and not row.sha256:
            self._truncated(row)
        new = Counted(self._memory.directory, str(inode), name)
        position, lines, parsed, bad = self._beginning(file)
        if position:
            self._say(f"the first {lines:,} lines of {self.path!r} were loaded before; the others are counted")
        return dataclasses.replace(
            new, bytes=position, lines=lines, parsed=parsed, bad=bad, head=head_of(file, position)
        )

    def _read(self, each: _Open, now: float) -> Grown | None:
        """Return the new lines of a file, or its end. Return None if there is neither."""
        status = os.fstat(each.file.fileno())
        if status.st_size < each.counted.bytes or head_of(each.file, each.counted.bytes) != each.counted.head:
            self._truncated(each.counted)
            each.counted = Counted(each.counted.directory, each.counted.inode, each.counted.name)
        data = _appended(each.file, each.counted.bytes, status.st_size)
        position = each.counted.bytes
        after = os.fstat(each.file.fileno())
        if after.st_size < position + len(data) or head_of(each.file, position) != each.counted.head:
            return None  # truncated during the reading; the next round starts again
        ended = False
        if each.quiet is not None and not data:
            if now - each.quiet >= self._settled and self._goes_on():
                data, ended = os.pread(each.file.fileno(), status.st_size - position, position), True
        elif each.quiet is not None:
            each.quiet = now
        if not data and not ended:
            return None
        end = position + len(data)
        sha256 = _digest(each.file, end) if ended else ""
        format = self._format
        if format is None:
            format = format_of(each.path, os.pread(each.file.fileno(), min(end, 1 << 18), 0))
            if format and not position:
                self._say(f"{each.path!r} is read as {format}")
        return Grown(each.path, each.counted, data, status.st_mtime_ns, head_of(each.file, end), sha256, format)

    def _goes_on(self) -> bool:
        """Return whether the current file has lines. Then the server no longer writes to the rotated ones."""
        return any(each.quiet is None and os.fstat(each.file.fileno()).st_size for each in self._open)

    def _truncated(self, row: Counted) -> None:
        self._say(
            f"{self.path!r} was truncated after byte {row.bytes:,} was counted, and is counted from its new beginning; "
            "lines that were written shortly before that may be missing"
        )


def _is_of(name: str, log: str) -> bool:
    """Return whether a name belongs to a log or its rotated files: ``access.log.1``, ``access.log-20260101``."""
    return name == log or name.startswith((f"{log}.", f"{log}-"))


def _appended(file: BinaryIO, begin: int, size: int) -> bytes:
    """Read whole lines from the byte ``begin`` on, about ``MOST`` bytes at most."""
    data = b""
    while begin + len(data) < size:
        more = os.pread(file.fileno(), min(MOST, size - begin - len(data)), begin + len(data))
        data += more
        end = data.rfind(b"\n") + 1
        if end or not more:
            return data[:end]
    return b""


def _digest(file: BinaryIO, length: int) -> str:
    found, position = hashlib.sha256(), 0
    while position < length:
        chunk = os.pread(file.fileno(), min(1 << 20, length - position), position)
        if not chunk:
            break
        found.update(chunk)
        position += len(chunk)
    return found.hexdigest()


def _cuts(data: bytes, size: int) -> Iterator[tuple[int, int]]:
    """Cut lines into parts of about ``size`` bytes. Yield the begin and end of each part."""
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", min(begin + size, len(data)) - 1) + 1 or len(data)
        yield begin, end
        begin = end
