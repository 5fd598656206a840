"""``drainq delayed``: its output, its changes, its refusals."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import json
import re
import time
from datetime import datetime, timezone

import pytest

import drainq.delayed.cli_commands
from drainq.delayed import BytesCodec, DelayedQueue, MsgspecCodec, QueueBroken
from drainq.delayed.cli import _time, add_commands


class Garbled(BytesCodec):
    type_name = MsgspecCodec().type_name


@pytest.fixture
def call(database, capsys):
    """Run the command on the database; return its exit code, output and errors."""
    parser = argparse.ArgumentParser(prog="drainq")
    add_commands(parser.add_subparsers(required=True))

    def call(command, *arguments, url=database.url, table=database.table):
        parsed = parser.parse_args(["delayed", command, "--url", url, "--table", table, *arguments])
        code = parsed.run(parsed)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows sets no zone for one process")
def test_a_time_without_a_zone_is_in_utc_wherever_the_command_runs(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert _time("2030-01-31T12:00") == datetime(2030, 1, 31, 12, tzinfo=timezone.utc)
        assert _time("2030-01-31T12:00+09:00") == datetime(2030, 1, 31, 3, tzinfo=timezone.utc)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_migrate_shows_then_does_then_has_nothing_to_do(call, database):
    code, script, err = call("migrate", "--sql")
    assert (code, err) == (0, "")
    assert script.startswith("BEGIN;") and database.table in script
    code, said, err = call("migrate")
    assert (code, err) == (0, "")
    assert said.startswith("applied: the source's table\napplied: attempts and the last error\napplied: dead letters\n")
    assert call("migrate", "--sql") == (0, "", "")
    assert call("migrate") == (0, "up to date\n", "")


@pytest.mark.parametrize(("columns", "width"), [("5", 6), ("17", 14), ("60", 20)])
def test_a_column_is_cut_to_the_terminal_but_keeps_six_characters(monkeypatch, capsys, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    drainq.delayed.cli_commands.print_table(("HEAD", "B"), [("abcdefghijklmnopqrst", "y")])
    cut = "abcdefghijklmnopqrst" if width == 20 else "abcdefghijklmnopqrst"[: width - 3] + "..."
    assert capsys.readouterr().out == f"{'HEAD'.ljust(width)}  B\n{cut}  y\n"


@pytest.mark.parametrize("fails", [False, True])
def test_migrate_closes_its_storage_and_waits_for_no_retry_of_the_first_connection(call, monkeypatch, fails, tmp_path):
    told, reach = [], drainq.delayed.cli_commands.reach

    def watched(storage, retry, *, migrate):
        told.append((retry.max_retries, migrate))
        monkeypatch.setattr(storage, "close", lambda: told.append("closed"))
        if fails and migrate:
            raise QueueBroken("no")
        return reach(storage, retry, migrate=migrate)

    monkeypatch.setattr(drainq.delayed.cli_commands, "reach", watched)
    with pytest.raises(QueueBroken) if fails else contextlib.nullcontext():
        assert call("migrate", url=f"sqlite:///{tmp_path}/x.db")[0] == 0
    assert told == [(0, False), (5, True), "closed"]


@pytest.mark.parametrize("there", [False, True], ids=["no file", "an empty file"])
def test_a_command_that_looks_changes_no_file(call, tmp_path, there):
    path = tmp_path / "other.db"
    if there:
        path.touch()
    url = f"sqlite:///{path}"
    code, script, err = call("migrate", "--sql", url=url)
    assert (code, err) == (0, "") and "__history" in script
    for command in (["stats", "--queue", "mail"], ["queues"], ["peek", "--queue", "mail"]):
        code, out, err = call(*command, url=url)
        assert (code, out) == (2, "") and "migrate" in err
    assert [(file.name, file.stat().st_size) for file in tmp_path.glob("other*")] == (
        [("other.db", 0)] if there else []
    )


def test_commands_work_while_an_index_that_only_helps_is_missing(call, database):
    queue = database.open(migrate=False) if database.open() else None
    queue.offer_or_update("urgent", 1, 0, priority=-1)
    database.lose_the_priority_index()
    code, out, _ = call("stats", "--queue", "mail", "--format", "json")
    assert code == 0 and json.loads(out)["ready"] == 1
    assert "KindPlusPriorityIndex" in call("migrate", "--sql")[1]
    assert call("migrate") == (0, "applied: an index for delivery by priority\n", "")


def test_queues_of_a_table_that_is_not_there_are_refused_with_what_to_do(database):
    database.open()
    with pytest.raises(QueueBroken, match="the tables of 'nosuch' are missing or old: run 'drainq delayed migrate'"):
        DelayedQueue.queues(database.url, table="nosuch")


def test_stats_in_each_format(call, database):
    queue = database.open(clock=None)
    queue.offer_or_update("a", 1, 0)
    queue.offer_or_update("b", 1, 4e9)
    code, out, _ = call("stats", "--queue", "mail", "--format", "json")
    assert code == 0
    stats = json.loads(out)
    assert 0 <= stats.pop("oldest_ready_age") < 1e6  # since the offer, and not since 1970
    assert stats == {
        **{"ready": 1, "scheduled": 1, "in_flight": 0, "redelivered": 0, "dead": 0},
        **{"paused": False, "elsewhere": 0, "expired": 0, "longest_held": 0.0},
    }
    _, out, _ = call("stats", "--queue", "mail")
    assert out.splitlines()[:2] == ["ready             1", "scheduled         1"]
    _, out, _ = call("stats", "--queue", "mail", "--format", "prometheus")
    assert {'drainq_delayed_ready{queue="mail"} 1', 'drainq_delayed_longest_held_seconds{queue="mail"} 0'} < {
        *out.split("\n")
    }
    database.open('a "b"\\c\nd')
    _, out, _ = call("stats", "--queue", 'a "b"\\c\nd', "--format", "prometheus")
    assert 'drainq_delayed_ready{queue="a \\"b\\"\\\\c\\nd"} 0' in out.splitlines()


def test_peek_shows_without_taking(call, database):
    queue = database.open(clock=None)
    queue.offer_or_update("welcome/ann", {"to": "ann\n"}, 1_000_000_000)
    queue.offer_or_update("later", "x" * 200, 4_000_000_000)
    code, out, err = call("peek", "--queue", "mail")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        '2001-09-09T01:46:40+00:00  welcome/ann  waiting  attempts=0  {"to":"ann\\n"}',
        f'2096-10-02T07:06:40+00:00  later  waiting  attempts=0  "{"x" * 59}...',
    ]
    assert queue.try_poll().attempt == 1
    (line,) = call("peek", "--queue", "mail", "--limit", "1")[1].splitlines()
    assert "later  waiting  attempts=0" in line or "welcome/ann  held by " in line
    rows = json.loads(call("peek", "--queue", "mail", "--json")[1])
    assert {row["key"]: row["in_flight"] for row in rows} == {"welcome/ann": True, "later": False}
    assert [(row["key"], row["due_at"], row["in_flight"], row["attempts"], row["payload"]) for row in rows] == [
        (row.key, row.due_at.isoformat().replace("+00:00", "Z"), row.in_flight, row.attempts, row.payload.decode())
        for row in queue.peek()
    ]


def test_dead_letters_are_shown_put_back_and_dropped(call, database):
    queue, garbled = database.open(clock=None), database.open(codec=Garbled(), clock=None)
    for key in ("a", "b", "c"):
        garbled.offer_or_update(key, b"\xff", 0)
    assert queue.try_poll() is None
    _, out, _ = call("peek", "--queue", "mail", "--dead")
    assert len(out.splitlines()) == 3
    assert call("peek", "--queue", "mail", "--dead", "--limit", "1")[1] == out.splitlines(keepends=True)[0]
    assert "  c  attempts=1  the payload cannot be decoded as json" in out.splitlines()[0]
    assert "\\xff" in out
    assert call("redrive", "--queue", "mail", "--key", "b") == (0, "put back 1\n", "")
    assert call("drop", "--queue", "mail", "--dead", "--key", "a") == (0, "dropped 1\n", "")
    assert call("redrive", "--queue", "mail") == (0, "put back 1\n", "")
    assert queue.stats().ready == 2
    assert queue.try_poll() is None
    assert call("drop", "--queue", "mail", "--dead", "--all", "--yes") == (0, "dropped 2\n", "")


def test_drop_takes_keys_or_with_yes_everything(call, database):
    queue = database.open()
    for key in ("a", "b", "c"):
        queue.offer_or_update(key, 1, 0)
    code, out, err = call("drop", "--queue", "mail", "--key", "a", "--key", "z")
    assert (code, out, err) == (1, "dropped 1\n", "drainq delayed: there is no message of key 'z'\n")
    code, out, err = call("drop", "--queue", "mail", "--all")
    assert (code, out) == (2, "")
    assert "--yes" in err
    assert queue.stats().ready == 2
    assert call("drop", "--queue", "mail", "--all", "--yes") == (0, "dropped 2\n", "")


class Parcel(BytesCodec):
    """A codec of the user's, which the command cannot know."""

    type_name = "mine:Parcel"

    def decode(self, data):
        raise AssertionError("no command decodes")


EVERY = [
    "stats",
    "peek",
    "schedules",
    "history",
    "dead",
    "pause",
    "resume",
    "redrive",
    "show a",
    "reschedule a --delay 30",
    "run-now a",
    "release --older-than 0",
    "drop --key a",
    "purge --older-than 0",
]


def test_every_command_works_for_a_queue_of_any_codec_and_shows_what_is_no_text_escaped(call, database):
    queue = database.open(codec=Parcel())
    queue.offer_or_update("a", b"\xff\x1babc", 0)
    assert call("peek", "--queue", "mail")[1].endswith("  \\xff\\x1babc\n")
    assert {command: call(*command.split(), "--queue", "mail")[::2] for command in EVERY} == dict.fromkeys(
        EVERY, (0, "")
    )
    assert queue.stats().ready == 0 and call("queues")[1].splitlines()[1:] == [
        "mail   mine:Parcel  running  0      0 s     0      0          0"
    ]


def test_of_two_queues_with_one_name_the_codec_tells_which(call, database):
    database.open(codec=Parcel()).offer_or_update("a", b"abc", 0)
    database.open().offer_or_update("b", 1, 0)
    assert call("peek", "--queue", "mail")[::2] == (
        2,
        "drainq delayed: queue 'mail' was opened with 'json', 'mine:Parcel': pass one of them as --codec\n",
    )
    assert call("peek", "--queue", "mail", "--codec", "mine:Parcel")[1].endswith("  abc\n")
    assert "none is 'json:Nosuch'" in call("peek", "--queue", "mail", "--codec", "json:Nosuch")[2]


@pytest.mark.parametrize("command", ["stats", "peek", "redrive"])
def test_a_database_without_tables_is_one_line_that_says_what_to_do(call, command):
    code, out, err = call(command, "--queue", "mail")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and "drainq delayed migrate" in err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://ann:secret@db/x", "url must name a database"),
        ("memory:", "lives and dies"),
        ("sqlite:////no/such/directory/q.db", "/no/such/directory"),
        ("postgresql://ann:secret@/db?host=/no/such/directory", "/no/such/directory"),
    ],
)
def test_an_url_that_leads_nowhere_is_one_line_without_the_password(call, url, said):
    for command in (["migrate"], ["stats", "--queue", "mail"]):
        code, out, err = call(*command, url=url)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1 and said in err
        assert "secret" not in err and "Traceback" not in err


def test_a_file_that_is_no_database_is_one_line(call, tmp_path):
    (tmp_path / "text.db").write_text("This is not a database. " * 100)
    code, out, err = call("migrate", url=f"sqlite:///{tmp_path}/text.db")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and "not a database" in err


@pytest.mark.parametrize("arguments", [["--queue", " "], ["--queue", "mail", "--limit", "0"]])
def test_an_argument_that_is_none_is_one_line(call, database, arguments):
    database.open()
    code, out, err = call("peek", *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_a_bug_is_not_dressed_up_as_a_mistake_of_the_user(call, database, monkeypatch):
    database.open()
    monkeypatch.setattr("drainq.delayed.queue.DelayedQueue.stats", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        call("stats", "--queue", "mail")
    monkeypatch.setattr("drainq.delayed.queue.DelayedQueue.stats", lambda self: __import__("no_such_module"))
    assert call("stats", "--queue", "mail") == (2, "", "drainq delayed: No module named 'no_such_module'\n")


# --- what an operator sees and does


def test_queues_and_schedules_are_listed(call, database, monkeypatch):
    bills = database.open("bills")
    bills.pause()
    now = datetime.fromtimestamp(database.clock.now(), timezone.utc)
    by = f"{bills._session.storage.holder} at {now:%Y-%m-%d %H:%M:%S} UTC"
    queue = database.open("mail")
    queue.cron.install_periodic_tick("sweep", 900, lambda at: 1).close()
    queue.cron.install("h", "own", 60, lambda now: []).close()
    monkeypatch.setattr("time.time", database.clock.now)
    assert call("queues") == (
        0,
        "QUEUE  CODEC  STATE    READY  OLDEST  LATER  IN FLIGHT  DEAD\n"
        "bills  json   paused   0      0 s     0      0          0\n"
        "mail   json   running  0      0 s     1      0          0\n"
        f"bills was paused by {by}\n",
        "",
    )
    bills, mail = json.loads(call("queues", "--json")[1])
    assert (bills["name"], bills["codec"], bills["paused"], mail["paused"]) == ("bills", "json", True, False)
    assert (bills["paused_by"], mail["paused_by"]) == (by, None)
    code, out, err = call("schedules", "--queue", "mail")
    assert (code, err) == (0, "")
    assert [line.split("  ")[0] for line in out.splitlines()] == ["PREFIX", "own", "sweep"]
    assert "own function, every 60 s  none" in out and "every 900 s" in out
    own, sweep = json.loads(call("schedules", "--queue", "mail", "--json")[1])
    assert (own["key_prefix"], own["last_tick"]) == ("own", None)
    assert sweep["description"] == "every 900 s" and sweep["last_tick"].endswith("Z")
    assert call("schedules", "--queue", "bills", "--json") == (0, "[]\n", "")


def test_a_queue_is_paused_and_resumed(call, database):
    queue = database.open("mail")
    assert call("pause", "--queue", "mail", "--reason", "the server moves") == (0, "paused\n", "")
    assert queue.paused
    said = call("queues")[1].splitlines()[-1]
    assert said.startswith("mail was paused by ") and said.endswith(" UTC: the server moves")
    assert f"/{getpass.getuser()} at " in said
    assert call("pause", "--queue", "mail") == (0, "it was paused already\n", "")
    assert call("resume", "--queue", "mail") == (0, "resumed\n", "")
    assert not queue.paused
    assert call("resume", "--queue", "mail") == (0, "it was not paused\n", "")


def test_dead_letters_are_listed_put_back_by_prefix_and_purged(call, database):
    queue = database.open("mail", max_attempts=1)
    for key in ("mail/a", "mail/b", "sms/c"):
        queue.offer_or_update(key, key, 0)
        queue.try_poll().nack(error=ValueError("no such\naddress"))
    (letter,) = json.loads(call("dead", "--queue", "mail", "--prefix", "mail/", "--limit", "1", "--json")[1])
    assert (letter["key"], letter["attempts"], letter["payload"]) == ("mail/b", 1, '"mail/b"')
    assert letter["error"] == "ValueError: no such\naddress"
    assert call("dead", "--queue", "mail")[1].count("ValueError: no such  ") == 3
    assert call("redrive", "--queue", "mail", "--prefix", "mail/") == (0, "put back 2\n", "")
    code, out, err = call("redrive", "--queue", "mail", "--key", "mail/a")
    assert (code, out) == (1, "put back 0\n") and "'mail/a'" in err
    assert call("purge", "--queue", "mail", "--older-than", "36500d")[:2] == (0, "purged 0\n")
    assert call("purge", "--queue", "mail", "--older-than", "0") == (0, "purged 1\n", "")


def test_what_commands_changed_is_told_to_machines(call, database):
    queue = database.open("mail", max_attempts=1)
    for key in ("mail/a", "mail/b", "sms/c"):
        queue.offer_or_update(key, key, 0)
        queue.try_poll().nack(error="no such address")
    queue.offer_or_update("live", 1, 0)

    def said(*command):
        code, out, _ = call(*command, "--queue", "mail", "--json")
        return code, json.loads(out)

    assert said("pause") == (0, {"paused": True, "changed": True})
    assert said("pause") == (0, {"paused": True, "changed": False})
    assert said("resume") == (0, {"paused": False, "changed": True})
    assert said("redrive", "--prefix", "mail/") == (0, {"put_back": 2, "missing": []})
    assert said("redrive", "--key", "sms/c", "--key", "mail/a") == (1, {"put_back": 1, "missing": ["mail/a"]})
    assert said("drop", "--key", "live", "--key", "dead") == (1, {"dropped": 1, "missing": ["dead"]})
    assert said("purge", "--older-than", "1d") == (0, {"purged": 0})


def test_the_history_is_listed(call, database):
    queue = database.open("mail", history=5)
    assert call("history", "--queue", "mail")[1].startswith("no attempt is remembered: ")
    queue.offer_or_update("a", 1, 1_000_000_000)
    queue.try_poll().ack()
    (past,) = json.loads(call("history", "--queue", "mail", "--json")[1])
    assert (past["key"], past["scheduled_at"], past["attempt"]) == ("a", "2001-09-09T01:46:40Z", 1)
    queue.offer_or_update("b", 1, 0)
    queue.try_poll().nack(error="no\x1b such address\nmore")
    queue.try_poll().ack()
    lines = call("history", "--queue", "mail", "--key", "b")[1].splitlines()
    when, holder = r"[-0-9]{10} [:0-9]{8}", re.escape(queue._session.storage.holder)
    assert re.fullmatch(rf"{when}  b  attempt 2 acknowledged after [0-9.]+ s, {holder}", lines[0])
    assert re.fullmatch(rf"{when}  b  attempt 1 given back after [0-9.]+ s, {holder}: no\\x1b such address", lines[1])
    assert len(lines) == 2 and len(json.loads(call("history", "--queue", "mail", "--limit", "1", "--json")[1])) == 1


def test_messages_are_shown_to_machines(call, database):
    queue = database.open("mail")
    queue.offer_or_update("a", {"to": "ann"}, 1_000_000_000)
    (row,) = json.loads(call("peek", "--queue", "mail", "--json")[1])
    at = "2001-09-09T01:46:40Z"
    assert row == {
        **{"key": "a", "payload": '{"to":"ann"}', "priority": 0, "attempts": 0, "last_error": None},
        **{"scheduled_at": at, "due_at": at, "created_at": row["created_at"]},
        **{
            "in_flight": False,
            "holder": None,
            "leased_at": None,
            "held_for": None,
            "max_attempts": None,
            "group": None,
        },
    }
    assert json.loads(call("stats", "--queue", "mail", "--json")[1])["ready"] == 1


@pytest.mark.parametrize("command", ["stats", "peek", "schedules", "pause", "resume", "redrive", "history", "dead"])
def test_an_unknown_queue_is_refused_with_the_known_ones_and_nothing_is_written(call, database, command):
    database.open("mail")
    database.open("notes", codec=BytesCodec())
    code, out, err = call(command, "--queue", "mial")
    assert (code, out) == (2, "")
    assert "no queue 'mial'" in err and err.endswith("'mail', 'notes'\n") and err.count("\n") == 1
    assert [row["name"] for row in json.loads(call("queues", "--json")[1])] == ["mail", "notes"]


def test_a_queue_without_a_name_that_holds_messages_is_known(call, database):
    queue = database.open("mail", max_attempts=1)
    queue.offer_or_update("a", 1, 0)
    with (
        queue._session.storage._pool.transaction()
        if database.backend == "postgresql"
        else (queue._session.storage._transaction()) as cursor
    ):
        cursor.execute(f'DELETE FROM "{database.table}__queues"')
    assert call("queues", "--json")[1] == "[]\n"
    assert call("stats", "--queue", "mail", "--json")[0] == 0
    queue.try_poll().nack(error="no such address")
    assert call("dead", "--queue", "mail")[0] == 0


@pytest.mark.parametrize("command", [["queues"], ["stats", "--queue", "mail"], ["pause", "--queue", "mail"]])
def test_a_look_at_a_file_that_is_not_there_makes_none(call, tmp_path, command):
    code, out, err = call(*command, url=f"sqlite:///{tmp_path}/missing.db")
    assert (code, out) == (2, "")
    assert "no file" in err and "missing.db" in err and err.count("\n") == 1
    assert not (tmp_path / "missing.db").exists()


@pytest.mark.parametrize("age", ["x", "-1", "5y", "nan", "inf", "1e10", ""])
def test_an_age_that_is_none_is_refused(call, age, capsys):
    with pytest.raises(SystemExit) as refused:
        call("purge", "--queue", "mail", f"--older-than={age}")
    assert refused.value.code == 2
    assert "--older-than" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("age", "seconds"), [("90", 90), ("1.5s", 1.5), ("30m", 1800), ("12h", 43_200), ("30d", 2_592_000), ("0", 0)]
)
def test_an_age_is_in_seconds_or_has_a_unit(age, seconds):
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers(required=True))
    arguments = parser.parse_args(
        ["delayed", "purge", "--url", "sqlite:///x.db", "--queue", "mail", "--older-than", age]
    )
    assert arguments.older_than == seconds


def test_lists_have_their_limits():
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers(required=True))
    limits = [
        parser.parse_args(["delayed", name, "--url", "sqlite:///x.db", "--queue", "mail"]).limit
        for name in ("peek", "dead", "history")
    ]
    assert limits == [10, 20, 20]


@pytest.mark.parametrize("columns", [70, 200])
def test_tables_and_lines_fit_the_terminal(call, database, monkeypatch, columns):
    queue = database.open("mail", clock=None)
    queue.offer_or_update("k" * 100, "p" * 100, 0)
    queue.cron.install_cron("prefix " * 10, "30 6 * * MON-FRI", lambda at: 1, tz="Europe/Bucharest").close()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for command in (["queues"], ["schedules", "--queue", "mail"], ["peek", "--queue", "mail"]):
        lines = call(*command)[1].splitlines()
        assert lines and max(map(len, lines)) <= columns


def test_quiet_says_only_what_is_wrong(call, database):
    assert call("migrate", "--quiet") == (0, "", "")
    database.open("mail").offer_or_update("a", 1, 0)
    for command in (["pause"], ["resume"], ["drop", "--key", "a"], ["redrive"], ["purge", "--older-than", "1d"]):
        assert call(*command, "--queue", "mail", "--quiet") == (0, "", ""), command
    code, out, err = call("drop", "--key", "a", "--queue", "mail", "--quiet")
    assert (code, out) == (1, "") and "a" in err
