"""The steps of the job by themselves: what is judged, what is counted, and what a failure leaves."""

from __future__ import annotations

import sqlite3
from types import SimpleNamespace

import pytest

pytest.importorskip("pyarrow")

from drainq.cli import main
from drainq.metrics import steps, tables
from drainq.metrics.bad_share import complaints, followed_logs
from drainq.metrics.errors import FileChanged, UserError, was_interrupted
from drainq.metrics.handlers import AddUp
from drainq.metrics.job import _worth_reading, run
from drainq.metrics.load import rank
from drainq.metrics.log_files import find
from drainq.metrics.metric_types import LinesRead
from drainq.metrics.outcome import Followed, JobOutcome, LogCounts, accounted
from drainq.sql import Database, DatabaseError, DatabaseUrl
from tests.metrics.logs import lines, write


def entered(database, sha256, source, lines, bad):
    database.execute("INSERT INTO sources VALUES (?, ?, ?, ?, ?, 'now')", [sha256, source, lines, lines - bad, bad])


def test_a_log_that_was_loaded_before_is_judged_by_its_stored_counts(database):
    log, said = LogCounts("a.log", "one"), "2 of 100 lines of 'a.log' are bad, more than 1 %"
    assert complaints(database, [log], 1.0) == [], "an empty log is entered nowhere"
    entered(database, "one", "a.log", 100, 2)
    database.execute("INSERT INTO bad_lines VALUES ('a.log', 7, 'x', 'odd: x')")
    assert complaints(database, [log], 1.0) == [f"{said}; the first is line 7: odd"]
    assert complaints(database, [log], 2.0) == [], "not more than that"
    entered(database, "two", "a.log", 50, 0)
    assert complaints(database, [log], 1.0) == [said], "two logs had this name"


def test_of_a_following_without_bad_lines_the_run_is_judged(tmp_path):
    row, total = SimpleNamespace(name="a.log", sha256="", lines=5, parsed=5, bad=0), LogCounts("a.log", "")
    assert followed_logs([row], str(tmp_path / "a.log"), total) == [total]
    row.bad = 1
    assert [log.bad for log in followed_logs([row], str(tmp_path / "a.log"), total)] == [1]


def test_a_log_under_two_names_that_is_loaded_is_not_worth_a_start_of_spark(database, tmp_path):
    (tmp_path / "a").write_text("x\n")
    sources = [find(0, str(tmp_path / "a"))] * 2
    assert _worth_reading(database, sources, ["one", "one"])
    entered(database, "one", "a", 1, 0)
    assert not _worth_reading(database, sources, ["one", "one"]) and _worth_reading(database, sources, ["one", "two"])


@pytest.mark.parametrize(
    ("more", "whole"),
    [({}, True), ({"rejected_full": 1, "offered": 4}, False), ({"failed": 1, "accepted": 4, "offered": 4}, False)],
)
def test_a_queue_that_refused_or_lost_something_is_not_accounted_for(more, whole):
    counts = {"offered": 3, "accepted": 3, "handled": 3, **more}
    assert accounted(counts) is whole
    for name in ("queue", "l2"):
        outcome = JobOutcome([], queue={"offered": 0}, l2={"offered": 0})
        setattr(outcome, name, counts)
        assert outcome.reconciled is whole


def test_lines_of_all_blocks_count_and_each_block_knows_those_before_it():
    log = LogCounts("a", "", before=100)
    found = steps.loading_of(JobOutcome([log]), [LinesRead(0, 50, 5, 4), LinesRead(0, 0, 7, 6)], [log])
    assert (log.lines, log.parsed, found.lines_before) == (12, 10, {(0, 0): 100, (0, 50): 107})


def test_of_a_failed_task_a_changed_log_is_the_reason_that_is_told(tmp_path):
    (tmp_path / "a").write_text("x\n")
    source = find(0, str(tmp_path / "a"))
    (tmp_path / "a").write_text("xy\n")

    def fails(tasks, spool):
        raise OSError("a task")

    with pytest.raises(FileChanged, match="changed while it was read"):
        steps.results_of(fails, [], [source], tmp_path)


def test_a_database_in_which_no_table_can_be_made_is_closed_and_a_top_of_none_refused(tmp_path, monkeypatch):
    def fails(database):
        opened.append(database)
        raise sqlite3.OperationalError("read only")

    opened = []
    monkeypatch.setattr(tables, "create_tables", fails)
    with pytest.raises(DatabaseError, match="cannot make tables"):
        steps.open_database(DatabaseUrl.sqlite(tmp_path / "m.db"))
    with pytest.raises(sqlite3.ProgrammingError):
        opened[0].execute("SELECT 1")
    with pytest.raises(UserError, match="--top must be at least 1, got 0"):
        run([], top=0)


def test_groups_are_handed_out_once_they_fill_more_than_half_and_counted_no_more_often_than_that():
    """Counting merges, so it waits until there may be too many groups."""
    counted, written = [], []

    class Groups:
        held = 0

        def add(self, n):
            self.held += n

        def __len__(self):
            counted.append(self.held)
            return self.held

    class Records:
        names = ()

        def __init__(self, groups, records):
            self.columns, self.records = groups, records

        groups = Groups

        def __len__(self):
            return self.records

    add_up = AddUp(Records, SimpleNamespace(), most_groups=10)
    add_up._hand_out = lambda: (
        written.append(add_up._groups.held) or add_up._groups.__init__() or setattr(Groups, "held", 0)
    )
    for groups, records in ((4, 9), (1, 1), (0, 4), (1, 1), (0, 3), (0, 1)):
        add_up.consume([Records(groups, records)])
    assert counted == [5, 6] and written == [6]


@pytest.mark.parametrize(
    ("more", "code"),
    [({}, 0), ({"interrupted": True}, 130), ({"uncounted": ["a"]}, 1), ({"complaints": ["bad"]}, 1), ({"lines": 1}, 1)],
    ids=str,
)
def test_the_exit_code_of_a_following_says_whether_everything_was_counted(tmp_path, monkeypatch, capsys, more, code):
    outcome = JobOutcome([LogCounts("a", "", lines=more.get("lines", 0))], complaints=more.get("complaints", []))
    followed = Followed(outcome, 0, more.get("interrupted", False), more.get("uncounted", []))
    monkeypatch.setattr("drainq.metrics.follow.run.follow", lambda *_, **__: followed)
    assert main(["metrics", "--follow", str(tmp_path / "a.log"), "--quiet"]) == code


@pytest.mark.parametrize("named", [True, False])
def test_ctrl_c_is_found_behind_the_error_that_it_caused(named):
    caused = RuntimeError("jobs cannot be cancelled")
    caused.__cause__, caused.__context__ = (KeyboardInterrupt(), None) if named else (None, KeyboardInterrupt())
    assert was_interrupted(caused) and not was_interrupted(RuntimeError())


def test_the_ranks_begin_with_one_and_replace_those_before(tmp_path):
    path = write(tmp_path / "a.log", lines(50))
    run([path], out=tmp_path, engine="local", top=3)
    with Database(f"sqlite:///{tmp_path}/metrics.db") as database:
        ranks = "SELECT rank, requests FROM top_endpoints ORDER BY rank"
        (first, most), *others = database.execute(ranks)
        assert (first, [number for number, _ in others]) == (1, [2, 3]) and most == max(
            n for _, n in [*others, (1, most)]
        )
        assert rank(database, 1) == 1 and database.execute(ranks) == [(1, most)]
