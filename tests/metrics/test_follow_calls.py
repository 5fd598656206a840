"""Following as a whole: what it refuses, what it asks of Spark, what it shows while it waits, and its rows."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from types import SimpleNamespace
from unittest.mock import MagicMock, call

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pygal")

from drainq.metrics.engine import InThreads
from drainq.metrics.errors import JobFailed, UserError
from drainq.metrics.follow import run as run_module
from drainq.metrics.follow import tail as tail_module
from drainq.metrics.follow.counted import GONE, Counted, Memory
from drainq.metrics.follow.file_stream import FileStream
from drainq.metrics.follow.rounds import Rounds
from drainq.metrics.follow.run import Ending, follow
from drainq.metrics.follow.tail import Appended, Grown, Tail
from drainq.metrics.outcome import JobOutcome, LogCounts, Stage
from drainq.metrics.progress import Progress
from drainq.sql import DatabaseUrl
from tests.metrics.following import Steps
from tests.metrics.logs import lines, write

# A file of drainq that is left open is an error.
pytestmark = pytest.mark.filterwarnings("error:unclosed file <_io.BufferedReader name='.*a.log:ResourceWarning")


@pytest.mark.parametrize(
    ("path", "engine", "said"),
    [
        ("a.log", "spark", "--engine spark cannot follow the file 'a.log'; leave --engine out, or follow a directory"),
        ("a.log", "threads", "--engine must be 'spark' or 'local', got 'threads'"),
        (".", "threads", "--engine must be 'spark' or 'local', got 'threads'"),
        ("no/a.log", None, "there is no directory 'no' to follow; check the name"),
    ],
)
def test_what_cannot_be_followed_is_refused_before_anything_is_made(tmp_path, monkeypatch, path, engine, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as refused:
        follow(path, engine=engine, ended=Steps(), out="out")
    assert str(refused.value) == said and os.listdir(tmp_path) == []


def test_a_log_that_cannot_be_read_is_named_with_the_reason(tmp_path, following, monkeypatch):
    refused = MagicMock(side_effect=PermissionError(13, "Permission denied"))
    monkeypatch.setattr(tail_module, "open", refused, raising=False)
    with pytest.raises(UserError, match=f"^cannot read the log {write(tmp_path / 'a.log', [])!r}: Permission denied$"):
        following(tmp_path / "a.log")


def test_a_relative_log_is_followed_in_the_directory_of_the_process_and_its_files_are_closed(
    tmp_path, following, monkeypatch
):
    closed, close = [], Tail.close
    monkeypatch.setattr(Tail, "close", lambda self: closed.extend([close(self), *(e.file.closed for e in self._open)]))
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    write(real / "a.log", lines(3))
    monkeypatch.chdir(link)
    [counts] = following("a.log").outcome.sources
    assert (counts.path, counts.lines, closed) == ("a.log", 3, [None, True])
    assert following.ask("SELECT directory, name FROM followed") == [(str(real), "a.log")]


@pytest.mark.parametrize("engine", [None, "spark"])
def test_a_directory_is_followed_on_a_spark_of_its_own_which_is_asked_for_what_is_missing_first(
    tmp_path, logs, monkeypatch, engine
):
    asked, loads = [], []
    paths = [write(logs / "a.log", lines(3)), write(logs / "b.log", lines(5, 2))]

    class Stream:
        def __init__(self, context, directory, load):
            asked.append(("stream", context, directory))
            self.take = lambda sources: asked.append([source.path for source in sources]) or (sources and load(sources))

        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda self, *_: asked.append("stream ends")  # noqa: E731

    class Launch:
        def __init__(self, settings, log, **more):
            asked.append((settings, log, more))

        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda self, *_: None  # noqa: E731
        context = lambda self: "the context"  # noqa: E731
        stop = lambda self: asked.append("spark stops")  # noqa: E731

    monkeypatch.setattr(run_module, "Launch", Launch)
    monkeypatch.setattr(run_module, "quiet_py4j", lambda: contextlib.nullcontext(asked.append("quiet")))
    monkeypatch.setattr(run_module, "settings_for", lambda *given, conf: (*given, conf))
    monkeypatch.setattr("drainq.metrics.follow.file_stream.FileStream", Stream)
    monkeypatch.setattr("drainq.metrics.engine.OnSpark", lambda context: context)
    monkeypatch.setattr(Rounds, "load_files", lambda self, *given: loads.append((self._top, given[0])))
    monkeypatch.setattr("drainq.metrics.report.write_report", lambda *given: asked.append(given[1:]))
    url = DatabaseUrl.sqlite(tmp_path / "other.db")
    found = follow(
        str(logs),
        database=url,
        engine=engine,
        master="local[2]",
        heap="1g",
        conf={"spark.x": "y"},
        use_archive=False,
        top=4,
        settled=0,
        ended=Steps(),
        out=tmp_path / "out",
    )
    out = tmp_path / "out"
    assert (tmp_path / "other.db").exists() and not (out / "metrics.db").exists()
    assert asked == [
        (("local[2]", out, "1g", {"spark.x": "y"}), out / "spark.log", {"use_archive": False}), "quiet", ("stream", "the context", out / "follow"), [],
        paths, "stream ends", "spark stops", (out / "report.html", found.outcome),
    ]  # fmt: skip
    assert loads == [(4, "the context")]


@pytest.mark.parametrize("error", [JobFailed("Java ended"), OSError("gone"), ValueError("other")], ids=repr)
@pytest.mark.parametrize("signalled", [True, False])
def test_a_round_that_fails_is_forgiven_if_a_signal_ended_java_too(error, signalled):
    waits, shown = [], []

    def rounds():
        yield ", 2 files wait"
        raise error

    def wait(seconds):
        waits.append(seconds)
        return signalled and len(waits) == 2

    progress = SimpleNamespace(during=lambda text: shown.append(text) or contextlib.nullcontext())
    made, counts = rounds(), SimpleNamespace(outcome=JobOutcome([LogCounts("d", "", lines=12_345, parsed=1)]))
    forgiven = signalled and not isinstance(error, ValueError)
    with contextlib.nullcontext() if forgiven else pytest.raises(type(error)):
        run_module._until_ended(made, SimpleNamespace(wait=wait), 7.5, progress, "d", counts)
    assert waits == ([7.5] if isinstance(error, ValueError) else [7.5, 1.0])
    assert shown == ["following d: 12,345 lines counted, 2 files wait"]


def test_sigterm_is_handled_as_before_once_the_following_has_ended(monkeypatch):
    handlers = ["before"]
    monkeypatch.setattr(run_module.signal, "signal", lambda number, new: (handlers.append(new), handlers[-2])[1])
    with Ending() as ended:
        assert not ended.wait(0)
        handlers[-1](15, None)
        assert ended.wait(60)
    assert handlers[0] == handlers[2] == "before" and len(handlers) == 3


def test_the_query_reads_one_announcement_at_a_time_and_none_a_second_time(tmp_path, monkeypatch):
    session = MagicMock()
    monkeypatch.setattr("pyspark.sql.SparkSession", lambda context: session)
    stream = FileStream("a context", tmp_path / "a[b]", print)
    announced, checkpoint = tmp_path / "a[b]/announced", tmp_path / "a[b]/checkpoint"
    reads = call.readStream.format("text").option("maxFilesPerTrigger", 1).option("maxFileAge", "36500d")
    loads = reads.option("cleanSource", "delete").load(str(announced).replace("[", "\\[").replace("]", "\\]"))
    writes = loads.writeStream.foreachBatch(stream._each).option("checkpointLocation", str(checkpoint))
    starts = writes.queryName("drainq-follow").start()
    assert announced.is_dir()
    assert session.mock_calls == [call.conf.set("spark.sql.streaming.minBatchesToRetain", "10"), *starts.call_list()]


def test_the_stages_of_a_following_are_those_of_all_its_rounds(database, logs):
    path = logs / "a.log"
    write(path, lines(4))
    clock = iter(range(0, 1000, 10)).__next__
    rounds = Rounds(database, Memory(database, str(logs)), str(path), top=1, clock=clock)
    for inode, ranked in ((4, 1), (6, 1), (8, 2)):  # a round takes 30 seconds
        grown = Grown(str(path), Counted(str(logs), str(inode), "a.log"), path.read_bytes(), 1, "h", "")
        rounds.load_appended(InThreads(), [grown])
        assert rounds.outcome.written["top_endpoints"] == ranked
    rounds.end()
    assert rounds.outcome.written["top_endpoints"] == 1
    rows = sum(rounds.outcome.written.values())
    assert rounds.outcome.stages == [
        Stage("read and aggregate (L1)", 12, "lines", 30), Stage("load (L2)", rows, "rows", 30)
    ]  # fmt: skip
    assert rounds.outcome.reconciled and rounds.outcome.l2["offered"] == rounds.outcome.l2["handled"] > 0
    assert len(rounds.outcome.top) == 1


# --- the rows


def test_lines_are_cut_into_tasks_and_pieces_of_whole_lines(monkeypatch):
    monkeypatch.setattr(tail_module, "TASK", 8)
    monkeypatch.setattr(tail_module, "PIECE", 3)
    data = b"ab\ncdefgh\ni\n\njk\nl"
    tasks = Grown("p", Counted("d", "1", "p", bytes=100), data, 1, "h", "", "f").tasks(3)
    assert tasks == [
        (Appended(3, 100, b"ab\ncdefgh\n", "f"),), (Appended(3, 110, b"i\n\njk\nl", "f"),)
    ]  # fmt: skip
    assert [list(task.pieces()) for (task,) in tasks] == [[b"ab\n", b"cdefgh\n"], [b"i\n\n", b"jk\n", b"l"]]


def test_appended_lines_are_read_about_so_many_bytes_at_a_time_and_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(tail_module, "MOST", 4)
    (tmp_path / "a.log").write_bytes(b"ab\ncd\nefghij\nno end")
    with open(tmp_path / "a.log", "rb") as file:
        found = [tail_module._appended(file, begin, 19) for begin in (0, 3, 6, 13)]
    assert found == [b"ab\n", b"cd\n", b"efghij\n", b""]


def test_a_row_says_what_is_counted_of_its_file(following, logs):
    log, old, gone = (logs / name for name in ("a.log", "a.log.1", "a.log.2"))

    def row(path, data, *counts, sha256="", inode=None):
        head = hashlib.sha256(data[:1024]).hexdigest()
        return (str(logs), str(inode or path.stat().st_ino), path.name, len(data), 7, *counts, head, sha256)

    def append(path, text):
        with path.open("a") as file:
            file.write(text)
        os.utime(path, ns=(7, 7))
        return path.read_bytes()

    def rows():
        return following.ask("SELECT * FROM followed ORDER BY lines DESC")

    first = append(log, "\n".join([*lines(29), "noise", ""]))
    following(log)
    assert rows() == [row(log, first, 30, 29, 1)]
    log.rename(old)
    whole = append(old, "\n".join([lines(1, 2)[0], "noise", lines(1, 3)[0]]))  # the last line does not end
    second = append(log, f"{lines(1, 4)[0]}\n")
    assert following(log, following.later).uncounted == []
    ended = hashlib.sha256(whole).hexdigest()
    assert rows() == [row(old, whole, 33, 31, 2, sha256=ended), row(log, second, 1, 1, 0)]
    [(*source, at)] = following.ask("SELECT * FROM sources")
    assert (source, len(at), at[-6:]) == ([ended, str(old), 33, 31, 2], 25, "+00:00")
    inode = log.stat().st_ino
    append(log, f"{lines(1, 5)[0]}\n")
    log.rename(gone)
    third = append(log, "\n".join([*lines(2, 6), ""]))
    gone.unlink()
    said = (
        f"{str(log)!r} was rotated while it was not followed, and the old file is gone; "
        f"what was appended to it after byte {len(second)} is not counted"
    )
    assert following(log).uncounted == following.said == [said]
    lost = row(log, second, 1, 1, 0, sha256=GONE, inode=inode) if log.stat().st_ino != inode else None
    assert [found for found in rows() if found[5] != 33] == [row(log, third, 2, 2, 0), *([lost] if lost else [])]
    assert following(log).uncounted == [] and len(following.ask("SELECT * FROM sources")) == 1


def test_a_log_that_was_truncated_while_nobody_followed_is_counted_from_its_new_beginning(following, logs):
    write(logs / "a.log", lines(40))
    size = (logs / "a.log").stat().st_size
    following(logs / "a.log")
    shutil.copy(logs / "a.log", logs / "a.log.1")
    write(logs / "a.log", lines(2, 1))
    assert (following(logs / "a.log").uncounted, following.requests()) == ([], 42)
    assert following.said == [
        f"{str(logs / 'a.log')!r} was truncated after byte {size:,} was counted, and is counted from its new beginning; "
        "lines that were written shortly before that may be missing"
    ]
    assert following.ask("SELECT lines, parsed FROM followed") == [(2, 2)]


def test_while_a_directory_is_followed_the_files_that_wait_are_shown(following, logs):
    shown, stream = [], SimpleNamespace(isatty=lambda: True, flush=lambda: None, write=lambda text: shown.append(text))
    (logs / "half.log").write_text("no end")
    os.utime(write(logs / "young.log", lines(1)), (following.now, following.now))
    write(logs / "a.log", lines(2))
    following(logs, lambda: os.remove(logs / "young.log"), progress=Progress(stream))
    begin = f"\r\x1b[Kfollowing {logs}: 2 lines counted"
    assert shown == [f"{begin}, 1 files wait", "\r\x1b[K", begin, "\r\x1b[K"]
