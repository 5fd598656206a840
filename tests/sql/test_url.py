"""Database URLs."""

from __future__ import annotations

import pytest

from drainq.sql import DatabaseUrl, Dialect


@pytest.mark.parametrize("url, dialect, target", [
    ("sqlite:///relative.db", Dialect.SQLITE, "relative.db"),
    ("sqlite:////abs/x y%20?.db", Dialect.SQLITE, "/abs/x y%20?.db"),
    ("postgresql://u@h/d", Dialect.POSTGRESQL, "postgresql://u@h/d"),
    ("postgresql+psycopg://u@/d?host=/run", Dialect.POSTGRESQL, "postgresql://u@/d?host=/run"),
    ("postgres://u@h/d", Dialect.POSTGRESQL, "postgresql://u@h/d"),
])  # fmt: skip
def test_every_form_is_read(url, dialect, target):
    parsed = DatabaseUrl.parse(url)
    assert (parsed.dialect, parsed.target) == (dialect, target)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "sqlite:x.db",
        "sqlite://x.db",
        "sqlite:///",
        "sqlite:///:memory:",
        "mysql://h/d",
        "postgresql:h",
        "postgresql://",
        "sqlite:///a\0b",
    ],
)
def test_anything_else_is_refused_with_the_forms(url):
    with pytest.raises(ValueError, match=r"sqlite:///relative\.db"):
        DatabaseUrl.parse(url)


@pytest.mark.parametrize(
    "url", ["postgresql://me:s3cret@h/d", "postgresql://h/d?user=me&password=s3cret", "mysql://me:s3cret@h/d"]
)
def test_a_password_is_never_shown(url):
    try:
        parsed = DatabaseUrl.parse(url)
        shown = f"{parsed} {parsed!r}"
    except ValueError as error:
        shown = str(error)
    assert "***" in shown
    assert "s3cret" not in shown


def test_identifiers_are_quoted_whatever_they_hold():
    assert Dialect.SQLITE.quote('a"; DROP TABLE t; --') == '"a""; DROP TABLE t; --"'
    assert Dialect.POSTGRESQL.quote("100%") == '"100%%"'
    for bad in ("", "a\0b"):
        with pytest.raises(ValueError):
            Dialect.SQLITE.quote(bad)
