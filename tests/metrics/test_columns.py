"""Thousands of lines at once say what one line at a time says."""

from __future__ import annotations

from dataclasses import astuple

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drainq.metrics import line as rules
from drainq.metrics.columns import parse_lines

token = st.one_of(st.sampled_from([b"-", b"10.0.0.1", b"::1", b"[x", b""]), st.binary(max_size=6))
stamp = st.sampled_from(
    [
        b"17/May/2015:10:05:03 +0000",
        b"31/Feb/2015:10:05:03 +0000",
        b"17/May/2015:10:05:60 -0730",
        b"17/May/2015 10:05",
        b"",
    ]
)
request = st.one_of(
    st.sampled_from(
        [
            b"GET /a?b HTTP/1.1",
            b"GET /a b HTTP/1.0",
            b"-",
            b"GET /",
            b"",
            b"POST http://h/x HTTP/2",
            rb"GET /\"q\" HTTP/1.1",
        ]
    ),
    st.binary(max_size=12),
)
status = st.sampled_from([b"200", b"404", b"500", b"20", b"2000", b"abc", b"-", b""])
size = st.sampled_from([b"0", b"17", b"-", b"999999999999999", b"1234567890123456", b"+1", b"1.5", b""])
field = st.one_of(st.sampled_from([b"-", b"curl/8", rb"a\"b", b"\\", b"\\\\", b'"', b""]), st.binary(max_size=8))
tail = st.sampled_from(
    [
        b"",
        b" 0.042",
        b" 3",
        b" -",
        b" ",
        b"  1",
        b" 1e5",
        b" .5",
        b" 123456789.123456789",
        b" 1234567890123456789012",
        b"\r",
        b" x",
    ]
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    text = b'%s %s %s [%s] "%s" %s %s' % tuple(
        draw(part) for part in (token, token, token, stamp, request, status, size)
    )
    if draw(st.booleans()):
        text += b' "%s" "%s"' % (draw(field), draw(field))
    text += draw(tail)
    if draw(st.integers(0, 4)) == 0:
        text = text[: draw(st.integers(0, len(text)))]
    return text.replace(b"\n", b" ")


def one_by_one(batch: list[bytes]) -> tuple[list[tuple], list[tuple]]:
    records, bad = [], []
    for place, text in enumerate(batch):
        text = text.removesuffix(b"\r")
        found = rules.parse(text)
        if isinstance(found, str):
            bad.append((place, text, found))
        else:
            records.append(astuple(found))
    return records, bad


def at_once(batch: pa.BinaryArray) -> tuple[list[tuple], list[tuple]]:
    groups, bad = parse_lines(batch)
    records = []
    for group in groups:
        names = dict(zip(group.named.tolist(), zip(group.referrer.to_pylist(), group.agent.to_pylist())))
        times = dict(zip(group.timed.tolist(), (group.milliseconds / 1000).tolist()))
        for place, row in enumerate(
            zip(
                group.client.to_pylist(),
                group.second.tolist(),
                group.endpoint.to_pylist(),
                group.status.tolist(),
                group.size.tolist(),
            )
        ):
            records.append((*row, *names.get(place, (None, None)), times.get(place)))
    return records, bad


def in_any_order(records: list[tuple]) -> list[str]:
    return sorted(repr((*record[:-1], None if record[-1] is None else round(record[-1], 9))) for record in records)


REGULAR = b'10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 17 "-" "curl/8"'


@settings(max_examples=400)
@given(st.lists(lines(), max_size=8))
@example([REGULAR, REGULAR + b" 0.042", REGULAR + b"\r", b"", REGULAR[:-1], REGULAR.replace(b"- - [", b"- [x [")])
@example([REGULAR + b" "])
@example([REGULAR.replace(b'"-" "', b'"-"x"')])
@example([REGULAR.replace(b'" 200', b'"  200'), REGULAR.replace(b"17 ", b"17  ")])
def test_agrees_with_one_line_at_a_time(batch):
    expected, expected_bad = one_by_one(batch)
    records, bad = at_once(pa.array(batch, pa.binary()))
    assert in_any_order(records) == in_any_order(expected)
    assert bad == expected_bad


def test_regular_lines_take_the_quick_way(monkeypatch):
    def never(text: bytes) -> None:
        raise AssertionError(f"read one by one: {text!r}")

    monkeypatch.setattr(rules, "parse", never)
    common = REGULAR[: REGULAR.index(b' "-"')]
    for regular in (REGULAR, REGULAR + b" 0.042", common, common + b" 1"):
        groups, bad = parse_lines(pa.array([regular] * 3, pa.binary()))
        assert sum(map(len, groups)) == 3 and not bad


def test_a_slice_of_a_batch_is_read_from_its_own_place():
    batch = pa.array([b"", REGULAR, REGULAR.replace(b"/a", b"/b"), REGULAR.replace(b"/a", b'/\\"c')], pa.binary())
    records, bad = at_once(batch.slice(2, 2))
    assert sorted(record[2] for record in records) == [b'/\\"c', b"/b"] and not bad


def test_the_real_log_parses_as_line_by_line(real_log):
    batch = real_log.read_bytes().split(b"\n")[:-1]
    expected, expected_bad = one_by_one(batch)
    records, bad = at_once(pa.array(batch, pa.binary()))
    assert len(expected) == 9_999 and in_any_order(records) == in_any_order(expected)
    assert bad == expected_bad and [place for place, *_ in bad] == [8898]


@pytest.mark.parametrize("batch", [[], [b""], [b"\r"]])
def test_nothing_is_no_record(batch):
    assert sum(map(len, parse_lines(pa.array(batch, pa.binary()))[0])) == 0


@pytest.mark.parametrize("count", [1, 2, 3, 4, 100, 101])
def test_every_line_of_a_block_keeps_its_time(count):
    times = [f" {place / 1000:.3f}".encode() for place in range(count)]
    groups, bad = parse_lines(pa.array([REGULAR + time for time in times], pa.binary()))
    milliseconds = sorted(value for group in groups for value in group.milliseconds.tolist())
    assert not bad and milliseconds == pytest.approx(range(count))
