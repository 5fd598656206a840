"""Logged bytes become text that every database takes, and two keys stay two."""

from drainq.metrics import partial_rows as partials


def test_what_no_database_stores_is_written_out():
    assert partials.text(b"caf\xe9 \x00 caf\xc3\xa9") == "caf\\xe9 \\x00 caf\u00e9"


def test_two_long_names_that_begin_alike_stay_two_and_fit_into_an_index():
    beginning = b"/" + b"x" * 5000
    names = {partials.name(beginning + end) for end in (b"a", b"b", b"\xff")}
    assert len(names) == 3
    assert all(len(name.encode()) <= partials.LONGEST_NAME for name in names)
    assert partials.name(b"/short") == "/short"


def test_a_long_bad_line_is_cut_and_says_so():
    line = b"x" * (partials.LONGEST_LINE + 1)
    assert partials.bad_line(line) == "x" * partials.LONGEST_LINE + "..."
    assert partials.bad_line(line[:-1]) == "x" * partials.LONGEST_LINE
