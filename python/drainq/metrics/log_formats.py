"""Formats of access logs, each declared by one line of the server's own language.

A declaration is an Apache ``LogFormat`` (``%h``), an nginx ``log_format`` (``$remote_addr``), a format of gunicorn
(``%(h)s``), or the ``#Fields:`` line of a W3C extended log, as IIS and CloudFront write it. The prefix ``tomcat:``
gives ``%D`` and ``%T`` Tomcat's units. The prefixes ``syslog:``, ``cri:`` and ``docker:`` are for lines that a logger
has wrapped. A JSON object whose values are such fields declares lines of JSON. The native reader reads the lines by the
table of fields that a declaration is compiled to.

1. An unknown field is skipped. Of two fields for one column the first by rank is read; in JSON the first by rank that
   the line has.
2. The declaration gives the unit of a number; no unit is guessed. W3C's ``time-taken`` is in milliseconds if spaces
   separate the fields (IIS), and in decimal seconds if tabs do (CloudFront).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from drainq._native import read_access_log
from drainq.metrics.errors import UserError

Field = tuple[str, str, float]
"""The text in front of a field, its meaning and, for a time, how many of its unit are a second."""
Table = tuple[str, tuple[Field, ...], str | None]
"""The prefix of each line, the fields from left to right, and the text after the last field.

For lines of JSON that text is None, the fields are in the order of their ranks, and the text in front of each is its
path: the keys that lead to it, joined by NUL.
"""

_COMBINED = '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"'
_MAIN = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"'
)
BUILT_IN = {
    "common": '%h %l %u %t "%r" %>s %b',
    "combined": _COMBINED,
    "common_us": '%h %l %u %t "%r" %>s %b %D',
    "common_ms": '%h %l %u %t "%r" %>s %b %{ms}T',
    "common_s": '%h %l %u %t "%r" %>s %b %T',
    "combined_us": f"{_COMBINED} %D",
    "combined_ms": f"{_COMBINED} %{{ms}}T",
    "combined_s": f"{_COMBINED} %T",
    "vhost_combined": f"%v:%p {_COMBINED}",
    "combinedio": f"{_COMBINED} %I %O",
    "nginx_main": f'{_MAIN} "$http_x_forwarded_for"',
    "nginx_main_time": f'{_MAIN} "$http_x_forwarded_for" $request_time',
    "nginx_times": f"{_MAIN} $request_time $upstream_response_time",
    "nginx_named_times": f'{_MAIN} rt=$request_time uct="$upstream_connect_time" uht="$upstream_header_time" '
    'urt="$upstream_response_time"',
    "ingress_nginx": f"{_MAIN} $request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name] "
    "$upstream_addr $upstream_response_length $upstream_response_time $upstream_status $req_id",
    "traefik": f'{_MAIN} $number "$router" "$server" ${{duration_ms}}ms',
    "alb": "$type $time_iso8601 $elb $client_and_port $target $part1 $part2 $part3 $status $target_status $received "
    '$body_bytes_sent "$request" "$http_user_agent" $rest',
    "caddy_json": '{"ts":"$msec","request":{"client_ip":"$remote_addr","remote_ip":"$realip_remote_addr",'
    '"remote_addr":"$client_and_port","uri":"$request_uri","headers":{"Referer":"$http_referer",'
    '"User-Agent":"$http_user_agent"}},"duration":"$request_time","size":"$body_bytes_sent","status":"$status"}',
    "traefik_json": '{"StartUTC":"$time_iso8601","ClientHost":"$remote_addr","ClientAddr":"$client_and_port",'
    '"RequestPath":"$request_uri","DownstreamStatus":"$status","DownstreamContentSize":"$body_bytes_sent",'
    '"Duration":"$duration_ns","request_Referer":"$http_referer","request_User-Agent":"$http_user_agent"}',
    "nginx_json": json.dumps({name: f"${name}" for name in (
        "time_iso8601 time_local msec remote_addr realip_remote_addr request request_uri uri status body_bytes_sent "
        "bytes_sent request_time http_referer http_user_agent").split()}),
}  # fmt: skip
"""Declarations by name. Caddy writes the client's address under one of three keys, depending on Caddy's version."""

_MEANINGS: dict[str, tuple[str, int, str, float]] = {}
"""Field name -> the column, the rank (the lowest is read), the meaning, and the scale."""
for _column, _meaning, _scale, _names in (
    ("client", "client", 1, "remote_addr %h %a %{c}a realip_remote_addr"),
    ("client", "client_and_port", 1, "client_and_port"),
    ("client", "client", 1, "http_x_forwarded_for %{x-forwarded-for}i"),
    ("time", "stamp", 1, "time_local %t"),
    ("time", "iso", 1, "time_iso8601"),
    ("time", "epoch", 1, "msec %{sec}t"),
    ("time", "epoch", 1e3, "%{msec}t"),
    ("time", "epoch", 1e6, "%{usec}t"),
    ("path", "request", 1, "request %r"),
    ("path", "target", 1, "request_uri uri %U"),
    ("status", "status", 1, "status %s"),
    ("size", "size", 1, "body_bytes_sent %b %B bytes_sent %O"),
    ("referrer", "referrer", 1, "http_referer %{referer}i"),
    ("agent", "agent", 1, "http_user_agent %{user-agent}i"),
    ("duration", "seconds", 1, "request_time %L"),
    ("duration", "whole", 1e9, "duration_ns"),
    ("duration", "whole", 1e6, "%D %{us}T duration_us"),
    ("duration", "whole", 1e3, "%{ms}T %M duration_ms"),
    ("duration", "whole", 1, "%{s}T %T"),
    *((name, "digits", 1, name) for name in ("%I", "%p", "request_length", "number", "received")),
    ("user", "user", 1, "remote_user %u"),
    ("rest", "remainder", 1, "rest"),
    *((f"part{_part}", "seconds", 1, f"part{_part}") for _part in (1, 2, 3)),
):
    for _name in _names.split():
        _MEANINGS[_name] = (_column, len(_MEANINGS), _meaning, _scale)
_W3C = {
    "date": ("day", 0, "day", 1.0), "time": ("time", 0, "clock", 1.0), "c-ip": ("client", 0, "client", 1.0),
    "cs-uri-stem": ("path", 0, "target", 1.0), "cs-uri": ("path", 1, "target", 1.0),
    "sc-status": ("status", 0, "status", 1.0), "sc-bytes": ("size", 0, "size", 1.0),
    "cs(Referer)": ("referrer", 0, "referrer", 1.0), "cs(User-Agent)": ("agent", 0, "agent", 1.0),
}  # fmt: skip
_TOMCAT = {"%D": ("duration", 0, "whole", 1e3), "%T": ("duration", 1, "seconds", 1.0)}

_GUNICORNS = {"%f": "%{referer}i", "%a": "%{user-agent}i"}  # in Apache: the file, and the client's address

_NGINX = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_GUNICORN = re.compile(r"%\((\{[^}]+\})?(\w)\)s")
_APACHE = re.compile(r"%[!\d,<>]*(\{[^}]*\})?(\^..|[A-Za-z])")
_BARE = re.compile(r"([:\[]\s*)(\$\w+|\$\{\w+\}|%[!\d,<>]*(?:\{[^}]*\})?[A-Za-z])(?=\s*[,}\]])")
_METHODS = ("request_method", "%m")
_FIELDS = "#Fields:"
_DIRECTIVE = "a directive, no request"  # the native reader's reason for such a line
_HAPROXY = re.compile(rb":\d+ \[\d\d/\w{3}/\d{4}(?::\d\d){3}\.\d{3}\] \S+ \S+/\S+ (?:-?\d+/){4}\+?-?\d+ ")


class _Found(NamedTuple):
    before: str
    name: str


_Leaf = tuple[int, str, Field]  # the rank, the column, the field

_PREFIXES = ("syslog", "cri", "docker", "tomcat")
_SAMPLE = 50  # lines by which a format is found


def unwrapped(piece: bytes, format: str) -> bytes:
    r"""Return the lines of a ``docker:`` log without Docker's JSON, ``{"log":"...\n",...}``. Other lines are unchanged.

    Example:
        >>> unwrapped(b'{"log":"a \\"b\\"\\n","stream":"stdout"}\nno\n', "docker:common")
        b'a "b"\nno\n'
    """
    if not format.startswith("docker:"):
        return piece
    lines = []
    for line in piece.split(b"\n"):
        try:
            line = json.loads(line)["log"].rstrip("\r\n").replace("\n", " ").encode(errors="replace")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            pass
        lines.append(line)
    return b"\n".join(lines)


def table_of(format: str) -> Table | None:
    """Return the table of a format, or None for common or combined, which are read without one."""
    return None if format in ("", "common", "combined") else compiled(format)


def bad_requests(bad: list[tuple[int, bytes, str]], format: str) -> list[tuple[int, bytes, str]]:
    """Return the bad lines except for the directives of a W3C log.

    Raises:
        UserError: a directive declares other fields than the format.
    """
    if not format.startswith(_FIELDS):
        return bad
    for _, line, reason in bad:
        fields = line.decode(errors="replace")
        if reason == _DIRECTIVE and fields.startswith(_FIELDS) and fields.split()[1:] != format.split()[1:]:
            raise UserError(f"a log changes its fields at its line {fields[:1000]!r}; split it there")
    return [line for line in bad if line[2] != _DIRECTIVE]


def why_refused(head: bytes) -> str | None:
    """Describe an unreadable log by its first lines, and what to do about it. Return None if its kind is unknown."""
    lines = [line for line in map(bytes.strip, head.split(b"\n")[:_SAMPLE]) if line]
    if any(line.startswith(_FIELDS.encode()) for line in lines):
        return (
            "a W3C extended log of which no line fits its '#Fields:', or a field is missing; log date, time, "
            "cs-uri-stem and sc-status, with one space or tab between fields"
        )
    if lines and sum(map(bool, map(_HAPROXY.search, lines))) * 5 >= 4 * len(lines):
        return (
            "a log of HAProxy, whose times have no zone; write it by log-format '%ci - - [%T] %{+Q}r %ST %B %Ta', and "
            "read that with --format common_ms"
        )
    if {line[:1] for line in lines} == {b"{"}:
        return (
            "JSON with keys that are not known; name those of the time, the path and the "
            """status, as in --format '{"ts":"$msec","req":{"url":"$request_uri"},"status":"$status"}'"""
        )
    return None


def found_in(head: bytes) -> list[str]:
    """Return the declared formats that fit the first lines of a log, one for each meaning; "" is common or combined.

    Four of five lines must fit, or one line if the log declares its own fields. Formats with different units of the
    request time have different meanings.

    Example:
        >>> found_in(b'::1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 17')
        ['']
        >>> found_in(b'www:80 ::1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 17 "-" "curl/8"')
        ['vhost_combined']
    """
    whole, end, cut = head.rpartition(b"\n")
    first = (whole if end else cut).split(b"\n")[:_SAMPLE]
    sample = b"\n".join(first)
    if declared := [line.decode(errors="replace").split() for line in first if line.startswith(_FIELDS.encode())]:
        gap = "\t" if any(b"\t" in line for line in first if not line.startswith(b"#")) else " "
        return _w3c_in(sample, f"{_FIELDS} {gap.join(declared[0][1:])}")
    for prefix in ("", "syslog:", "cri:", "docker:"):
        lines = unwrapped(sample, prefix)
        fits: dict[object, str] = {}
        for name in BUILT_IN:
            table = compiled(prefix + name)
            records, columns, bad = read_access_log(lines, table)
            if records and records >= 4 * len(bad):
                unit = [field[1:] for field in table[1] if field[1] in ("whole", "seconds", "amount")]
                fits.setdefault((str(unit), *columns), prefix + name)
        if fits and not {"common", "combined"}.issuperset(fits.values()):
            return list(fits.values())
        records, _, bad = read_access_log(sample)
        if records >= 4 * len(bad):
            break
    return [""]


def _w3c_in(sample: bytes, format: str) -> list[str]:
    try:
        records, _, bad = read_access_log(sample, compiled(format))
    except ValueError:
        return [""]
    return [format] if records or not bad_requests(bad, format) else [""]


@functools.lru_cache(maxsize=100)
def compiled(declaration: str) -> Table:
    """Return the table of fields of a declaration, or of a built-in name.

    Raises:
        ValueError: the text is no declaration, it lacks a needed column, or no text separates two of its fields.

    Example:
        >>> compiled('$remote_addr [$time_local] "$request" $status')[1][1]
        (' [', 'stamp', 1.0)
    """
    prefix, _, rest = declaration.partition(":")
    prefix, text = (prefix, rest) if prefix in _PREFIXES else ("", declaration)
    wrapped = prefix if prefix in ("syslog", "cri") else ""
    meanings = {**_MEANINGS, **_TOMCAT} if prefix == "tomcat" else _MEANINGS
    text = BUILT_IN.get(text, text).replace('\\"', '"').strip()
    try:
        keys = json.loads(_BARE.sub(r'\1"\2"', text)) if text.startswith("{") else None
    except (ValueError, RecursionError):
        keys = None  # a text that begins with a brace
    if isinstance(keys, dict):
        found = sorted(_leaves(keys, meanings))
        _require({"day", *(column for _, column, _ in found)}, declaration)
        return wrapped, tuple(field for *_, field in found), None
    fields, tail = _split(text)
    if text.startswith(_FIELDS):
        gap = "\t" if "\t" in text else " "
        fields = [_Found(gap if place else "", name) for place, name in enumerate(text.split()[1:])]
        wrapped, tail = "w3c", ""
        meanings = {**_W3C, "time-taken": ("duration", 0, *(("seconds", 1.0) if gap == "\t" else ("whole", 1e3)))}
    if not fields:
        raise ValueError(
            f"--format must be one of {', '.join(BUILT_IN)}, a LogFormat of Apache, a log_format of nginx, a line "
            """'#Fields:' of W3C, or an object of JSON with their fields, such as {"key":"$time_iso8601"}, """
            f"got {declaration!r}"
        )
    best: dict[str, int] = {}
    for field in fields:
        column, rank, *_ = meanings.get(field.name, ("", 0))
        best[column] = min(best.get(column, rank), rank)
    table, read = [], set()
    for place, field in enumerate(fields):
        if place and not field.before:
            raise ValueError(f"--format must have a text between two fields, got none before {field.name!r}")
        column, rank, meaning, scale = meanings.get(field.name, ("", 0, "", 1))
        if rank != best[column] or column in read:
            meaning, scale = "", 1
        read.add(column if meaning else "")
        table.append((field.before, meaning, float(scale)))
    _require(read if wrapped == "w3c" else read | {"day"}, declaration)
    return wrapped, tuple(table), tail


def _require(columns: set[str], declaration: str) -> None:
    if missing := [column for column in ("day", "time", "path", "status") if column not in columns]:
        raise ValueError(f"--format must have a {', a '.join(missing)}, got {declaration!r}")


def _leaves(value: object, meanings: dict[str, tuple[str, int, str, float]], path: str = "") -> Iterator[_Leaf]:
    """Yield the fields with a meaning among the values of an object of JSON."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, meanings, f"{path}\0{key}" if path else key)
    elif isinstance(value, list):
        yield from _leaves(value[0] if value else "", meanings, path)
    elif isinstance(value, str):
        fields, tail = _split(value)
        names = [field.name for field in fields]
        name = names[0] if len(names) == 1 else "request" if names[:1] and names[0] in _METHODS else ""
        if "".join([*(field.before for field in fields), tail]).strip("[] "):
            name = ""  # text around the field, which the reader would not remove
        column, rank, meaning, scale = meanings.get(name, ("", 0, "", 1))
        if column in ("client", "time", "path", "status", "size", "referrer", "agent", "duration"):
            meaning, scale = {"seconds": ("amount", 1), "whole": ("amount", scale)}.get(meaning, (meaning, scale))
            yield rank, column, (path, meaning, float(scale))


def _split(text: str) -> tuple[list[_Found], str]:
    """Return the fields of a declaration with the text in front of each, and the text after the last one."""
    pattern = _NGINX if _NGINX.search(text) else _GUNICORN if _GUNICORN.search(text) else _APACHE
    fields, end, carried = [], 0, ""
    for found in pattern.finditer(text):
        before, carried = carried + text[end : found.start()].replace("%%", "%"), ""
        first, second = found.groups()
        name = first or second if pattern is _NGINX else f"%{(first or '').lower()}{second}"
        name = _GUNICORNS.get(name, name) if pattern is _GUNICORN else name
        if name == "%t":
            before, carried = f"{before}[", "]"
        end = found.end()
        if name != "%q":  # the query is a part of the target in front of it
            fields.append(_Found(before, name))
    return fields, carried + text[end:]
