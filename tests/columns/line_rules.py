"""One line of an access log, read by the rules, one at a time.

This is the definition of what a line means, with regular expressions and slowly. :func:`drainq.columns.parse_access_log`
must agree with it on every line.

    client ident user [17/May/2015:10:05:03 +0000] "GET /path?query HTTP/1.1" 200 203023 "referrer" "user agent" 0.042

Common Log Format ends after the bytes; Combined adds referrer and user agent; both may end with the request
time in seconds. The client is a host or an address without a port; no word of a user name of several words is ``-``:
a prefix before the line would shift its fields. Inside quotes ``\\"`` is a quote and ``\\\\`` a backslash; fields are kept as the server wrote them.
"""

from __future__ import annotations

import datetime
import functools
import re
from dataclasses import dataclass

_QUOTED = rb'"([^"\\]*(?:\\.[^"\\]*)*)"'
_CLIENT = rb"[\w.-]+|unix:|(?=[^ %]*:[^ %]*:)[0-9A-Fa-f:.]+(?:%[\w.-]+)?"
_USER = rb'(?:[^ "]+|(?!(?:[^"\[]* )?- )[^"\[]*[^ "\[])'
_LINE = re.compile(
    rb"(" + _CLIENT + rb') [^ "]+ ' + _USER + rb' \[([^\]"]*)\] ' + _QUOTED + rb" ([0-9]{3}) ([0-9]{1,15}|-)"
    rb"(?: " + _QUOTED + rb" " + _QUOTED + rb")?(?: ([0-9]{1,9}(?:\.[0-9]{1,9})?|-))?",
    re.DOTALL,
)
_STAMP = re.compile(
    rb"([0-9]{2})/([A-Z][a-z]{2})/([0-9]{4}):([0-9]{2}):([0-5][0-9]):([0-5][0-9]|60)"
    rb" ([+-])([01][0-9]|2[0-3])([0-5][0-9])"
)
_MONTHS = {
    name.encode(): 1 + place for place, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())
}
_EPOCH = datetime.date(1970, 1, 1).toordinal()
NO_ENDPOINT = b"-"  # what the client sent was no request: a port scan, a TLS greeting, silence


@dataclass(frozen=True)
class Record:
    """What one line says.

    Args:
        second: epoch seconds, UTC.
        referrer, agent: None in Common Log Format.
        seconds: the request time; None if the line has none.
    """

    client: bytes
    second: int
    endpoint: bytes
    status: int
    size: int
    referrer: bytes | None
    agent: bytes | None
    seconds: float | None


def parse(line: bytes) -> Record | str:
    """Read one line, without its line end.

    Returns:
        The record, or the reason why it is none.

    Example:
        >>> parse(b'::1 - - [17/May/2015:10:05:03 +0200] "GET /a?b HTTP/1.1" 200 -').endpoint
        b'/a'
        >>> parse(b"")
        'empty line'
    """
    found = _LINE.fullmatch(line)
    if not found:
        return _why_not(line)
    client, stamp, request, status, size, referrer, agent, seconds = found.groups()
    second = second_of(stamp)
    if second is None:
        return "no such time"
    return Record(
        client, second, endpoint_of(request), int(status), 0 if size == b"-" else int(size), referrer, agent,
        None if seconds in (None, b"-") else float(seconds),
    )  # fmt: skip


@functools.lru_cache(maxsize=100_000)
def second_of(stamp: bytes) -> int | None:
    """Return epoch seconds of ``17/May/2015:10:05:03 +0000``; None: no such time. A leap second is the one before."""
    found = _STAMP.fullmatch(stamp)
    if not found:
        return None
    day, month, year, hour, minute, second, sign, off_hours, off_minutes = found.groups()
    try:
        date = datetime.date(int(year), _MONTHS[month], int(day))
    except (KeyError, ValueError):
        return None
    if int(hour) > 23:
        return None
    offset = int(off_hours) * 3600 + int(off_minutes) * 60
    local = (date.toordinal() - _EPOCH) * 86400 + int(hour) * 3600 + int(minute) * 60 + min(int(second), 59)
    return local + offset if sign == b"-" else local - offset


def endpoint_of(request: bytes) -> bytes:
    """Return the path of a request line, without query; ``-`` if it is no request.

    Example:
        >>> endpoint_of(b"GET http://example.com/a/b?c=d HTTP/1.1")
        b'/a/b'
    """
    method, space, target = request.partition(b" ")
    if not space or not method.isalpha():
        return NO_ENDPOINT
    head, space, protocol = target.rpartition(b" ")
    if space and protocol.startswith(b"HTTP/"):
        target = head
    if not target.startswith(b"/"):
        scheme, separator, rest = target.partition(b"://")
        if separator and scheme.isalpha():
            target = b"/" + rest.partition(b"?")[0].partition(b"/")[2]
    return target.partition(b"?")[0] or NO_ENDPOINT


def _why_not(line: bytes) -> str:
    """Return the first thing that is wrong, in words."""
    if not line:
        return "empty line"
    if not line.strip():
        return "blank line"
    for reason, beginning in _BEGINNINGS:
        found = beginning.match(line)
        if not found:
            return reason
        rest = line[found.end() :]
    referrer = _NEXT.match(rest)
    if referrer:
        rest = rest[referrer.end() :]
        if not _NEXT.match(rest):
            return "cut off in the user agent" if rest.startswith(b' "') else "no user agent after the referrer"
    elif rest.startswith(b' "'):
        return "cut off in the referrer"
    return "unexpected text after the last field"


_NEXT = re.compile(b" " + _QUOTED, re.DOTALL)
_TIME = rb"(?:" + _CLIENT + rb') [^ "]+ ' + _USER + rb" \["
_REQUEST = _TIME + rb'[^\]"]*\] ' + _QUOTED
_BEGINNINGS = [
    (reason, re.compile(beginning, re.DOTALL))
    for reason, beginning in (
        ("no 'client ident user [' at the start", _TIME),
        ("no time in brackets before the request", _TIME + rb'[^\]"]*\] "'),
        ("cut off in the request", _REQUEST),
        ("no status of three digits after the request", _REQUEST + rb" [0-9]{3}(?![0-9])"),
        ("no number of bytes after the status", _REQUEST + rb" [0-9]{3} (?:[0-9]{1,15}|-)(?![0-9])"),
    )
]
