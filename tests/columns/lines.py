"""Lines of access logs, regular and not."""

from __future__ import annotations

from hypothesis import strategies as st

REGULAR = b'10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 17 "-" "curl/8"'

token = st.one_of(st.sampled_from([b"-", b"10.0.0.1", b"::1", b"[x", b""]), st.binary(max_size=6))
client = st.one_of(
    st.sampled_from([
        b"10.0.0.1", b"web-1.example.com", b"fe80::1%eth0", b"::ffff:10.0.0.1", b"unix:", b"www.example.com:443",
        b"10.0.0.1:443", b"10.0.0.1,", b"2025-03-29T22:00:00Z", b"\xef\xbb\xbf::1",
    ]), st.text("0af.:%-_gz", max_size=8).map(str.encode), token,
)  # fmt: skip
user = st.one_of(token, st.lists(st.sampled_from([b"-", b"john", b"", b"a["]), max_size=3).map(b" ".join))
prefix = st.sampled_from([b"", b"", b"", b"web1 ", b"Mar 29 22:00:00 web1 nginx: ", b"- ", b"web1 - "])
stamp = st.sampled_from([
    b"17/May/2015:10:05:03 +0000", b"31/Feb/2015:10:05:03 +0000", b"17/May/2015:10:05:60 -0730", b"17/May/2015 10:05", b"",
])  # fmt: skip
request = st.one_of(
    st.sampled_from([
        b"GET /a?b HTTP/1.1", b"GET /a b HTTP/1.0", b"-", b"GET /", b"", b"POST http://h/x HTTP/2", rb"GET /\"q\" HTTP/1.1",
    ]), st.binary(max_size=12),
)  # fmt: skip
status = st.sampled_from([b"200", b"404", b"500", b"20", b"2000", b"abc", b"-", b""])
size = st.sampled_from([b"0", b"17", b"-", b"999999999999999", b"1234567890123456", b"+1", b"1.5", b""])
field = st.one_of(st.sampled_from([b"-", b"curl/8", rb"a\"b", b"\\", b"\\\\", b'"', b""]), st.binary(max_size=8))
tail = st.sampled_from([
    b"", b" 0.042", b" 3", b" -", b" ", b"  1", b" 1e5", b" .5", b" 123456789.123456789", b" 1234567890123456789012", b"\r",
    b" x",
])  # fmt: skip


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    text = b'%s%s %s %s [%s] "%s" %s %s' % tuple(
        draw(part) for part in (prefix, client, token, user, stamp, request, status, size)
    )
    if draw(st.booleans()):
        text += b' "%s" "%s"' % (draw(field), draw(field))
    text += draw(tail)
    if draw(st.integers(0, 4)) == 0:
        text = text[: draw(st.integers(0, len(text)))]
    return text.replace(b"\n", b" ")
