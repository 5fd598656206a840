"""Opens logs. Only this module detects compressed files, and files that are not text.

1. The first bytes show how a file is compressed, whatever its name is.
2. A damaged or cut-off file is an error, whatever module reads it.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import zlib
from collections.abc import Iterator
from typing import IO, Any

from drainq.metrics.errors import UserError

BOM = b"\xef\xbb\xbf"
HEAD = 512  # bytes that tell the kind of a file: the first header of a tar archive
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
_COMPRESSED = (
    (b"\x1f\x8b", "gzip", "gzip"), (b"BZh", "bzip2", "bz2"), (b"\xfd7zXZ\0", "xz", "lzma"),
    (b"(\xb5/\xfd", "zstd", _ZSTD),
)  # fmt: skip
_ARCHIVES = (
    (257, b"ustar", "a tar archive; unpack it, and name the logs in it"),
    (0, b"PK\3\4", "a zip archive; unpack it, and name the logs in it"),
    (0, b"\4\x22M\x18", "compressed with lz4, which is not read; unpack it first"),
)
_UTF_16 = "text in UTF-16; write it as UTF-8 first, as `iconv -f UTF-16 -t UTF-8` does"


def is_compressed(head: bytes) -> bool:
    """Return whether a file with these first bytes is read through a decompressor."""
    return any(head.startswith(magic) for magic, *_ in _COMPRESSED)


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """Open a log, and read it uncompressed.

    Raises:
        UserError: the compressed data is damaged or cut off, or a package for it is missing.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as raw:
        head = raw.read(HEAD)
        raw.seek(0)
        found = next((kind for kind in _COMPRESSED if head.startswith(kind[0])), None)
        if found is None:
            yield raw
            return
        _, name, module = found
        try:
            reader: Any = importlib.import_module(module)
        except ImportError:
            raise UserError(
                f"{path!r} is compressed with {name}, which needs a package: pip install 'drainq[{name}]'"
            ) from None
        damaged = (
            EOFError,
            OSError,
            zlib.error,
            *(getattr(reader, e) for e in ("LZMAError", "ZstdError") if hasattr(reader, e)),
        )
        try:
            with reader.open(raw) as file:
                yield file
        except damaged as error:
            if getattr(error, "errno", None):  # an error of the disk, not of the data
                raise
            raise UserError(f"{path!r} is no complete {name} file ({error}); fetch it again") from error


def check_text(path: str, head: bytes) -> None:
    """Refuse a log whose first uncompressed bytes are those of another kind of file.

    Raises:
        UserError: the message names the kind.
    """
    pairs = head[:8:2], head[1:8:2]
    wide = len(head) >= 8 and any(not any(zeros) and all(others) for zeros, others in (pairs, pairs[::-1]))
    kinds = [_UTF_16] if wide or head.startswith((b"\xff\xfe", b"\xfe\xff")) else []
    kinds += [kind for place, magic, kind in _ARCHIVES if head.startswith(magic, place)]
    if kinds:
        raise UserError(f"{path!r} is {kinds[0]}")
