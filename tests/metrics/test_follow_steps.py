"""Following, step by step and without threads: what a look finds, what a row says, and when a round ranks."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import os
import threading
from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pygal")

import drainq.metrics.follow.directory
import drainq.metrics.follow.rounds
import drainq.metrics.load
from drainq.metrics import cli
from drainq.metrics.engine import InThreads
from drainq.metrics.errors import JobFailed, UserError
from drainq.metrics.follow import tail as tail_module
from drainq.metrics.follow.counted import Counted, Memory, check_not_followed, counted_beginning, head_of
from drainq.metrics.follow.directory import Directory
from drainq.metrics.follow.file_stream import FileStream
from drainq.metrics.follow.rounds import Rounds
from drainq.metrics.follow.run import Ending, follow
from drainq.metrics.follow.tail import Tail
from drainq.metrics.job import run
from drainq.metrics.log_files import find
from drainq.metrics.outcome import JobOutcome, LogCounts
from drainq.sql import Database
from tests.metrics.logs import lines, write

NOW = 1_000_000.0


@pytest.fixture
def memory(database, logs):
    return Memory(database, str(logs))


def aged(path, text, age):
    """Return a file that was written to ``age`` seconds before NOW."""
    path.write_text(text)
    os.utime(path, (NOW - age, NOW - age))
    return path


class Look:
    """A directory that is looked into; ``said`` is what the user is told."""

    def __init__(self, logs, memory):
        self.said = []
        self.directory = Directory(str(logs), memory, 10.0, self.said.append)

    def __call__(self, now=NOW):
        return [os.path.basename(source.path) for source in self.directory.finished(now)]


def test_a_look_returns_what_is_settled_the_oldest_first_and_says_nothing_of_what_only_waits(logs, memory):
    look = Look(logs, memory)
    for name, age in (("a", 10), ("b", 30), ("young", 9.9), ("of tomorrow", -86_400)):
        aged(logs / name, "x\n", age)
    for _ in range(2):
        assert look() == ["b", "a", "of tomorrow"]
        assert (look.directory.waiting, look.said, look.directory.uncounted) == (1, [], {})
    assert look(NOW + 0.1) == ["b", "a", "young", "of tomorrow"] and look.directory.waiting == 0


def test_what_was_left_out_is_looked_at_again_once_it_changed_and_what_went_is_none(logs, memory, monkeypatch):
    look = Look(logs, memory)
    log = aged(logs / "a", "x\n", 20)
    look.directory.leave_out(find(0, str(log)), "it is odd")
    assert look() == [] and look.directory.uncounted == {"a": "it is odd"} and look.said == ["it is odd"]
    aged(log, "xy\n", 20)
    assert look() == ["a"] and look.directory.uncounted == {}

    for error, uncounted in ((FileNotFoundError(), {}), (OSError(5, "a fault"), {"a": "cannot read 'a': a fault"})):
        monkeypatch.setattr(look.directory, "_wanted", MagicMock(side_effect=error))
        assert look() == [] and look.directory.uncounted == uncounted
        assert look.said == ["it is odd", *uncounted.values()]


def test_a_round_takes_so_many_bytes_but_one_file_however_large(logs, memory, monkeypatch):
    for name in "abc":
        aged(logs / name, "12345\n", 20)
    for most, taken in ((3, "a"), (11, "a"), (12, "ab"), (17, "ab"), (18, "abc")):
        monkeypatch.setattr(drainq.metrics.follow.directory, "MOST_BYTES", most)
        assert Look(logs, memory)() == list(taken), most
    monkeypatch.setattr(drainq.metrics.follow.directory, "MOST_FILES", 2)
    assert Look(logs, memory)() == ["a", "b"]


def test_a_round_counts_each_content_once_and_leaves_out_what_is_gone_or_being_written(
    database, logs, memory, monkeypatch
):
    held, said, text = [], [], "\n".join([*lines(2), "noise", ""])
    monkeypatch.setattr(drainq.metrics.follow.rounds, "ctrl_c_later", lambda: nullcontext(lambda: held.append(1)))
    sources = [
        find(n, str(aged(logs / name, text, 20))) for n, name in enumerate(("gone", "young", "grown", "b", "copy"))
    ]
    rounds = Rounds(database, memory, str(logs), top=3)
    directory = Directory(str(logs), memory, 10.0, said.append)
    os.remove(logs / "gone")
    rounds.load_files(pytest.fail, sources[:1], directory)
    assert (rounds.files, rounds.outcome.lines) == (0, 0)
    aged(logs / "young", text, 19)
    aged(logs / "grown", f"{text}more\n", 20)
    rounds.load_files(InThreads(), sources, directory)
    assert (rounds.files, rounds.outcome.lines, held) == (1, 3, [1])
    assert said == [f"{str(logs / name)!r} is being written; it is not counted yet" for name in ("young", "grown")]
    followed = "SELECT name, bytes, lines, parsed, bad FROM followed ORDER BY name"
    assert database.execute(followed) == [("b", len(text), 3, 2, 1), ("copy", len(text), 3, 2, 1)]
    assert database.execute("SELECT source, lines, parsed, bad FROM sources") == [(str(logs / "b"), 3, 2, 1)]


def test_the_outcome_adds_up_its_rounds_and_keeps_the_first_bad_line(database, logs, memory):
    rounds = Rounds(database, memory, str(logs), top=3)
    for number in (5, 9):
        rounds._add(
            JobOutcome(
                [LogCounts("a", "", 3, 2, 1, first_bad=(number, "odd"), reasons={"odd": number})],
                written={"t": 2},
                parsed_in_tables=2,
            )
        )
    assert rounds.outcome.sources == [LogCounts(str(logs), "", 6, 4, 2, first_bad=(5, "odd"), reasons={"odd": 14})]
    assert (rounds.outcome.written, rounds.outcome.parsed_in_tables) == ({"t": 4}, 4)


def test_a_following_ranks_in_its_first_round_with_lines_and_at_its_end(following, logs, monkeypatch):
    ranked = []
    for module, name in ((drainq.metrics.load, "round"), (drainq.metrics.follow.rounds, "end")):
        monkeypatch.setattr(module, "rank", lambda *_, name=name: ranked.append(name) or 0)
    run([write(logs / "a", lines(5))], out=following.out, engine="local")
    ranked.clear()
    assert following(logs).outcome.lines == 0 and ranked == [], "all of it was loaded before"
    assert following.ask("SELECT name, lines FROM followed") == [("a", 0)]
    steps = [lambda n=n: write(logs / f"b{n}", lines(5, n)) for n in (2, 3)]
    found = following(logs, *steps)
    assert (found.files, ranked) == (2, ["round", "end"])
    write(logs / "c", lines(4, 9))
    write(logs / "d", lines(4, 9))
    assert following(logs).files == 1, "one content"


# --- the rows


def test_a_row_is_written_only_over_the_row_that_was_read(database, memory):
    row = Counted(memory.directory, "7", "a.log", bytes=3, head="h")
    with database.transaction():
        memory.write([row])
    memory.keep([row])
    database.execute("DELETE FROM followed")
    with pytest.raises(UserError, match=f"^another command counts '{memory.directory}/a.log'; end one of them$"):
        memory.write([dataclasses.replace(row, bytes=4)])


def test_of_two_commands_that_begin_a_file_the_second_to_count_ends(database, memory):
    row = Counted(memory.directory, "7", "a.log", bytes=3, head="h")
    other = Memory(database, memory.directory)
    with database.transaction():
        memory.write([row])
    with pytest.raises(UserError, match="^another command counts"):
        other.write([row])


def test_a_log_that_was_followed_to_its_end_may_be_loaded(database, logs, memory):
    log = aged(logs / "a", "line\n", 20)
    with open(log, "rb") as file:
        assert head_of(file, 6) == "", "the file has fewer bytes"
        row = Counted(str(logs), str(os.stat(log).st_ino), "b", bytes=5, lines=1, head=head_of(file, 5), sha256="done")
    memory.write([row])
    check_not_followed(database, str(log))
    memory.keep([row])
    memory.write([dataclasses.replace(row, sha256="")])
    with pytest.raises(UserError, match=f"is followed, and 1 of its lines are counted; .* --follow '{logs}/b'$"):
        check_not_followed(database, str(log))


@pytest.mark.parametrize(("end", "found"), [("\n", 2), ("", 0)])
def test_the_beginning_of_a_file_is_one_that_was_loaded_and_ends_a_line(database, logs, tmp_path, end, found):
    text = "\n".join(lines(2))
    log = aged(logs / "a", text + end, 20)
    run([str(log), write(logs / "longer", lines(9, 5))], out=tmp_path, engine="local")
    aged(log, f"{text}\n{lines(1, 2)[0]}\n" if end else text + end, 20)
    with open(log, "rb") as file:
        assert counted_beginning(file, database) == (len(text) + 1, 2, 2, 0)[: 4 if found else 0] + (0,) * (
            0 if found else 4
        )


# --- the tail


@pytest.fixture
def tail(logs, memory):
    """Yield the tail of ``a.log``, which has a rotated file ``a.log.1`` open since NOW; both have one line."""
    old = aged(logs / "a.log", "1\n", 60)
    said = []
    tail = Tail(str(old), memory, lambda file: (0, 0, 0, 0), 10.0, said.append)
    tail.said = said
    tail._open_current(NOW)
    tail._open[0].counted = dataclasses.replace(tail._open[0].counted, bytes=2, head=head_of(tail._open[0].file, 2))
    old.rename(logs / "a.log.1")
    aged(logs / "a.log", "2\n", 0)
    tail._open_current(NOW)
    yield tail
    tail.close()


@pytest.mark.parametrize(
    ("after", "current", "appended", "ends"),
    [(9.9, "2\n", "", False), (10.0, "2\n", "", True), (10.0, "", "", False), (10.0, "2\n", "3\n", False)],
    ids=["not yet", "settled", "the new file is empty", "it grew"],
)
def test_a_rotated_file_ends_when_it_is_settled_and_the_next_one_has_lines(tail, logs, after, current, appended, ends):
    old = tail._open[0]
    (logs / "a.log").write_text(current)
    with open(logs / "a.log.1", "a") as file:
        file.write(appended)
    grown = tail._read(old, NOW + after)
    assert (grown is not None and bool(grown.sha256)) is ends
    assert old.quiet == (NOW + after if appended else NOW)


def test_what_was_counted_to_its_end_is_closed(tail, memory):
    old = tail._open[0]
    memory.keep([dataclasses.replace(old.counted, sha256="done")])
    tail.keep()
    assert old.file.closed and len(tail._open) == 1


def test_a_log_that_is_away_is_said_each_time_and_its_old_file_is_quiet_from_then_on(tail, logs):
    for moment in (1, 2):
        os.rename(logs / "a.log", logs / f"a.log.{moment + 1}")
        tail._open_current(NOW + moment)
        tail._open_current(NOW + moment + 0.5)
        assert len(tail.said) == moment and tail._open[-1].quiet == NOW + moment
        aged(logs / "a.log", f"of {moment}\n", -moment)
        tail._open_current(NOW + moment + 0.6)
    os.rename(logs / "a.log.2", logs / "a.log")  # the second file is the current one again
    tail._open_current(NOW + 9)
    assert [(os.path.basename(each.path), each.quiet) for each in tail._open if each.quiet is None] == [("a.log", None)]


def test_a_file_that_was_counted_to_its_end_and_is_followed_again_is_not_at_its_end(tail, memory):
    old = tail._open[0]
    memory.keep([dataclasses.replace(old.counted, sha256="done")])
    assert tail._row_of(old.file) == old.counted and old.counted.sha256 == ""
    memory.keep([dataclasses.replace(old.counted, sha256="done", head="of another file with this inode")])
    assert tail._row_of(old.file).bytes == 0 and tail.said == []


def test_a_file_that_is_truncated_while_it_is_read_is_read_again_at_the_next_look(tail, logs, monkeypatch):
    read, now = tail_module._appended, tail._open[1]

    def truncated(file, begin, size):
        data = read(file, begin, size)
        os.truncate(logs / "a.log", 0)
        return data

    monkeypatch.setattr(tail_module, "_appended", truncated)
    assert tail._read(now, NOW) is None
    monkeypatch.setattr(tail_module, "_appended", read)
    aged(logs / "a.log", "3\n", 0)
    assert tail._read(now, NOW).data == b"3\n"


def test_the_names_of_rotated_files_are_those_of_the_log_with_a_number_or_a_date():
    names = ["a.log", "a.log.1", "a.log-20260101", "a.log.2.gz", "a.log_1", "a.logs", "b.log", "a"]
    assert [name for name in names if tail_module._is_of(name, "a.log")] == names[:4]


def test_links_that_lead_nowhere_are_no_files(tail, logs, memory):
    for name in ("a.log.4", "b.log"):
        (logs / name).symlink_to(logs / name)
    os.rename(logs / "a.log", logs / "a.log.2")
    aged(logs / "a.log", "new\n", -2)
    tail._open_current(NOW)
    tail._reopen()
    look = Look(logs, memory)
    assert look.directory.finished(NOW + 60) and look.said == [] and len(tail._open) == 3


def test_a_file_that_was_made_and_rotated_away_between_two_looks_is_opened(tail, logs):
    os.rename(logs / "a.log", logs / "a.log.2")
    aged(logs / "a.log.3", "unseen\n", -1)
    aged(logs / "a.log", "new\n", -2)
    tail._open[1].counted = dataclasses.replace(tail._open[1].counted, changed=int(NOW * 1e9))
    tail._open_current(NOW)
    assert [os.path.basename(each.path) for each in tail._open] == ["a.log", "a.log", "a.log.3", "a.log"]
    assert "was rotated away unseen" in tail.said[0]
    os.rename(logs / "a.log.3", logs / "a.log")  # and is the current one now
    tail._open_current(NOW)
    assert [(os.path.basename(each.path), each.quiet) for each in tail._open] == [
        ("a.log", NOW), ("a.log", NOW), ("a.log", None), ("a.log", NOW)
    ]  # fmt: skip


# --- the streaming query


@pytest.fixture
def stream(tmp_path):
    """Return a stream whose query notes the announcements and then fails, as Spark's does after an error of a batch."""
    made = FileStream.__new__(FileStream)

    def fails():
        made.announced = [path.read_text() for path in tmp_path.glob("*.json")]
        raise RuntimeError("\n the query failed\n at Java")

    made._query = SimpleNamespace(processAllAvailable=fails)
    made._announced, made._failed, made._stopped, made._busy = tmp_path, None, False, threading.Lock()
    made._load = lambda sources: made.loaded.append(sources)
    made.loaded = []
    return made


def test_a_query_that_ends_fails_with_the_error_of_its_batch_or_else_with_javas_first_line(stream, logs):
    source = find(0, str(aged(logs / "a", "x\n", 20)), "alb")
    with pytest.raises(JobFailed, match="^the streaming query ended: the query failed$"):
        stream.take([source])
    assert stream.announced == [f'["{source.path}", 2, {source.changed}, "alb"]\n']

    def fails(sources):
        raise KeyboardInterrupt("the directory is full")

    stream._load = fails
    with pytest.raises(KeyboardInterrupt):
        stream._each(SimpleNamespace(collect=list), 0)
    with pytest.raises(KeyboardInterrupt, match="the directory is full"):
        stream.take([])


def test_a_batch_has_the_files_that_did_not_change_since_and_none_once_the_following_has_ended(stream, logs):
    kept, changed, gone, more = (find(0, str(aged(logs / name, "x\n", 20)), "combinedio") for name in "abcd")
    rows = [(json.dumps([each.path, each.size, each.changed, each.format]),) for each in (kept, changed, gone, more)]
    aged(logs / "b", "y\n", 19)
    os.remove(gone.path)
    batch = SimpleNamespace(collect=lambda: rows)
    stream._each(batch, 0)
    assert stream.loaded == [[kept, more]]
    asked = []
    stream._context = SimpleNamespace(cancelAllJobs=lambda: asked.append("cancel"))
    stream._query.stop = lambda: asked.append("stop")
    stream._busy = MagicMock(**{"__enter__.side_effect": lambda *_: asked.append("waited")})
    stream.__exit__()
    stream._busy = threading.Lock()
    with pytest.raises(InterruptedError, match="the following has ended"):
        stream._each(batch, 1)
    assert stream.loaded == [[kept, more]] and asked == ["cancel", "stop", "waited"]


# --- the command


def test_the_command_and_the_function_have_the_same_defaults():
    parser = argparse.ArgumentParser()
    cli.add_commands(parser.add_subparsers())
    given, function = vars(parser.parse_args(["metrics"])), inspect.signature(follow).parameters
    for name in ("every", "settled", "out", "master", "top", "heap", "max_bad"):
        assert (
            given[name] == function[name].default == inspect.signature(run).parameters.get(name, function[name]).default
        )
    assert function["say"].default is print
    assert (given["every"], given["settled"], given["top"], given["max_bad"]) == (2.0, 10.0, 10, 1.0)
    for name, seconds in (("--every", "0"), ("--settled", "86400")):
        assert vars(parser.parse_args(["metrics", name, seconds]))[name[2:]] == float(seconds)


def test_a_signal_that_came_is_not_waited_for_again():
    ended = Ending()
    ended._asked.put(True)
    assert ended.wait(0)
    ended._asked = SimpleNamespace(get=pytest.fail)
    assert ended.wait(0)


def test_a_load_whose_handler_fails_fails_with_its_first_error_and_writes_nothing(tmp_path, monkeypatch):
    errors = [OSError("disk"), OSError("later")]

    def fails(*_):
        raise errors.pop(0) if errors else OSError("last")

    monkeypatch.setattr(drainq.metrics.load, "ROWS_A_BATCH", 2)
    monkeypatch.setattr(drainq.metrics.load._Write, "consume", fails)
    with pytest.raises(OSError, match="disk"):
        run([write(tmp_path / "a", lines(50))], out=tmp_path, engine="local")
    with Database(f"sqlite:///{tmp_path}/metrics.db") as database:
        assert database.execute("SELECT count(*) FROM sources") == [(0,)]
