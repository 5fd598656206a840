"""Following a directory: finished files are counted once, and every uncounted file is named."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pygal")

from drainq.metrics.errors import UserError
from drainq.metrics.job import run
from tests.metrics.following import Following
from tests.metrics.logs import contents, lines, write


def test_the_tables_are_those_of_the_command_over_the_same_logs(following, logs, tmp_path):
    names = [write(logs / f"{n}.log", [*lines(400, n), "no log line"]) for n in range(3)]
    late = tmp_path / "late.log"
    write(late, lines(300, 9))
    found = following(logs, lambda: late.rename(logs / "late.log"))
    assert found.outcome.reconciled and found.uncounted == [] and found.files == 4
    assert (found.outcome.lines, found.outcome.parsed, found.outcome.bad) == (1503, 1500, 3)
    run([*names, str(logs / "late.log")], out=tmp_path / "whole", engine="local")
    assert contents(following.url) == contents(f"sqlite:///{tmp_path}/whole/metrics.db")


def test_what_was_counted_is_not_counted_again_by_the_next_command(following, logs):
    write(logs / "a.log", lines(100, 1))
    assert following(logs).outcome.lines == 100
    write(logs / "b.log", lines(50, 2))
    again = following(logs)
    assert (again.outcome.lines, following.requests(), following.said) == (50, 150, [])


def test_the_same_content_under_another_name_is_counted_once(following, logs):
    write(logs / "access.log.1", lines(100, 1))

    def rotate() -> None:
        content = (logs / "access.log.1").read_bytes()
        (logs / "access.log.2.gz").write_bytes(gzip.compress(content))
        (logs / "access.log.1").rename(logs / "access.log.3")
        shutil.copy(logs / "access.log.3", logs / "copy")

    found = following(logs, rotate)
    assert (found.outcome.lines, following.requests(), following.said) == (100, 100, [])
    assert len(following.ask("SELECT * FROM sources")) == 1
    assert run([str(logs / "copy")], out=following.out, engine="local").sources[0].loaded_before


def test_a_file_that_is_being_written_is_counted_when_it_has_settled(following, logs):
    log = logs / "a.log"

    def append(number: int, age: float) -> None:
        with open(log, "a") as file:
            file.writelines(f"{line}\n" for line in lines(10, number))
        os.utime(log, (following.now - age, following.now - age))

    append(0, age=1)
    found = following(logs, lambda: append(1, age=1), lambda: append(2, age=1), following.later)
    assert (found.outcome.lines, following.requests(), found.uncounted) == (30, 30, [])
    assert following.said == [f"{str(log)!r} is being written; it is counted after 10 s without a change"]


def test_a_half_written_last_line_is_waited_for(following, logs):
    log = logs / "a.log"
    log.write_text("\n".join(lines(10, 1)))

    def complete() -> None:
        with open(log, "a") as file:
            file.write("\n")

    found = following(logs)
    assert following.requests() == 0 and len(found.uncounted) == 1
    assert "looks half-written, for its last line has no line end" in following.said[0]
    assert following(logs, complete, following.later).uncounted == []
    assert following.requests() == 10


def test_a_file_that_grew_after_it_was_counted_is_refused_with_a_word_and_once(following, logs):
    log = logs / "a.log"
    write(log, lines(10, 1))
    size = log.stat().st_size

    def grow() -> None:
        with open(log, "a") as file:
            file.write(lines(1, 2)[0] + "\n")

    found = following(logs, grow, grow, following.later)
    assert following.said == found.uncounted and len(found.uncounted) == 1
    assert f"{str(log)!r} changed after it was counted, when it had {size:,} bytes" in following.said[0]
    assert following.requests() == 10
    assert following(logs).uncounted == found.uncounted, "the next command knows it too"


def test_a_file_that_was_touched_is_the_same_file_and_one_that_was_edited_is_refused(following, logs):
    log = logs / "a.log"
    write(log, lines(50, 1))
    assert following(logs, lambda: os.utime(log, (1, 1))).uncounted == []
    text = log.read_text()
    log.write_text(text[:-2] + ("2" if text[-2] == "1" else "1") + "\n")
    assert len(following(logs).uncounted) == 1
    assert following.requests() == 50


def test_a_new_file_with_the_inode_of_an_old_one_is_a_new_file(following, logs):
    write(logs / "a.log", lines(10, 1))
    found = following(logs, lambda: write(logs / "a.log", lines(20, 2)))
    assert (found.outcome.lines, found.uncounted) == (30, [])


def test_a_cut_off_gzip_file_is_left_out_until_it_is_whole(following, logs):
    whole = gzip.compress("".join(f"{line}\n" for line in lines(1000, 1)).encode())
    log = logs / "a.log.gz"
    log.write_bytes(whole[: len(whole) // 2])
    write(logs / "b.log", lines(10, 2))
    found = following(logs, lambda: None)
    assert (found.outcome.lines, len(found.uncounted), len(following.said)) == (10, 1, 1)
    assert "is no complete gzip file" in following.said[0]
    log.write_bytes(whole)
    assert following(logs).uncounted == []
    assert following.requests() == 1010


def test_names_that_say_unfinished_other_kinds_and_empty_files_are_left_alone(following, logs):
    for name in (".a.log.x7", "_a.log"):
        write(logs / name, lines(10, 1))
    (logs / "nested").mkdir()
    os.mkfifo(logs / "pipe")
    (logs / "empty.log").touch()
    write(logs / "a:b [1]*%25.log", lines(5, 2))
    found = following(logs)
    assert (found.outcome.lines, found.files, following.said) == (5, 1, [])


def test_an_empty_directory_is_waited_in(following, logs):
    found = following(logs, lambda: None, lambda: None)
    assert (found.outcome.lines, found.outcome.reconciled, found.uncounted) == (0, True, [])


def test_a_file_and_a_directory_without_the_right_to_read_are_named(following, logs):
    if os.geteuid():
        pytest.skip("only root can give up its rights for a moment")
    write(logs / "warm.log", lines(1, 1))
    following(logs)  # all modules are imported with the right to read them
    with tempfile.TemporaryDirectory(dir="/tmp") as scratch:
        os.chmod(scratch, 0o777)
        following = Following(Path(scratch))
        logs = Path(scratch, "logs")
        logs.mkdir()
        write(logs / "a.log", lines(10, 1))
        write(logs / "b.log", lines(5, 2))
        os.chmod(logs / "a.log", 0)
        os.seteuid(65534)
        try:
            found = following(logs, lambda: None)
            assert (found.outcome.lines, len(found.uncounted)) == (5, 1)
            assert following.said == [f"cannot read the log {str(logs / 'a.log')!r}: Permission denied"]
            with pytest.raises(UserError, match="cannot read the directory"):
                following(logs, lambda: (os.seteuid(0), os.chmod(logs, 0), os.seteuid(65534)))
        finally:
            os.seteuid(0)
            os.chmod(logs, 0o700)


def test_a_file_that_changes_while_it_is_read_is_counted_later(following, logs, monkeypatch):
    from drainq.metrics import engine

    log = logs / "a.log"
    write(log, lines(10, 1))
    whole = engine.InThreads.__call__

    def read_and_append(self, tasks, spool):
        monkeypatch.setattr(engine.InThreads, "__call__", whole)
        with open(log, "a") as file:
            file.write(lines(1, 2)[0] + "\n")
        return whole(self, tasks, spool)

    monkeypatch.setattr(engine.InThreads, "__call__", read_and_append)
    found = following(logs, lambda: None)
    assert (found.outcome.lines, following.requests(), found.uncounted) == (11, 11, [])


def test_on_spark_a_directory_gives_the_same_and_what_spark_does_again_changes_nothing(
    following, logs, spark, tmp_path
):
    names = [
        write(logs / name, lines(200, place)) for place, name in enumerate(["a.log", "b:c [x]*{y}%25.log", "d\n.log"])
    ]
    following.out = tmp_path / "out [*]?#%20"
    following.url = f"sqlite:///{following.out}/metrics.db"
    late = tmp_path / "late.log"
    write(late, lines(300, 9))
    found = following(logs, lambda: late.rename(logs / "late.log"), engine="spark", context=spark.sparkContext)
    assert found.outcome.reconciled and (found.files, found.outcome.lines) == (4, 900)
    run([*names, str(logs / "late.log")], out=tmp_path / "whole", engine="local")
    assert contents(following.url) == contents(f"sqlite:///{tmp_path}/whole/metrics.db")
    commits = sorted((following.out / "follow" / "checkpoint" / "commits").glob("[0-9]*"))
    commits[-1].unlink()
    again = following(logs, engine="spark", context=spark.sparkContext)
    assert again.outcome.lines == 0
    assert contents(following.url) == contents(f"sqlite:///{tmp_path}/whole/metrics.db")
