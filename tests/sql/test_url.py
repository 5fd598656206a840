"""Database URLs: the meaning of each form in every call, and that no call shows a password."""

from __future__ import annotations

import argparse
import itertools
import logging
import sqlite3

import pytest

from drainq.delayed import NO_RETRIES, DelayedQueue
from drainq.delayed.cli import add_commands
from drainq.sources import ItemTracker
from drainq.sql import Database, DatabaseError, DatabaseUrl, Dialect
from drainq.sql.url import shown, without_password
from drainq.workers import BatchWriter, MetricsPersister
from tests.passwords import NOT_OURS, PASSWORDS, SHAPES, URLS, everything_of


def command(name, *arguments):
    """Return the command ``drainq delayed NAME --url URL``, as a door."""

    parser = argparse.ArgumentParser(prog="drainq")
    add_commands(parser.add_subparsers(required=True))

    def run(url):
        parsed = parser.parse_args(["delayed", name, f"--url={url}", *arguments])
        assert parsed.run(parsed) == 2

    return run


DOORS = {
    "DatabaseUrl": DatabaseUrl.parse,
    "Database": lambda url: Database(url).close(),
    "DelayedQueue": lambda url: DelayedQueue.open(url, retry=NO_RETRIES).close(),
    "ItemTracker": lambda url: ItemTracker.open(url).close(),
    "BatchWriter": lambda url: BatchWriter(url=url, table="drainq_items", columns=["source"]).close(),
    "MetricsPersister": lambda url: MetricsPersister(
        url=url, table="t", columns=["k", "n"], key=["k"], merge={"n": "sum"}
    ).close(),
}


def open_for_metrics(url):
    from drainq.metrics.job import _open

    _open(DatabaseUrl.parse(url)).close()


ALL_DOORS = DOORS | {
    "DelayedQueue.queues": DelayedQueue.queues,
    "drainq delayed stats": command("stats", "--queue=mail"),
    "drainq delayed migrate": command("migrate", "--sql"),
    "drainq metrics": open_for_metrics,
}

doors = pytest.mark.parametrize("door", DOORS)


@pytest.mark.parametrize("url, dialect, target, secrets", [
    ("sqlite:///relative.db", Dialect.SQLITE, "relative.db", {}),
    ("sqlite:////abs/x y%20?.db", Dialect.SQLITE, "/abs/x y%20?.db", {}),
    ("sqlite:///me:secret@h.db", Dialect.SQLITE, "me:secret@h.db", {}),
    ("postgresql://u@h/d", Dialect.POSTGRESQL, "postgresql://u@h/d", {}),
    ("postgresql+psycopg://u@/d?host=/run", Dialect.POSTGRESQL, "postgresql://u@/d?host=/run", {}),
    ("postgres://u@h/d", Dialect.POSTGRESQL, "postgresql://u@h/d", {}),
    ("postgresql:///d", Dialect.POSTGRESQL, "postgresql:///d", {}),
    ("postgresql://h1:5432,h2:5433/d", Dialect.POSTGRESQL, "postgresql://h1:5432,h2:5433/d", {}),
    ("postgresql://[::1]:5432/d", Dialect.POSTGRESQL, "postgresql://[::1]:5432/d", {}),
    ("postgresql://u:p@[::1]/d", Dialect.POSTGRESQL, "postgresql://u@[::1]/d", {"password": "p"}),
    ("postgresql://a%40b:p@h/d", Dialect.POSTGRESQL, "postgresql://a%40b@h/d", {"password": "p"}),
    ("postgresql://u:p@h/d?application_name=a%40b", Dialect.POSTGRESQL, "postgresql://u@h/d?application_name=a%40b", {"password": "p"}),
    ("postgresql://h/d?password=p&user=u&sslpassword=q", Dialect.POSTGRESQL, "postgresql://h/d?user=u", {"password": "p", "sslpassword": "q"}),
    ("postgresql://u:old@h/d?PASSWORD=new", Dialect.POSTGRESQL, "postgresql://u@h/d", {"password": "new"}),
])  # fmt: skip
def test_every_form_is_read(url, dialect, target, secrets):
    parsed = DatabaseUrl.parse(url)
    assert (parsed.dialect, parsed.target, dict(parsed.secrets)) == (dialect, target, secrets)
    if not secrets:
        assert str(parsed) == url.replace("+psycopg", "").replace("postgres:", "postgresql:")
    assert repr(parsed) == f"DatabaseUrl(dialect={dialect!r}, target={target!r})"
    if dialect is Dialect.SQLITE:
        assert parsed == DatabaseUrl.sqlite(target)


def test_other_characters_than_delimiters_may_stand_in_a_password_as_they_are():
    for password in ["plain", "p:w", "p#w", "p%w", "p%zz", "p%zz%41", "p w", ":%: ", "pä"]:
        assert dict(DatabaseUrl.parse(f"postgresql://me:{password}@h:5432/d").secrets) == {"password": password}


def test_percent_escapes_are_resolved():
    assert dict(DatabaseUrl.parse("postgresql://me:a%2Fb%40c%25@h/d").secrets) == {"password": "a/b@c%"}
    assert dict(DatabaseUrl.parse("postgresql://h/d?password=a%26b").secrets) == {"password": "a&b"}


def test_a_url_whose_password_has_an_unescaped_delimiter_is_refused_in_one_sentence_that_shows_nothing_of_it(subtests):
    for shape in [
        "postgresql://me:{}@h/d",
        "postgresql://me:{}@h:1/d?x=y",
        "postgres://me:{}@[::1]",
        "postgresql://{}@h/d",
    ]:
        for password in ["X7@X7", "X7/X7", "X7?X7", "/X7", "@X7", "12/X7", "X7@X7/X7", "X7?X7=X7", "1?X7=X7"]:
            with subtests.test(shape=shape, password=password), pytest.raises(ValueError, match="%2F, %3F") as refused:
                DatabaseUrl.parse(shape.format(password))
            said = everything_of(refused.value)
            assert "X7" not in said and ". " not in said
    with pytest.raises(ValueError, match="has no value: write '&' in a value as %26$"):
        DatabaseUrl.parse("postgresql://h/d?password=X7&X7")


REFUSED = ["", "x", "sqlite:x.db", "sqlite://x.db", "sqlite:///", "sqlite://", "sqlite:///:memory:", "mysql://h/d",
           "postgresql:h", "postgresql://", "sqlite:///a\0b", "host=h dbname=d"]  # fmt: skip


@doors
def test_every_door_refuses_anything_else_with_the_forms(door, subtests):
    for url in REFUSED:
        with subtests.test(url=url), pytest.raises(ValueError, match=r"sqlite:///relative\.db"):
            DOORS[door](url)


def test_the_forms_are_those_of_sqlite_then_those_of_postgresql():
    forms = "sqlite:///relative.db, sqlite:////absolute.db or postgresql://user@host/db"
    for url, why in (("x:y@z", f"url must name a database, got 'x:***@z'; use {forms}"),
                     (None, f"url must be a str, got None; use {forms}")):  # fmt: skip
        with pytest.raises((ValueError, TypeError)) as refused:
            DatabaseUrl.parse(url)
        assert str(refused.value) == why


@doors
def test_every_door_refuses_a_port_that_no_server_can_have(door, subtests):
    for hosts in ["h:0", "h:65536", "h:99999999", "h:x", "[::1]:70000", "a:1,b:-1"]:
        with subtests.test(hosts=hosts), pytest.raises(ValueError, match="a number from 1 to 65535, got '"):
            DOORS[door](f"postgresql://me@{hosts}/d")


def test_other_ports_are_left_to_the_driver():
    for hosts in ["h", "h:1", "h:65535", "[::1]", "[::1]:5432", "a:1,b:2", "", "a:,b"]:
        assert hosts in str(DatabaseUrl.parse(f"postgresql://me@{hosts}/d"))


@doors
@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_door_opens_each_spelling_of_postgresql(door, scheme, postgres_url):
    with Database(postgres_url) as database:
        database.execute("CREATE TABLE IF NOT EXISTS drainq_items (source TEXT NOT NULL, item TEXT NOT NULL, state TEXT NOT NULL, "
                         "attempts BIGINT NOT NULL, \"changedAt\" FLOAT NOT NULL, PRIMARY KEY (source, item))")  # fmt: skip
    DOORS[door](scheme + postgres_url.removeprefix("postgresql"))


def everything_shown(door, url, caplog, capsys):
    """Return what a door's result, its exception with all causes, the log and the terminal show."""
    seen: list[object] = []
    try:
        seen += [opened := ALL_DOORS[door](url), f"{opened} {opened!r}"]
    except (Exception, SystemExit) as error:
        seen.append(everything_of(error))
    text = " ".join(map(str, seen)) + caplog.text + "".join(capsys.readouterr())
    assert text
    return text


@pytest.mark.parametrize("door", ALL_DOORS)
def test_no_door_shows_a_password(door, caplog, capsys):
    """29 shapes of a URL and 24 passwords at each door."""
    caplog.set_level(logging.DEBUG)
    for shape, password in itertools.product(SHAPES, PASSWORDS):
        text = everything_shown(door, shape.replace("{}", password), caplog, capsys)
        caplog.clear()
        assert "X7" not in text, (shape, text)


def test_a_text_that_holds_a_url_is_shown_without_its_password():
    texts = [f"cannot open {shape.replace('{}', secret)}" for shape in [*URLS, *NOT_OURS] for secret in PASSWORDS]
    assert len(texts) > 500
    assert [text for text in texts if "***" not in without_password(text) or "X7" in without_password(text)] == []


def test_what_was_given_in_the_place_of_a_url_is_shown_without_its_password():
    texts = [shape.replace("{}", password) for shape in SHAPES for password in PASSWORDS]
    assert [text for text in texts if "***" not in shown(text) or "X7" in shown(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "cannot open postgresql://me@h/d",
        "no such table: t",
        "Key (email)=(a@b) is taken",
        'FATAL: password authentication failed for user "me"',
    ],
)
def test_a_text_without_a_password_is_shown_as_it_is(text):
    assert without_password(text) == text


def test_a_password_in_a_url_reaches_the_server(own_postgres):
    """Its settings are asked back, since the server of the tests trusts everybody."""
    import psycopg

    url = DatabaseUrl.parse(own_postgres.url.replace("drainq@", "drainq:a%2Fb%40c@"))
    assert dict(url.secrets) == {"password": "a/b@c"}
    with Database(url) as database:
        assert database.connection.info.password == "a/b@c"
        assert isinstance(database.connection, psycopg.Connection)


def test_identifiers_are_quoted_whatever_they_hold():
    assert Dialect.SQLITE.quote('a"; DROP TABLE t; --') == '"a""; DROP TABLE t; --"'
    assert Dialect.POSTGRESQL.quote("100%") == '"100%%"'
    for bad in ("", "a\0b"):
        with pytest.raises(ValueError):
            Dialect.SQLITE.quote(bad)


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    for door in ("Database", "BatchWriter", "MetricsPersister"):
        with pytest.raises(DatabaseError, match="no/dir"):
            DOORS[door](f"sqlite:///{tmp_path}/no/dir.db")
    with pytest.raises(sqlite3.Error, match="no/dir"):
        ItemTracker.open(f"sqlite:///{tmp_path}/no/dir.db")
