"""Access logs of any length, made of a real one."""

from __future__ import annotations

import calendar
import functools
import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

PATTERN = (
    r'^([^ "]+) [^ "]+ [^"\[]*\[([^\]"]*)\] "([^"]*)" ([0-9]{3}) ([0-9]+|-)(?: "([^"]*)" "([^"]*)")?(?: ([0-9.]+))?$'
)
"""The fields of a line: client, time, request, status, size, referrer, user agent and seconds."""
NGINX_NAMES = (
    "remote_addr", "time_local", "request", "status", "body_bytes_sent", "http_referer", "http_user_agent",
    "request_time",
)  # fmt: skip
"""What nginx calls them."""
LOG = Path(__file__).parents[1] / ".." / "shared" / "data" / "apache_access.log"
_LINE = re.compile(rb'^(.*? \[)([^\]]*)(\] "[A-Z]+ )([^ "]+)(.*)$', re.DOTALL)


def repeated(log: Path, lines: int) -> Iterator[bytes]:
    """Repeat the lines of a log."""
    content = log.read_bytes().split(b"\n")[:-1]
    for place in range(lines):
        yield content[place % len(content)]


def own(log: Path, lines: int, paths: int = 200_000) -> Iterator[bytes]:
    """Repeat the lines of a log, each round an hour later, with request times. A fifth of them have one of many paths."""
    dice = random.Random(7)
    content = log.read_bytes().split(b"\n")[:-1]
    for place in range(lines):
        line = content[place % len(content)]
        match = _LINE.match(line)
        if not match or not line.endswith(b'"'):
            yield line
            continue
        stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(_moment(match[2]) + place // len(content) * 3607))
        path = match[4] if place % 5 else b"/item/%d/view" % (place * 7919 % paths)
        took = min(30, dice.lognormvariate(-3.5, 1.1))  # seconds
        yield b"%s%s%s%s%s %.3f" % (match[1], stamp.encode(), match[3], path, match[5], took)


def in_json(log: Path, lines: int) -> Iterator[bytes]:
    """Make the lines of :func:`own` JSON, as nginx does with ``escape=json``. Lines that are no requests are left out."""
    field = re.compile(PATTERN)
    for line in own(log, lines):
        if match := field.match(line.decode(errors="replace")):
            values = [value or "" for value in match.groups()]
            yield json.dumps(dict(zip(NGINX_NAMES, values))).encode()


def write(lines: Iterator[bytes], to: Path) -> Path:
    """Write lines to a file."""
    with open(to, "wb", buffering=1 << 20) as file:
        for line in lines:
            file.write(line + b"\n")
    return to


@functools.cache
def _moment(stamp: bytes) -> int:
    return calendar.timegm(time.strptime(stamp.decode().split()[0], "%d/%b/%Y:%H:%M:%S"))
