"""The steps of the job by themselves: what is judged, what is counted, and what a failure leaves."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace

import pytest

pytest.importorskip("pyarrow")

from drainq.cli import main
from drainq.metrics import engine, steps, tables
from drainq.metrics.bad_share import complaints, followed_logs
from drainq.metrics.errors import FileChanged, Interrupted, JobFailed, UserError, was_interrupted
from drainq.metrics.handlers import AddUp, QueueCounts, Spooled
from drainq.metrics.job import _worth_reading, run
from drainq.metrics.load import rank
from drainq.metrics.log_files import Digests, digest, find
from drainq.metrics.metric_types import LinesRead
from drainq.metrics.outcome import Followed, JobOutcome, LogCounts
from drainq.spark.task_attempt import TaskInfo
from drainq.sql import Database, DatabaseError, DatabaseUrl
from tests.metrics.logs import lines, write


def entered(database, sha256, source, lines, bad):
    database.execute("INSERT INTO sources VALUES (?, ?, ?, ?, ?, 'now')", [sha256, source, lines, lines - bad, bad])


def test_a_log_that_was_loaded_before_is_judged_by_its_stored_counts(database):
    log, said = LogCounts("a.log", "one"), "2 of 100 lines of 'a.log' are bad, more than 1 %"
    assert complaints(database, [log], 1.0) == [], "an empty log is entered nowhere"
    entered(database, "one", "a.log", 100, 2)
    for number in (9, 7, 8):
        database.execute("INSERT INTO bad_lines VALUES ('a.log', ?, 'x', 'odd')", [number])
    assert complaints(database, [log], 1.0) == [f"{said}; the first is line 7: odd: x"]
    assert complaints(database, [log], 2.0) == [], "not more than that"
    read = LogCounts("a.log", "", lines=100, parsed=98, bad=2, first_bad=(3, "even", "\x1b[2J" + "x" * 500), format="")
    assert complaints(database, [log, read], 1.0)[1:] == [
        f"{said}; the first is line 3: even (read as common or combined): \\x1b[2J{'x' * 190}..."
    ]
    entered(database, "two", "a.log", 50, 0)
    assert complaints(database, [log], 1.0) == [said], "two logs had this name"


def test_of_a_following_without_bad_lines_the_run_is_judged(tmp_path):
    row, total = SimpleNamespace(name="a.log", sha256="", lines=5, parsed=5, bad=0), LogCounts("a.log", "")
    assert followed_logs([row], str(tmp_path / "a.log"), total) == [total]
    row.bad = 1
    assert [log.bad for log in followed_logs([row], str(tmp_path / "a.log"), total)] == [1]
    assert followed_logs([row], str(tmp_path), total) == [total], "the file is gone"
    (tmp_path / "a.log").touch()
    assert followed_logs([row], str(tmp_path), total) == [LogCounts(str(tmp_path / "a.log"), "", 5, 5, 1)]


def test_a_log_under_two_names_that_is_loaded_is_not_worth_a_start_of_spark(database, tmp_path):
    (tmp_path / "a").write_text("x\n")
    sources = [find(0, str(tmp_path / "a"))] * 2
    assert _worth_reading(database, sources, ["one", "one"])
    entered(database, "one", "a", 1, 0)
    assert not _worth_reading(database, sources, ["one", "one"]) and _worth_reading(database, sources, ["one", "two"])


def test_digests_are_waited_for_so_long_and_no_more_begin_once_they_are_closed(monkeypatch):
    let_go = threading.Event()
    monkeypatch.setattr("drainq.metrics.log_files.digest", lambda source: let_go.wait(60) and f"of {source}")
    try:
        digests = Digests(range(5))
        assert digests.result(0) is None
        digests._waiting[-1].add_done_callback(lambda last: let_go.set())
        digests.close()
        assert [each.cancelled() for each in digests._waiting[2:]] == [True] * 3
        digests = Digests([7, 8, 9])
        assert digests.result(60) == digests.result() == ["of 7", "of 8", "of 9"]
        digests.close()
    finally:
        let_go.set()


def test_lines_of_all_blocks_count_and_each_block_knows_those_before_it_with_their_directives():
    log = LogCounts("a", "", before=100)
    outcome, files = JobOutcome([log]), [Spooled(kind, path, 1) for kind, path in ("a1", "b2", "a3")]
    results = [QueueCounts({"offered": 4}), LinesRead(0, 50, 5, 4), *files, LinesRead(0, 0, 7, 6, 4), QueueCounts({"offered": 3})]  # fmt: skip
    found = steps.loading_of(outcome, results, [log])
    assert outcome.queue == {"offered": 7} and found.files == {"a": [files[0], files[2]], "b": [files[1]]}
    assert (log.lines, log.parsed, found.lines_before) == (12, 10, {(0, 0): 100, (0, 50): 111})


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
        raise errors[-1]

    opened, errors = [], [DatabaseError("other columns"), sqlite3.OperationalError("read only")]
    monkeypatch.setattr(tables, "create_tables", fails)
    while errors:
        with pytest.raises(DatabaseError, match="cannot make tables|other columns"):
            steps.open_database(DatabaseUrl.sqlite(tmp_path / "m.db"))
        with pytest.raises(sqlite3.ProgrammingError):
            opened[-1].execute("SELECT 1")
        errors.pop()
    with pytest.raises(UserError, match="--top must be at least 1, got 0"):
        run([], top=0)
    with pytest.raises(UserError, match="--engine must be 'spark' or 'local', got 'threads'"):
        run([], engine="threads")


@pytest.mark.usefixtures("in_tokyo")
@pytest.mark.parametrize("late", [False, True])
def test_the_outcome_of_a_run_names_its_stages_and_each_log_also_if_the_digests_are_late(tmp_path, monkeypatch, late):
    monkeypatch.setattr("drainq.metrics.load.ROWS_A_BATCH", 2)
    closed, result, close = [], Digests.result, Digests.close
    monkeypatch.setattr(Digests, "result", lambda self, timeout=None: None if late and timeout else result(self))
    monkeypatch.setattr(Digests, "close", lambda self: closed.append(close(self)))
    old, new = (write(tmp_path / name, [*lines(20, seed), "odd", "odd"]) for seed, name in enumerate(("old", "new")))
    [digests, *_] = run([old], out=tmp_path / "out", engine="local").stages
    assert (digests.name, digests.items, digests.unit) == ("digest", 1, "log")
    found = run([old, new], out=tmp_path / "out", engine="local", top=2, max_bad=4.0)
    first, log = (21, "no 'client ident user [' at the start", "odd"), find(0, new)
    assert found.sources == [
        LogCounts(old, digest(find(0, old)), loaded_before=True, format=""),
        LogCounts(new, digest(log), lines=22, parsed=20, bad=2, first_bad=first, reasons={first[1]: 2}, format=""),
    ]
    said = f"2 of 22 lines of {{!r}} are bad, more than 4 %; the first is line 21: {first[1]} (read as common or combined): odd"
    assert found.complaints == [said.format(old), said.format(new)] and closed == [None] * 2
    read = [("read and aggregate (L1)", 44, "lines"), ("digest, the rest", 2, "logs")] if late else []
    assert [(stage.name, stage.items, stage.unit) for stage in found.stages] == [
        ("digest", 2, "logs"), *read, ("read and aggregate (L1)", 22, "lines"), ("load (L2)", 33, "rows"),
        ("report", 1, "page"),
    ]  # fmt: skip
    none = ("rejected_full", "rejected_closed", "rejected_would_deadlock", "failed", "unrouted", "dead_lettered")
    for counts, items in ((found.queue, 20 * 6 + 2 + 1), (found.l2, 29)):
        whole = dict.fromkeys(("offered", "accepted", "handled"), items)
        assert counts == {**whole, **dict.fromkeys((*none, "abandoned", "queued"), 0)}
    written = {
        "endpoint_minute": 10,
        "client_hour": 9,
        "service_minute": 3,
        "status_minute": 3,
        "top_endpoints": 2,
        "bad_lines": 2,
    }
    written |= dict.fromkeys(("user_agent_day", "referrer_day", "sources", "bad_reasons"), 1)
    assert found.written == written and found.parsed_in_tables == 20
    assert found.top == [("/e2", 14, 8149), ("/e0", 12, 3822)]
    with Database(f"sqlite:///{tmp_path}/out/metrics.db") as database:
        rows = database.execute("SELECT source, lines, parsed, bad, loaded_at FROM sources ORDER BY loaded_at, source")
    assert sorted(row[:4] for row in rows) == [(new, 22, 20, 2), (old, 22, 20, 2)]
    assert all(row[4].endswith("+00:00") for row in rows)


def test_a_task_asks_before_each_piece_of_its_blocks_whether_to_go_on(tmp_path):
    class Stop(Exception):
        """No more."""

    asked = []

    def check():
        asked.append(1)
        if len(asked) == 3:
            raise Stop

    line = b'1.2.3.4 - - [01/Jan/2025:00:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "-"\n'
    pieces = [SimpleNamespace(source="log", begin=0, format="combined", pieces=lambda: [line] * 2) for _ in range(5)]
    with pytest.raises(Stop):
        list(engine.task_function(tmp_path, TaskInfo(0, 0, 0, 0, 1), check)([pieces]))
    assert len(asked) == 3


def test_a_task_that_fails_ends_the_others_at_their_next_piece_and_no_more_begin(monkeypatch, tmp_path):
    begun, ended, both, let_go = [], [], threading.Event(), threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, **more):
            super().shutdown(**more)
            let_go.set()

    def task_function(spool, info, check):
        def function(tasks):
            begun.extend(tasks)
            if tasks == [0]:
                assert both.wait(60)
                raise OSError("the first fails")
            both.set()
            assert let_go.wait(60)
            try:
                check()
            except Interrupted as error:
                ended.append((*tasks, str(error)))
            return tasks

        return function

    monkeypatch.setattr(engine, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(engine, "task_function", task_function)
    runs = engine.InThreads(2)
    with pytest.raises(OSError, match="the first fails"):
        runs(range(5), tmp_path)
    assert sorted(begun) in ([0, 1], [0, 1, 2]), "two threads, of which one is free once the first task has failed"
    assert sorted(ended) == [(task, "interrupted; nothing was loaded") for task in sorted(begun)[1:]]
    assert runs.done() == (5, 5)
    runs._running[1:3] = [Future(), Future()]
    assert runs.done() == (3, 5)


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


class OfJava(Exception):
    """An error of Spark or Py4J."""

    __module__ = "pyspark.errors"


REASONS = [
    (KeyboardInterrupt(), Interrupted, "interrupted; nothing was loaded"),
    (UserError("it is no log"), UserError, "it is no log"),
    (MemoryError(), JobFailed, "memory came to its end; give Java more with --heap, or load fewer logs at once"),
    (KeyError("a value"), JobFailed, "KeyError"),
    (OfJava("no line of it\nnames an error"), JobFailed, "no line of it"),
    (OfJava('x\n  File "/tmp/a/b.py", line 7\nValueError: of a value'), JobFailed, "ValueError at b.py:7"),
    (OfJava("x\norg.apache.spark.SparkException: the disk is full\ny"), JobFailed,
     "org.apache.spark.SparkException: the disk is full"),
]  # fmt: skip


def test_a_job_that_fails_says_why_in_one_line_without_values(tmp_path):
    for error, kind, why in REASONS:

        def fails(tasks, spool, error=error):
            raise error

        told = why if kind is not JobFailed else f"the job failed, and nothing was loaded: {why}"
        with pytest.raises(kind) as failure:
            steps.results_of(fails, [], [], tmp_path)
        assert (type(failure.value), str(failure.value).partition(" at test_")[0]) == (kind, told)


def test_a_load_that_the_database_refuses_and_a_directory_that_is_a_file_are_named(database, tmp_path, monkeypatch):
    def refused(*_, **__):
        raise sqlite3.OperationalError("the disk is full")

    monkeypatch.setattr("drainq.metrics.load.write", refused)
    with pytest.raises(DatabaseError, match=r"metrics.db refused the load, nothing was written: OperationalError$"):
        steps.write_load(database, None, JobOutcome([]), top=3)
    (tmp_path / "out").touch()
    with pytest.raises(UserError) as no_directory:
        steps.make_directory(tmp_path / "out")
    told = f"cannot make the directory '{tmp_path}/out' (File exists); name another with --out"
    assert str(no_directory.value) == told
