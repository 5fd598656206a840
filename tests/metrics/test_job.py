"""The whole job, in threads and on Spark, from logs to tables."""

from __future__ import annotations

import gzip
import os
import signal
from collections import defaultdict
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from drainq.metrics import blocks, engine, steps
from drainq.metrics.errors import JobFailed, UserError
from drainq.metrics.handlers import MakeHandlers
from drainq.metrics.job import run
from drainq.metrics.log_files import Digests
from drainq.metrics.metric_types import RELATIVE_ERROR
from drainq.sql import Database, DatabaseError, DatabaseUrl
from tests.metrics.logs import contents, counted, lines, timed_lines, write
from tests.spark_session import by_value


@pytest.fixture
def job(tmp_path):
    """Runs the job in threads; the database is ``out/metrics.db`` in the test's directory."""

    def load(*logs, out="out", **more):
        outcome = run([str(log) for log in logs], out=tmp_path / out, **{"engine": "local", **more})
        assert outcome.reconciled, outcome
        return outcome

    return load


@pytest.fixture
def on_spark(spark, job):
    """Return the same on the shared Spark."""
    return lambda *logs, **more: job(*logs, engine="spark", context=spark.sparkContext, **more)


@pytest.fixture
def small_blocks(monkeypatch):
    """Logs are cut into many blocks and pieces."""
    monkeypatch.setattr(blocks, "BLOCK", 300_000)
    monkeypatch.setattr(blocks, "PIECE", 70_000)


@pytest.fixture(scope="module")
def loaded(real_log, tmp_path_factory):
    """Return the real log in SQLite, read in many small blocks: (outcome, url)."""
    out = tmp_path_factory.mktemp("real")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", 300_000)
        outcome = run([str(real_log)], out=out, engine="local")
    assert outcome.reconciled
    return outcome, DatabaseUrl.sqlite(out / "metrics.db")


def test_every_row_of_the_real_log_equals_an_independent_count(loaded, real_log):
    outcome, url = loaded
    endpoints, statuses, _ = counted(real_log)
    with Database(url) as database:
        found = {
            (e, m): counts
            for e, m, *counts in database.execute(
                "SELECT endpoint, minute, requests, bytes, errors FROM endpoint_minute"
            )
        }
        assert {key: tuple(counts) for key, counts in found.items()} == endpoints
        assert {
            (s, m): n for s, m, n in database.execute("SELECT status, minute, requests FROM status_minute")
        } == statuses
    assert (outcome.lines, outcome.parsed, outcome.bad) == (10_000, 9_999, 1)


def test_the_one_truncated_line_is_kept_with_its_number_and_a_reason(loaded, real_log):
    _, url = loaded
    numbers = counted(real_log)[2]
    with Database(url) as database:
        ((source, number, line, reason),) = database.execute("SELECT source, line_number, line, reason FROM bad_lines")
    assert (source, [number], reason) == (str(real_log), numbers, "cut off in the user agent")
    assert line == real_log.read_text().split("\n")[number - 1]


def test_the_queues_counted_every_record_once_per_type(loaded):
    outcome, _ = loaded
    metrics = 6 * outcome.parsed  # the log has no latencies
    counts_of_lines = outcome.queue["offered"] - metrics - outcome.bad
    assert counts_of_lines >= 2, "one per block at least, and the log has more than one block"
    assert outcome.queue["handled"] == outcome.queue["offered"]


def test_each_table_adds_up_to_the_same_requests(loaded):
    _, url = loaded
    with Database(url) as database:
        for table in (
            "service_minute",
            "endpoint_minute",
            "status_minute",
            "client_hour",
            "user_agent_day",
            "referrer_day",
        ):
            assert database.execute(f"SELECT SUM(requests) FROM {table}") == [(9_999,)], table


def test_the_top_is_exact_and_ties_are_by_name(loaded):
    outcome, url = loaded
    totals = defaultdict(lambda: [0, 0])
    with Database(url) as database:
        for endpoint, requests, size in database.execute("SELECT endpoint, requests, bytes FROM endpoint_minute"):
            totals[endpoint][0] += requests
            totals[endpoint][1] += size
        expected = sorted(((e, *counts) for e, counts in totals.items()), key=lambda row: (-row[1], row[0].encode()))[
            :10
        ]
        assert (
            database.execute("SELECT endpoint, requests, bytes FROM top_endpoints ORDER BY rank")
            == expected
            == outcome.top
        )


def test_postgresql_holds_the_same_as_sqlite(loaded, job, real_log, postgres_database):
    _, url = loaded
    job(real_log, database=DatabaseUrl.parse(postgres_database))
    assert contents(postgres_database) == contents(url)


def test_logs_that_are_read_before_their_digests_are_known_are_counted_each_by_itself(
    job, real_log, tmp_path, monkeypatch
):
    timed = write(tmp_path / "timed.log", lines(9_000, seed=8))
    job(timed, real_log, out="usual")
    result = Digests.result
    monkeypatch.setattr(Digests, "result", lambda self, timeout=None: None if timeout else result(self))
    job(timed, real_log, out="slow")
    usual, slow = (contents(f"sqlite:///{tmp_path}/{out}/metrics.db", raw=True) for out in ("usual", "slow"))
    assert slow == usual and [row[0] for row in slow["bad_lines"]] == [str(real_log)]


def test_spark_and_threads_give_the_same_to_the_last_bit(on_spark, job, real_log, tmp_path, small_blocks):
    timed = write(tmp_path / "timed.log", lines(9_000, seed=8))
    on_spark(real_log, timed)
    job(real_log, timed, out="local")
    found = contents(f"sqlite:///{tmp_path}/out/metrics.db", raw=True)
    assert any(row[-1] for row in found["endpoint_minute"])
    assert found == contents(f"sqlite:///{tmp_path}/local/metrics.db", raw=True)


def test_gzip_gives_the_same_and_is_known_again_by_its_content(loaded, job, real_log, tmp_path):
    _, url = loaded
    packed = tmp_path / "older.log.2.gz"
    packed.write_bytes(
        gzip.compress(real_log.read_bytes()[: 1 << 20]) + gzip.compress(real_log.read_bytes()[1 << 20 :])
    )
    job(packed)
    here = f"sqlite:///{tmp_path}/out/metrics.db"
    found, expected = contents(here, sources=False), contents(url, sources=False)
    for table in ("bad_lines", "bad_reasons"):
        assert found.pop(table)[0][1:] == expected.pop(table)[0][1:]  # only the source's name differs
    assert found == expected
    again = job(real_log)
    assert again.sources[0].loaded_before and again.lines == 0
    assert contents(here, sources=False)["service_minute"] == expected["service_minute"]


@pytest.mark.system
def test_a_killed_worker_changes_nothing(loaded, on_spark, real_log, tmp_path, monkeypatch, small_blocks):
    _, url = loaded
    by_value(__name__)
    marks = tmp_path / "killed"
    marks.mkdir()
    monkeypatch.setattr(engine, "MakeHandlers", lambda spool: killing(spool, str(marks)))
    on_spark(real_log)
    assert [mark.name for mark in marks.iterdir()] == ["attempt-0"]
    assert contents(f"sqlite:///{tmp_path}/out/metrics.db") == contents(url)


def killing(spool, marks):
    """Handlers of which one kills the worker after it has consumed something, at the first attempt."""

    def make(info):
        handlers = MakeHandlers(spool)(info)
        victim = next(iter(handlers.values()))
        consume = victim.consume

        def consume_and_die(batch):
            consume(batch)
            if info.attempt == 0 and info.partition == 0:
                Path(marks, "attempt-0").touch()
                os.kill(os.getpid(), signal.SIGKILL)

        victim.consume = consume_and_die
        return handlers

    return make


@pytest.mark.parametrize("where", ["job", "on_spark"])
def test_a_handler_that_always_fails_loads_nothing_and_says_why(where, request, tmp_path, monkeypatch):
    by_value(__name__)
    monkeypatch.setattr(engine, "MakeHandlers", failing)
    log = write(tmp_path / "a.log", lines(10))
    with pytest.raises(JobFailed, match="the job failed, and nothing was loaded: RuntimeError at test_job.py:"):
        request.getfixturevalue(where)(log)
    found = contents(f"sqlite:///{tmp_path}/out/metrics.db")
    assert found and not any(found.values())


def failing(spool):
    def make(info):
        handlers = MakeHandlers(spool)(info)

        def consume(batch):
            raise RuntimeError("this handler fails")

        next(iter(handlers.values())).consume = consume
        return handlers

    return make


def test_the_end_of_memory_is_one_sentence(job, tmp_path, monkeypatch):
    monkeypatch.setattr("drainq.metrics.engine.InThreads.__call__", out_of_memory)
    with pytest.raises(JobFailed, match="memory came to its end; give Java more with --heap, or load fewer logs"):
        job(write(tmp_path / "a.log", ["x"]))


def out_of_memory(self, tasks, spool):
    raise MemoryError("Unable to allocate 3 GiB")  # as NumPy does


def test_tables_of_another_making_are_refused(job, tmp_path):
    with Database(f"sqlite:///{tmp_path}/old.db") as database:
        database.execute("CREATE TABLE endpoint_minute (endpoint TEXT, minute TEXT, requests INTEGER)")
    log = write(tmp_path / "a.log", lines(5))
    with pytest.raises(DatabaseError, match="'endpoint_minute' in .* is not as this version makes it"):
        job(log, database=DatabaseUrl.sqlite(tmp_path / "old.db"))


def test_logs_loaded_one_after_the_other_or_together_give_the_same(job, tmp_path):
    lines = timed_lines(3_000, seed=2)
    parts = [write(tmp_path / f"{part}.log", [line for *_, line in lines[part::2]]) for part in range(2)]
    job(*parts, out="together")
    job(parts[0], out="apart")
    job(parts[1], out="apart")
    apart = contents(f"sqlite:///{tmp_path}/apart/metrics.db")
    assert apart == contents(f"sqlite:///{tmp_path}/together/metrics.db")
    exact = defaultdict(list)
    for endpoint, minute, seconds, _ in lines:
        exact[endpoint, f"2026-01-01T10:{minute:02d}:00Z"].append(1000 * seconds)
    assert len(apart["endpoint_minute"]) == len(exact) == 12
    for endpoint, minute, requests, _, _, *found, _ in apart["endpoint_minute"]:
        ordered = sorted(exact[endpoint, minute])
        assert requests == len(ordered)
        for percent, milliseconds in zip((50, 90, 99), found):
            assert milliseconds == pytest.approx(
                ordered[-(-len(ordered) * percent // 100) - 1], rel=RELATIVE_ERROR * 1.001
            )


def test_a_second_load_adds_to_the_first_in_postgresql_too(job, tmp_path, postgres_database):
    url = DatabaseUrl.parse(postgres_database)
    lines = timed_lines(900, seed=9)
    for part in range(2):
        log = write(tmp_path / f"{part}.log", [line for *_, line in lines[part::2]])
        job(log, database=url)
        job(log)
    assert contents(url) == contents(f"sqlite:///{tmp_path}/out/metrics.db")
    with Database(url) as database:
        keys = database.execute(
            "SELECT count(*) FROM pg_constraint WHERE contype = 'p' AND conrelid::regclass::text ~ '_minute$'"
        )
        assert keys == [(3,)]


def test_a_log_named_twice_counts_once(job, tmp_path):
    log = write(tmp_path / "a.log", lines(50, seed=3))
    outcome = job(log, log)
    assert [source.loaded_before for source in outcome.sources] == [False, True]
    assert outcome.lines == 50


def test_an_empty_log_is_a_log_without_lines(job, tmp_path):
    empty, packed = tmp_path / "empty.log", tmp_path / "packed.gz"
    empty.touch()
    packed.write_bytes(gzip.compress(b""))
    assert job(empty).lines == 0
    assert job(packed).sources[0].loaded_before  # the same content
    full = write(tmp_path / "full.log", lines(5, seed=4))
    assert job(full, empty).lines == 5
    assert job(packed, out="other").lines == 0
    assert len(contents(f"sqlite:///{tmp_path}/other/metrics.db")["sources"]) == 1


def test_every_kind_of_bad_line_is_kept_with_its_number(job, tmp_path):
    good = timed_lines(1, seed=5)[0][-1].encode()
    log = tmp_path / "mixed.log"
    log.write_bytes(
        b"\n".join([good, b"", good + b"\r", b"\xff\x00nonsense", good[:-20], good.replace(b"/e", b"/\xe9"), b"last"])
    )
    outcome = job(log)
    assert (outcome.lines, outcome.parsed, outcome.bad) == (7, 3, 4)
    found = contents(f"sqlite:///{tmp_path}/out/metrics.db")["bad_lines"]
    assert sorted((number, line) for _, number, line, _ in found) == [
        (2, ""), (4, "\\xff\\x00nonsense"), (5, good[:-20].decode()), (7, "last"),
    ]  # fmt: skip


def test_of_many_bad_lines_the_first_are_kept_and_all_are_counted_by_reason(job, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 9_000)
    monkeypatch.setattr(blocks, "PIECE", 500)
    good, late = lines(1)[0], lines(1)[0].replace("01/Jan", "31/Feb")
    rows = [("rubbish", good, late, "")[number % 4] for number in range(6_000)]
    other = write(tmp_path / "other.log", ["rubbish"] * 1_100)
    outcome = job(write(tmp_path / "a.log", rows), other)
    begin = "no 'client ident user [' at the start"
    assert (outcome.parsed, outcome.bad, outcome.sources[0].first_bad) == (1_500, 5_600, (1, begin, "rubbish"))
    found = contents(f"sqlite:///{tmp_path}/out/metrics.db")
    kept = [number for number, row in enumerate(rows, 1) if row != good][:1_000]
    assert sorted(row[1] for row in found["bad_lines"] if row[0] != other) == kept
    assert sorted(row[1] for row in found["bad_lines"] if row[0] == other) == [*range(1, 1_001)]
    counts = [(begin, 1_500), ("empty line", 1_500), ("no such time", 1_500)]
    assert found["bad_reasons"] == [*((str(tmp_path / "a.log"), *each) for each in counts), (other, begin, 1_100)]


def test_the_same_hostile_bytes_are_the_same_in_postgresql(job, tmp_path, postgres_database):
    good = timed_lines(1, seed=5)[0][-1].encode()
    log = tmp_path / "hostile.log"
    paths = [
        b"/\xff\x00",
        b"/" + b"x" * 9_000,
        b"/" + b"x" * 9_001,
        b"/'; DROP TABLE sources; --",
        "/\u00e4\U0001f980".encode(),
        b"/%s%%(a)s?",
    ]
    log.write_bytes(b"\n".join([*(good.replace(b"/e", path, 1) for path in paths), b"\x00" * 20_000]))
    outcome = job(log, database=DatabaseUrl.parse(postgres_database))
    job(log)
    found = contents(postgres_database)
    assert found == contents(f"sqlite:///{tmp_path}/out/metrics.db")
    assert len(found["endpoint_minute"]) == len(paths) == outcome.parsed and outcome.bad == 1


HOSTILE_NAMES = [
    "_hidden",
    ".hidden",
    "a,b",
    "a b",
    "[x]*?{y}",
    "a:b",
    "50%25.log",
    "new\nline",
    "\u00e4.log",
    "looks.gz",
    "-rf",
]


def test_any_file_name_is_read(on_spark, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    for place, name in enumerate(HOSTILE_NAMES):
        write(logs / name, lines(2, seed=100 + place))
    outcome = on_spark(*(logs / name for name in HOSTILE_NAMES), out="out [*]?#%20")
    assert [(source.path, source.lines) for source in outcome.sources] == [
        (str(logs / name), 2) for name in HOSTILE_NAMES
    ]


@pytest.mark.parametrize("mode", ["a", "r+"], ids=["appended", "overwritten"])
def test_a_log_that_changes_while_it_is_read_is_not_loaded(job, tmp_path, monkeypatch, mode):
    log = write(tmp_path / "live.log", lines(5, seed=6))
    os.utime(log, (0, 0))  # long ago: the clock of files may stand still between two writes
    whole = steps.results_of

    def read_and_write(*arguments):
        with open(log, mode) as file:
            file.write("one more line\n")
        return whole(*arguments)

    monkeypatch.setattr(steps, "results_of", read_and_write)
    with pytest.raises(UserError, match="changed while it was read"):
        job(log)
    assert not any(contents(f"sqlite:///{tmp_path}/out/metrics.db").values())


def test_ctrl_c_after_the_commit_does_not_say_that_nothing_was_loaded(job, tmp_path, monkeypatch, ctrl_c):
    log = write(tmp_path / "a.log", lines(5, seed=8))
    load = steps.write_load

    def load_and_interrupt(*arguments):
        load(*arguments)
        ctrl_c()

    monkeypatch.setattr(steps, "write_load", load_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        job(log)
    assert sum(row[1] for row in contents(f"sqlite:///{tmp_path}/out/metrics.db")["service_minute"]) == 5


def test_a_log_that_another_run_loads_meanwhile_is_not_counted_twice(job, tmp_path, monkeypatch):
    log = write(tmp_path / "a.log", lines(5, seed=7))
    whole = steps.results_of

    def read_while_another_loads(*arguments):
        monkeypatch.setattr(steps, "results_of", whole)
        job(log)
        return whole(*arguments)

    monkeypatch.setattr(steps, "results_of", read_while_another_loads)
    with pytest.raises(UserError, match="loaded by another run"):
        job(log)
    assert sum(row[1] for row in contents(f"sqlite:///{tmp_path}/out/metrics.db")["service_minute"]) == 5
