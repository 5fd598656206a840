"""Logged bytes become text that every database takes, and two keys stay two."""

import hashlib

import pyarrow as pa
import pytest

from drainq.metrics import storable_text


def test_what_no_database_stores_is_written_out():
    assert storable_text.text(b"caf\xe9 \x00 caf\xc3\xa9") == "caf\\xe9 \\x00 caf\u00e9"


def test_two_long_names_that_begin_alike_stay_two_and_fit_into_an_index():
    beginning = b"/" + b"x" * 5000
    found = {storable_text.name(beginning + end) for end in (b"a", b"b", b"\xff")}
    assert len(found) == 3
    assert all(len(name.encode()) <= storable_text.LONGEST_NAME for name in found)
    assert storable_text.name(b"/short") == "/short"


def test_a_long_bad_line_is_cut_and_says_so():
    line = b"x" * (storable_text.LONGEST_LINE + 1)
    assert storable_text.bad_line(line) == "x" * storable_text.LONGEST_LINE + "..."
    assert storable_text.bad_line(line[:-1]) == "x" * storable_text.LONGEST_LINE


def test_a_column_of_sound_names_is_taken_as_it_is():
    column = pa.array([b"x", b"/a", "/\u00e4".encode(), b""], pa.binary()).slice(1)
    assert storable_text.as_names(column) == (pa.array(["/a", "/\u00e4", ""]), False)
    for first, second, changed in ((b"x" * 2001, b"/a", False), (b"/a", "\u00e4".encode() * 1001, True)):
        column = pa.array([first, second], pa.binary()).slice(1)
        assert storable_text.as_names(column) == (pa.array([storable_text.name(second)]), changed)
    assert storable_text.name(second).endswith("\u00e4..." + hashlib.sha256(second).hexdigest()[:32])


@pytest.mark.parametrize("odd", [b"\xff", b"a\x00", b"x" * 2001])
def test_a_column_with_one_odd_name_is_changed(odd):
    column = pa.array([b"/a", odd], pa.binary())
    assert storable_text.as_names(column) == (pa.array(["/a", storable_text.name(odd)]), True)
