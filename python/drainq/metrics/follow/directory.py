"""The followed directory: finds files that are finished and not yet counted.

1. A file is finished if it has not changed for some seconds and its last line has a line end. This does not prove that
   its writer has closed it, so finished files should be *moved* into the directory.
2. A file that changed after it was counted is left out, because it was probably not finished.
3. Each file that is left out is reported once, with the reason, and stays in ``uncounted``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from drainq.metrics.errors import UserError
from drainq.metrics.follow.counted import Counted, Memory, head_of
from drainq.metrics.log_files import Source, find

MOST_FILES = 1000  # of one round
MOST_BYTES = 1 << 30  # of one round, unless one file has more
HIDDEN = (".", "_")  # the first characters of names of unfinished files


class Directory:
    """A followed directory.

    Args:
        path: the directory's path. memory: the counted bytes of its files.
        settled: seconds without a change after which a file is finished.
        say: called with a sentence for the user.
        format: of the lines; None: found from the first lines of each file.
    """

    def __init__(
        self, path: str, memory: Memory, settled: float, say: Callable[[str], None], format: str | None = None
    ) -> None:
        self._format = format
        self.path, self._memory, self._settled, self._say = path, memory, settled, say
        self._said: dict[str, str] = {}
        self._young: dict[str, int] = {}
        self._left_out: dict[str, tuple[int, int, str]] = {}
        self.uncounted: dict[str, str] = {}
        self.waiting = 0

    def finished(self, now: float) -> list[Source]:
        """Return the files to count, the oldest first. Set ``waiting`` to the number of files that changed recently.

        Args:
            now: seconds since the epoch.
        Raises:
            UserError: the directory cannot be read.
        """
        try:
            names = sorted(entry.name for entry in os.scandir(self.path) if os.path.isfile(entry))
        except OSError as error:
            raise UserError(f"cannot read the directory {self.path!r}: {error.strerror or error}") from error
        young, self._young, self.uncounted = self._young, {}, {}
        found = []
        for name in names:
            if name.startswith(HIDDEN):
                continue
            try:
                source = self._wanted(name, now, young)
            except FileNotFoundError:  # it was removed after the listing
                continue
            except (OSError, UserError) as error:
                reason = str(error) if isinstance(error, UserError) else f"cannot read {name!r}: {error.strerror}"
                self._tell(name, reason)
                self.uncounted[name] = reason
                continue
            if source is not None:
                found.append(source)
        self.waiting = len(self._young)
        found.sort(key=lambda source: (source.changed, source.path))
        return _first_of(found)

    def leave_out(self, source: Source, reason: str) -> None:
        """Leave a file out until it changes."""
        name = os.path.basename(source.path)
        self._left_out[name] = (source.size, source.changed, reason)
        self.uncounted[name] = reason
        self._tell(name, reason)

    def _wanted(self, name: str, now: float, young: Mapping[str, int]) -> Source | None:
        """Return the file if it can be counted now. ``young``: the sizes of the files that waited before."""
        path = os.path.join(self.path, name)
        status = os.stat(path)
        size, changed = status.st_size, status.st_mtime_ns
        counted = self._memory.of(status.st_ino)
        if not size or (counted and (counted.bytes, counted.changed) == (size, changed)):
            return None
        if counted and size != counted.bytes and _is_the_one(path, counted):
            if not counted.sha256:
                self._tell(name, f"{path!r} is left to the command that follows the file itself")
                return None
            raise UserError(changed_after(path, counted))
        if self._left_out.get(name, ())[:2] == (size, changed):
            raise UserError(self._left_out[name][2])
        if 0 <= now - changed / 1e9 < self._settled:
            self._young[name] = size
            if young.get(name, size) != size:
                self._tell(name, f"{path!r} is being written; it is counted after {self._settled:g} s without a change")
            return None
        source = find(0, path, self._format)
        if not source.compressed and not _ends_a_line(path):
            raise UserError(
                f"{path!r} looks half-written, for its last line has no line end; it is not counted until it has"
            )
        if source.format:
            self._tell(name, f"{path!r} is read as {source.format}")
        return source

    def _tell(self, name: str, sentence: str) -> None:
        """Report a sentence about a file, unless it was the last sentence about this file."""
        if self._said.get(name) != sentence:
            self._said[name] = sentence
            self._say(sentence)


def changed_after(path: str, counted: Counted) -> str:
    """Return the sentence about a file that changed after it was counted."""
    return (
        f"{path!r} changed after it was counted, when it had {counted.bytes:,} bytes; what is new in it is not "
        "counted: move only finished files into the directory, or follow the file itself"
    )


def _is_the_one(path: str, counted: Counted) -> bool:
    with open(path, "rb") as file:
        return head_of(file, counted.bytes) == counted.head


def _ends_a_line(path: str) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _first_of(sources: list[Source]) -> list[Source]:
    """Return the sources for one round."""
    taken, held = 0, 0
    for source in sources[:MOST_FILES]:
        held += source.size
        if taken and held > MOST_BYTES:
            break
        taken += 1
    return sources[:taken]
