"""Cuts logs into blocks. A task reads its blocks in pieces of whole lines.

1. A line belongs to the block that contains its first byte, and is read to its end. So each line is read once,
   wherever the blocks are cut.
2. A compressed log is one block, because it cannot be read from the middle.
3. Lines end with ``\\n``, as for ``grep -n`` and editors. A ``\\r`` before it belongs to the line end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Protocol

from drainq.metrics.log_files import Source
from drainq.metrics.open_log import opened

BLOCK = 32 << 20  # the least bytes of a task; smaller logs share a task
PIECE = 2 << 20  # bytes that are parsed at once
RATIO = 10  # approximate number of bytes after decompression for each compressed byte


@dataclass(frozen=True)
class Block:
    """A part of a log.

    Args:
        source: the log's number. path: an absolute path, for the executors too.
        begin, end: in bytes; None means the end of a compressed log. format: as in :class:`Source`.
    """

    source: int
    path: str
    begin: int
    end: int | None
    format: str = ""

    def pieces(self) -> Iterator[bytes]:
        """Yield the lines, in pieces of whole lines."""
        return pieces(self)


class Part(Protocol):
    """Lines of a log: a block, or appended lines. ``source`` is the log's number, ``begin`` is in bytes."""

    @property
    def source(self) -> int: ...
    @property
    def begin(self) -> int: ...
    @property
    def format(self) -> str: ...
    def pieces(self) -> Iterator[bytes]: ...


Task = tuple[Part, ...]


def tasks(sources: Sequence[Source], *, size: int | None = None) -> list[Task]:
    """Cut logs into blocks, and combine blocks until a task has at least ``size`` bytes; None is ``BLOCK``."""
    size = size or BLOCK
    found: list[Task] = []
    waiting: list[Part] = []
    held = 0
    for source in sources:
        step = source.size if source.compressed else size
        for begin in range(0, source.size, step or 1):
            end = None if source.compressed else min(begin + step, source.size)
            waiting.append(Block(source.number, source.absolute, begin, end, source.format))
            held += source.size * RATIO if end is None else end - begin
            if held >= size:
                found.append(tuple(waiting))
                waiting, held = [], 0
    return found + ([tuple(waiting)] if waiting else [])


def pieces(block: Block, *, size: int | None = None) -> Iterator[bytes]:
    """Yield the lines of a block, in pieces of whole lines. The last line of a log may lack its line end."""
    size = size or PIECE
    with opened(block.path) as file:
        position = block.begin
        if position:
            file.seek(position - 1)
            position += _skipped_line(file, size) - 1
        yield from _whole_lines(file, None if block.end is None else block.end - position, size)


def _whole_lines(file: IO[bytes], length: int | None, size: int) -> Iterator[bytes]:
    """Yield the lines that begin within ``length`` bytes, in pieces."""
    rest = b""
    while length is None or length > 0:
        read = file.read(size if length is None else min(size, length))
        if not read:
            break
        if length is not None:
            length -= len(read)
        end = read.rfind(b"\n") + 1
        if end:
            yield rest + read[:end] if rest else read[:end]
            rest = read[end:]
        else:
            rest += read
    if rest:
        yield rest + file.readline()


def _skipped_line(file: IO[bytes], size: int) -> int:
    """Read to the end of a line. Return the number of bytes read."""
    skipped = 0
    while line := file.readline(size):
        skipped += len(line)
        if line.endswith(b"\n"):
            break
    return skipped
