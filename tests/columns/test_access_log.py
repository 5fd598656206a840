"""The native reader agrees with the rules of ``line_rules`` on every line."""

from __future__ import annotations

import datetime
import random
from dataclasses import astuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drainq.columns import parse_access_log

from ..metrics.conftest import real_log  # noqa: F401
from . import line_rules as rules
from .lines import REGULAR, lines

pa = pytest.importorskip("pyarrow")
NAMES = ["client", "second", "endpoint", "status", "size", "referrer", "agent", "milliseconds"]


def by_the_rules(batch: list[bytes]) -> tuple[list[tuple], list[tuple[int, bytes, str]]]:
    """Return what the rules say, line by line."""
    records, bad = [], []
    for place, line in enumerate(batch):
        line = line.removesuffix(b"\r")
        found = rules.parse(line)
        if isinstance(found, str):
            bad.append((place, line, found))
        else:
            *fields, seconds = astuple(found)
            records.append((*fields, None if seconds is None else 1000 * seconds))
    return records, bad


def natively(batch: pa.Array) -> tuple[list[tuple], list[tuple[int, bytes, str]]]:
    columns, bad = parse_access_log(batch)
    rows = pa.record_batch(columns)
    rows.validate(full=True)
    assert rows.schema.names == NAMES
    return list(zip(*(column.to_pylist() for column in rows.columns))), bad


@settings(max_examples=600, deadline=None)
@given(st.lists(lines(), max_size=8))
@example([REGULAR, REGULAR + b" 0.042", REGULAR + b"\r", b"", REGULAR[:-1], REGULAR.replace(b"- - [", b"- [x [")])
@example([REGULAR.replace(b"- - [", b"- a b [x] ["), REGULAR.replace(b"- - [", b'- a "b [')])
@example([REGULAR + b" ", REGULAR + b"\r\r", b"\r", b" \t\x0b"])
@example([REGULAR.replace(b"17/May/2015:10:05:03 +0000", b"\0" * 26)])
@example([REGULAR.replace(b"May", b"M\xc3\xa4y" + b"\xff" * 30)])
@example([REGULAR.replace(b"curl/8", b"a\\")])
@example([REGULAR, REGULAR.replace(b"10:05:03", b"10:05:04"), REGULAR])
def test_agrees_with_the_rules(batch):
    assert natively(pa.array(batch, pa.binary())) == by_the_rules(batch)


PIECES = [
    b" ", b"  ", b'"', b"\\", b'\\"', b"[", b"]", b"-", b"\r", b"\0", b"\xff", b"?", b"/", b"://", b"http://h/",
    b"HTTP/", b" HTTP/1.1", b"0", b"9", b"1234567890123456", b".", b" 0.5", b"+0000", b"-1200", b"29/Feb/", b"60", b"24", b"a",
]  # fmt: skip


def mutated(line: bytes, dice: random.Random) -> bytes:
    """Return the line with up to three pieces put in, taken out or put in the place of others."""
    for _ in range(dice.randrange(4)):
        begin = dice.randrange(len(line) + 1)
        end = min(len(line), begin + dice.choice((0, 0, 1, 1, 2, 10, 40)))
        line = line[:begin] + (dice.choice(PIECES) if dice.randrange(4) else b"") + line[end:]
    return line


@pytest.mark.parametrize("seed", range(20))
def test_agrees_with_the_rules_on_real_lines_that_were_changed(real_log, seed):  # noqa: F811
    dice = random.Random(seed)
    real = dice.sample(real_log.read_bytes().split(b"\n")[:-1], 1000)
    batch = [mutated(line, dice) for line in real]
    assert natively(pa.array(batch, pa.binary())) == by_the_rules(batch)


def test_agrees_with_the_rules_on_the_real_log(real_log):  # noqa: F811
    batch = real_log.read_bytes().split(b"\n")[:-1]
    records, bad = natively(pa.array(batch, pa.binary()))
    assert (records, bad) == by_the_rules(batch)
    assert len(records) == 9_999 and [place for place, *_ in bad] == [8898]


HEAD = REGULAR.removesuffix(b' "-" "curl/8"')
REASONS = {
    b"": "empty line",
    b"   ": "blank line",
    b"h - - [17/May/2015:10:05": "no time in brackets before the request",
    HEAD[: HEAD.index(b" HTTP")]: "cut off in the request",
    HEAD[: HEAD.index(b" 200")]: "no status of three digits after the request",
    HEAD[: HEAD.index(b"0 17")]: "no status of three digits after the request",
    HEAD.replace(b"200 17", b"200 x"): "no number of bytes after the status",
    HEAD.replace(b" 17", b" 1234567890123456"): "no number of bytes after the status",
    HEAD + b' "http://': "cut off in the referrer",
    HEAD + b' "-"': "no user agent after the referrer",
    HEAD + b' "-" "Mozilla': "cut off in the user agent",
    HEAD + b' "-" "Mozilla" later': "unexpected text after the last field",
    HEAD + b" 1e5": "unexpected text after the last field",
    **{HEAD.replace(b"17/May/2015:10:05:03 +0000", stamp): "no such time" for stamp in (
        b"", b"31/Feb/2015:10:05:03 +0000", b"17/May/2015:24:05:03 +0000", b"17/may/2015:10:05:03 +0000",
        b"17/May/2015:10:05:03", b"0/May/2015:10:05:03 +0000", b"17/May/0000:10:05:03 +0000",
    )},
    **{begin + HEAD: "no 'client ident user [' at the start" for begin in (
        b"www.example.com:443 ", b"www.example.com ", b"10.0.0.9 ", b"- ", b"web1 - ", b"\xef\xbb\xbf", b"10.0.0.1, ",
        b"2025-03-29T22:00:00.123456789Z stdout F ", b"Mar 29 22:00:00 web1 nginx: ", b"<190>Mar 29 22:00:00 web1 nginx: ",
        b"<190>1 2025-03-29T22:00:00Z web1 nginx - - - ",
    )},
    **{HEAD.replace(b"10.0.0.1", client): "no 'client ident user [' at the start" for client in (
        b"10.0.0.1:443", b"[::1]:443", b"[::1]", b"fe80::1%", b"a:b:c:z", b"1:2", b"h/x",
    )},
}  # fmt: skip
TIMES = """0.1 3 0.042 123456789.123456789 9007199.254740993 0.000000001 000000001.5 999999999.999999999
    355512575.736343332 661761548.518691364""".split()
CLIENTS = [
    b"10.0.0.1",
    b"::1",
    b"fe80::1%eth0.1",
    b"::ffff:10.0.0.1",
    b"web_1.example.com",
    b"unix:",
    b"-",
    b"10.0.0.xxx",
]
STAMPS = {
    b"17/May/2015:10:05:03 +0000": "2015-05-17T10:05:03+00:00", b"17/May/2015:00:05:03 +0230": "2015-05-16T21:35:03+00:00",
    b"31/Dec/2016:23:59:60 +0000": "2016-12-31T23:59:59+00:00", b"29/Feb/2024:23:00:00 -0800": "2024-03-01T07:00:00+00:00",
}  # fmt: skip
ENDPOINTS = {
    b"GET /a/b?c=d HTTP/1.1": b"/a/b", b"GET /a": b"/a", b"GET /a b HTTP/1.1": b"/a b", b"GET http://h:80/p?q HTTP/1.1": b"/p",
    b"GET http://host HTTP/1.1": b"/", b"OPTIONS * HTTP/1.1": b"*", b"-": b"-", b"": b"-", rb"\x16\x03": b"-",
    b"GET ? HTTP/1.1": b"-", rb"GET /\"x\" HTTP/1.1": rb"/\"x\"",
}  # fmt: skip


def test_a_line_means_this():
    def read(old, *new):
        batch = [HEAD.replace(old, each) if old else each for each in new]
        records, bad = natively(pa.array(batch, pa.binary()))
        assert (records, bad) == by_the_rules(batch)
        return [dict(zip(NAMES, record)) for record in records], [reason for *_, reason in bad]

    assert read(b"", *REASONS) == ([], list(REASONS.values()))
    times, _ = read(b"", HEAD + b" -", *(REGULAR + b" " + time.encode() for time in TIMES))
    assert [each["milliseconds"] for each in times] == [None, *(1000 * float(time) for time in TIMES)]
    assert [each["client"] for each in read(b"10.0.0.1", *CLIENTS)[0]] == CLIENTS
    seconds = [datetime.datetime.fromisoformat(stamp).timestamp() for stamp in STAMPS.values()]
    assert [each["second"] for each in read(b"17/May/2015:10:05:03 +0000", *STAMPS)[0]] == seconds
    assert [each["endpoint"] for each in read(b"GET /a?b HTTP/1.1", *ENDPOINTS)[0]] == list(ENDPOINTS.values())
    whole = HEAD.replace(b"- - [", b"- john doe [").replace(b" 17", b" -") + rb' "\\" "a\"b"'
    assert read(b"", whole)[0][0] | {"second": 0} == dict(
        zip(NAMES, (b"10.0.0.1", 0, b"/a", 200, 0, rb"\\", rb"a\"b", None))
    )


WAYS = {
    "binary": lambda batch: pa.array(batch, pa.binary()),
    "large binary": lambda batch: pa.array(batch, pa.large_binary()),
    "binary view": lambda batch: pa.array(batch, pa.binary_view()),
    "slice": lambda batch: pa.array([b"x", *batch, b"y"], pa.binary()).slice(1, len(batch)),
    "large slice": lambda batch: pa.array([b"x", *batch, b"y"], pa.large_binary()).slice(1, len(batch)),
    "view slice": lambda batch: pa.array([b"x", *batch, b"y"], pa.binary_view()).slice(1, len(batch)),
    "dictionary": lambda batch: pa.array(batch, pa.binary()).dictionary_encode(),
    "dictionary slice": lambda batch: pa.array([b"x", *batch], pa.binary()).dictionary_encode().slice(1),
    "chunks": lambda batch: pa.chunked_array([[batch[0]], [], batch[1:]], pa.binary()),
    "bitmap without a null": lambda batch: pa.array([None, *batch], pa.binary()).slice(1),
}
BATCH = [REGULAR, b"short", REGULAR + b" 0.042", b"", REGULAR.replace(b"/a", b"/b")]


@pytest.mark.parametrize("way", WAYS)
def test_lines_come_in_many_ways(way):
    assert natively(WAYS[way](BATCH)) == by_the_rules(BATCH)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.sampled_from([*BATCH, b"\r", b"x\r"]), st.binary(max_size=9)), max_size=6), st.booleans())
def test_a_piece_of_a_log_is_its_lines(batch, ends):
    piece = b"\n".join(batch) + (b"\n" if ends and batch else b"")
    lines = piece.split(b"\n")
    if not lines[-1]:
        lines.pop()
    assert natively(piece) == natively(pa.array(lines, pa.binary()))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_strings_give_strings(kind):
    line = REGULAR.decode().replace("/a", "/ä").replace("curl", "cürl\\")
    columns, bad = parse_access_log(pa.array([line, "ö"], kind))
    rows = pa.record_batch(columns)
    rows.validate(full=True)
    assert rows.schema.field("endpoint").type == pa.string()
    assert (rows["endpoint"].to_pylist(), rows["agent"].to_pylist()) == (["/ä"], ["cürl\\/8"])
    assert bad == [(1, "ö".encode(), "no 'client ident user [' at the start")]


@pytest.mark.parametrize("batch", [[], [b""]])
def test_nothing_is_no_record(batch):
    assert parse_access_log(b"")[1] == []
    columns, bad = parse_access_log(pa.array(batch, pa.binary()))
    assert (len(columns), len(bad)) == (0, len(batch))
    pa.record_batch(columns).validate(full=True)


def test_what_is_no_array_of_lines_is_refused():
    for wrong, told in (
        ([b"line"], r"lines must have Arrow's PyCapsule interface .*, got \[b'line'\]"),
        (pa.array([1]), "lines must be strings or bytes, got values of type int64"),
        (pa.record_batch({"line": ["a"]}), "lines must be strings or bytes, got values of type struct"),
        (pa.array([[1]]), "lines must be strings or bytes, got values of type list"),
    ):
        with pytest.raises(TypeError, match=told):
            parse_access_log(wrong)
    with pytest.raises(ValueError, match="^line 3 is null: drop nulls first$"):
        parse_access_log(pa.chunked_array([[REGULAR, b"short"], [], [REGULAR, None]], pa.binary()))
    with pytest.raises(ValueError, match="line 1 is null: drop nulls first"):
        parse_access_log(pa.array([REGULAR, None], pa.binary()))
    with pytest.raises(ValueError, match="line 1 has a line end in it"):
        parse_access_log(pa.array([REGULAR, b"two\nlines"], pa.binary()))
