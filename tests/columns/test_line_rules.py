"""The rules that the native reader is held to."""

from __future__ import annotations

import datetime

import pytest

from .line_rules import Record, endpoint_of, parse, second_of

HEAD = b'10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 12'


def test_common_log_format_is_read_whole():
    assert parse(HEAD) == Record(b"10.0.0.1", 1431857103, b"/a", 200, 12, None, None, None)


def test_combined_log_format_adds_referrer_and_agent():
    record = parse(HEAD + b' "http://r/" "curl/8"')
    assert (record.referrer, record.agent, record.seconds) == (b"http://r/", b"curl/8", None)


@pytest.mark.parametrize("names", [b"", b' "-" "curl/8"'])
def test_a_last_field_is_the_request_time_in_seconds(names):
    assert parse(HEAD + names + b" 0.042").seconds == 0.042
    assert parse(HEAD + names + b" 3").seconds == 3.0
    assert parse(HEAD + names + b" -").seconds is None


def test_escaped_quotes_and_backslashes_stay_in_their_field():
    record = parse(rb'h - - [17/May/2015:10:05:03 +0000] "GET /\"x\" HTTP/1.1" 200 1 "\\" "a\"b"')
    assert (record.endpoint, record.referrer, record.agent) == (rb"/\"x\"", rb"\\", rb"a\"b")


def test_no_bytes_are_none():
    assert parse(HEAD.replace(b" 12", b" -")).size == 0


def test_a_user_name_may_have_spaces():
    assert parse(HEAD.replace(b"- - [", b"- john doe [")).client == b"10.0.0.1"


PREFIXES = [
    b"www.example.com:443 ", b"www.example.com ", b"10.0.0.9 ", b"- ", b"web1 - ", b"\xef\xbb\xbf", b"10.0.0.1, ",
    b"2025-03-29T22:00:00.123456789Z stdout F ", b"Mar 29 22:00:00 web1 nginx: ", b"<190>Mar 29 22:00:00 web1 nginx: ",
    b"<190>1 2025-03-29T22:00:00Z web1 nginx - - - ",
]  # fmt: skip


def test_a_prefix_makes_a_bad_line():
    for user in (b"-", b"frank", b"john doe"):
        line = HEAD.replace(b"- - [", b"- %s [" % user)
        found = {prefix: parse(prefix + line) for prefix in PREFIXES}
        assert found == dict.fromkeys(PREFIXES, "no 'client ident user [' at the start")


def test_a_client_is_a_host_or_an_address_without_a_port():
    clients = [
        b"10.0.0.1",
        b"::1",
        b"fe80::1%eth0.1",
        b"::ffff:10.0.0.1",
        b"web_1.example.com",
        b"unix:",
        b"-",
        b"10.0.0.xxx",
    ]
    assert [parse(HEAD.replace(b"10.0.0.1", client)).client for client in clients] == clients
    for wrong in (b"10.0.0.1:443", b"[::1]:443", b"[::1]", b"fe80::1%", b"a:b:c:z", b"1:2", b"h/x"):
        assert parse(HEAD.replace(b"10.0.0.1", wrong)) == "no 'client ident user [' at the start", wrong


@pytest.mark.parametrize(
    "line, reason",
    [
        (b"", "empty line"),
        (b"   ", "blank line"),
        (b"garbage", "no 'client ident user [' at the start"),
        (b"h - - [17/May/2015:10:05", "no time in brackets before the request"),
        (HEAD[: HEAD.index(b" HTTP")], "cut off in the request"),
        (HEAD[: HEAD.index(b" 200")], "no status of three digits after the request"),
        (HEAD[: HEAD.index(b"0 12")], "no status of three digits after the request"),
        (HEAD.replace(b"200 12", b"200 x"), "no number of bytes after the status"),
        (HEAD.replace(b" 12", b" 1234567890123456"), "no number of bytes after the status"),
        (HEAD + b' "http://', "cut off in the referrer"),
        (HEAD + b' "-"', "no user agent after the referrer"),
        (HEAD + b' "-" "Mozilla', "cut off in the user agent"),
        (HEAD + b' "-" "Mozilla" later', "unexpected text after the last field"),
        (HEAD + b" 1e5", "unexpected text after the last field"),
        (HEAD.replace(b"17/May", b"31/Feb"), "no such time"),
        (HEAD.replace(b"10:05:03", b"24:05:03"), "no such time"),
    ],
)
def test_a_bad_line_has_a_reason(line, reason):
    assert parse(line) == reason


def test_every_beginning_of_a_line_is_a_record_or_has_a_reason():
    whole = HEAD + b' "-" "Mozilla/5.0 (X11)"'
    for length in range(len(whole)):
        found = parse(whole[:length])
        assert isinstance(found, Record) or found, whole[:length]


@pytest.mark.parametrize("stamp, expected", [
    ("17/May/2015:10:05:03 +0000", "2015-05-17T10:05:03+00:00"),
    ("17/May/2015:00:05:03 +0230", "2015-05-16T21:35:03+00:00"),
    ("31/Dec/2016:23:59:60 +0000", "2016-12-31T23:59:59+00:00"),
    ("29/Feb/2024:23:00:00 -0800", "2024-03-01T07:00:00+00:00"),
])  # fmt: skip
def test_stamps_are_moments(stamp, expected):
    assert second_of(stamp.encode()) == datetime.datetime.fromisoformat(expected).timestamp()


@pytest.mark.parametrize(
    "stamp",
    [
        b"",
        b"17/may/2015:10:05:03 +0000",
        b"17/May/2015:10:05:03",
        b"0/May/2015:10:05:03 +0000",
        b"29/Feb/2023:00:00:00 +0000",
        b"17/May/0000:10:05:03 +0000",
    ],
)
def test_what_is_no_stamp_is_no_moment(stamp):
    assert second_of(stamp) is None


@pytest.mark.parametrize("request_line, endpoint", [
    (b"GET /a/b?c=d HTTP/1.1", b"/a/b"),
    (b"GET /a", b"/a"),
    (b"GET /a b HTTP/1.1", b"/a b"),
    (b"GET http://host:80/p?q HTTP/1.1", b"/p"),
    (b"GET http://host HTTP/1.1", b"/"),
    (b"OPTIONS * HTTP/1.1", b"*"),
    (b"-", b"-"),
    (b"", b"-"),
    (rb"\x16\x03\x01", b"-"),
    (b"GET ? HTTP/1.1", b"-"),
])  # fmt: skip
def test_an_endpoint_is_the_path_without_its_query(request_line, endpoint):
    assert endpoint_of(request_line) == endpoint


def test_a_hostile_line_takes_time_in_proportion_to_its_length():
    # each of these makes a careless pattern look at every pair of places: hours instead of milliseconds
    for line in (
        b" [" * 500_000,
        b"a b [" + b"] " * 300_000,
        b'h - - [x] "' + b"\\" * 1_000_000,
        HEAD + b' "' + b'" "' * 300_000,
    ):
        assert isinstance(parse(line), str)
