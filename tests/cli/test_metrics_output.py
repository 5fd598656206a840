"""``drainq metrics`` in a script: patterns, the standard input, ``--json``, ``--quiet``."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from drainq.cli import main
from drainq.metrics.errors import FileChanged, Interrupted, JobFailed, UserError
from drainq.metrics.log_names import named
from drainq.metrics.outcome import Followed, JobOutcome
from drainq.sql import DatabaseUrl

pytest.importorskip("pygal")
pytest.importorskip("pyarrow")

LINE = 'h - - [17/May/2015:10:05:0{} +0000] "GET /{} HTTP/1.1" 200 7\n'


@pytest.fixture
def metrics(tmp_path):
    """Runs the command with threads of this process; returns its exit code."""
    return lambda *words: main(["metrics", *map(str, words), "--engine", "local", "--out", str(tmp_path / "out")])


def standard_input(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))


def test_json_is_one_object_with_the_numbers_of_the_summary(metrics, tmp_path, capsys):
    log = tmp_path / "a.log"
    log.write_text(LINE.format(1, "a") * 3 + "rubbish\n" + LINE.format(2, "b"))
    assert metrics(log, "--json", "--max-bad", "20") == 0
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert out.count("\n") == 1 and err == ""
    assert [said[key] for key in ("reconciled", "lines", "parsed", "bad", "parsed_in_tables")] == [True, 5, 4, 1, 4]
    assert said["top"][0] == {"endpoint": "/a", "requests": 3, "bytes": 21}
    assert [(one["path"], one["lines"], one["loaded_before"]) for one in said["logs"]] == [(str(log), 5, False)]
    assert said["queues"]["tasks"]["offered"] == said["queues"]["tasks"]["handled"] > 0
    assert Path(said["report"]).is_file()


def test_quiet_prints_nothing_where_nothing_is_wrong_and_one_line_where_a_log_is_rubbish(metrics, tmp_path, capsys):
    good, bad = tmp_path / "good.log", tmp_path / "bad.log"
    good.write_text(LINE.format(1, "a"))
    bad.write_text("rubbish\n")
    assert metrics(good, "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    assert metrics(bad, "--quiet") == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "bad.log" in err


def test_more_bad_lines_than_max_bad_are_exit_code_1_each_time(metrics, tmp_path, capsys):
    """Also when the log was loaded before, under whatever name; on the terminal the line is shown."""
    wrong = "Mar 29 22:00:00 secret: " + LINE.format(1, "a")
    for name, bad, all_lines in (("all", 400, 400), ("most", 399, 400), ("few", 2, 100), ("one", 1, 100)):
        log, renamed = tmp_path / f"{name}.log", tmp_path / f"{name}.1.log"
        log.write_text(
            LINE.format(1, name) * (all_lines - bad - 1) + wrong * bad + LINE.format(2, name) * (bad < all_lines)
        )
        renamed.write_text(log.read_text())
        first = max(1, all_lines - bad)
        for path in (log, log, renamed, log):
            assert metrics(path, "--quiet") == (bad > 1), (name, path)
            said = f"drainq: {bad} of {all_lines} lines of '{path}' are bad, more than 1 %; the first is line {first}: "
            remedy = "; declare another format with --format" if bad == all_lines else ""
            said += f"no 'client ident user [' at the start (read as common or combined{remedy}): {wrong}"
            assert capsys.readouterr() == ("", said if bad > 1 else ""), (name, path)
    assert metrics(tmp_path / "most.log", "--quiet", "--max-bad", "100%") == 0
    assert metrics(tmp_path / "one.log", "--quiet", "--max-bad", "0") == 1
    assert "more than 0 %" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        metrics(tmp_path / "one.log", "--max-bad", "101")


def test_a_quiet_following_of_a_log_that_is_none_ends_with_1_and_a_sentence(metrics, tmp_path, capsys, monkeypatch):
    class AtOnce:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def wait(self, seconds):
            return True

    monkeypatch.setattr("drainq.metrics.follow.run.Ending", AtOnce)
    log = tmp_path / "no.log"
    log.write_text("status: 200\n" * 400)
    for _ in range(2):
        assert metrics("--follow", log, "--quiet") == 1
        out, err = capsys.readouterr()
        assert out == "" and err.startswith(f"drainq: 400 of 400 lines of '{log}' are bad") and err.count("\n") == 1


WORDS = "--db sqlite:///m.db --out o --format alb --master local[3] --top 7 --heap 2g --conf spark.a=b=c --no-archive --max-bad 2.5% --quiet".split()
READ = {"database": DatabaseUrl.parse("sqlite:///m.db"), "out": "o", "master": "local[3]", "top": 7, "heap": "2g", "conf": {"spark.a": "b=c"},
        "use_archive": False, "max_bad": 2.5, "format": "alb"}  # fmt: skip


def test_what_the_command_line_says_reaches_the_job_and_the_following(monkeypatch, tmp_path, capsys):
    calls, outcome = [], JobOutcome([], parsed_in_tables=1)

    def called(answer):
        return lambda first, **more: calls.append((first, more)) or answer

    monkeypatch.setattr("drainq.metrics.job.run", called(outcome))
    monkeypatch.setattr("drainq.metrics.follow.run.follow", called(Followed(outcome, 0, False, ["b.log is odd"])))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["metrics", "a.log", "b.log", *WORDS]) == 1, "not reconciled"
    assert "WRONG" in capsys.readouterr().err
    followed = ["metrics", "--follow", str(tmp_path), "--every", "0", "--settled", "3", *WORDS]
    assert main(followed) == main([*followed, "--engine", "local"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("drainq: at the end: b.log is odd\n") == 2
    for loud in ([*followed[:3]], ["metrics", "a.log"]):
        assert main(loud) == 1
        _, more = calls.pop()
        assert more["progress"]._stream is sys.stderr
    assert [more.pop("progress")._stream for _, more in calls] == [None] * 3
    capsys.readouterr()
    assert all(more.pop("say")("a word") is None and more.pop("ended") for _, more in calls[1:])
    assert capsys.readouterr() == ("", "drainq: a word\n" * 2)
    times = {"every": 0.0, "settled": 3.0}
    assert calls == [
        (["a.log", "b.log"], {**READ, "engine": "spark"}),
        (str(tmp_path), {**READ, **times, "engine": None}),
        (str(tmp_path), {**READ, **times, "engine": "local"}),
    ]


@pytest.mark.parametrize("word", ["spark.a", "a=b", "=", ""])
def test_a_setting_of_spark_has_a_name_and_a_value_which_no_refusal_shows(capsys, word):
    with pytest.raises(SystemExit):
        main(["metrics", "a.log", "--conf", word])
    said = (
        f"--conf: needs the name of a setting of Spark and a value, as in spark.name=value, got {word.split('=')[0]!r}"
    )
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("error", "code"), [(JobFailed, 1), (Interrupted, 130), (UserError, 2), (FileChanged, 2)])
def test_the_exit_code_says_why_nothing_was_loaded(monkeypatch, capsys, error, code):
    def run(*_, **__):
        raise error("nothing was\nloaded")

    monkeypatch.setattr("drainq.metrics.job.run", run)
    assert (main(["metrics", "a.log"]), *capsys.readouterr()) == (code, "", "drainq: nothing was loaded\n")


@pytest.mark.parametrize(("word", "lacks"), [("d", ["pygal", "pyarrow", "pyspark"]), ("d/a.log", ["pygal", "pyarrow"])])
def test_spark_is_missed_only_by_what_needs_it(monkeypatch, tmp_path, capsys, word, lacks):
    (tmp_path / "d").mkdir()
    monkeypatch.setattr("drainq.metrics.follow.run.follow", lambda *_, **__: sys.exit("all there"))
    there, asked = set(), []
    monkeypatch.setattr("importlib.util.find_spec", lambda name: asked.append(name) or (name in there) or None)
    for package in lacks:
        assert main(["metrics", "--follow", str(tmp_path / word)]) == 2
        assert capsys.readouterr().err == f"drainq: {package} is not installed: pip install 'drainq[metrics]'\n"
        there.add(package)
    with pytest.raises(SystemExit, match="all there"):
        main(["metrics", "--follow", str(tmp_path / word)])


def test_json_and_quiet_exclude_each_other(metrics, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        metrics("a.log", "--json", "--quiet")
    assert ended.value.code == 2 and "--quiet" in capsys.readouterr().err


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_the_standard_input_is_a_log(metrics, monkeypatch, capsys, pack):
    standard_input(monkeypatch, pack(LINE.format(1, "a").encode() * 2))
    assert metrics("-", "--json") == 0
    assert json.loads(capsys.readouterr().out)["parsed_in_tables"] == 2


def test_a_pattern_stands_for_the_files_that_match_it(tmp_path):
    for directory in ("deep/b.log", "d.log"):
        (tmp_path / directory).mkdir(parents=True)
    for name in ("b.log", "a.log", "deep/c.log", "x[1].log"):
        (tmp_path / name).touch()
    with named([f"{tmp_path}/*.log", f"{tmp_path}/**/c.log", f"{tmp_path}/x[1].log"], io.BytesIO()) as paths:
        names = [str(Path(path).relative_to(tmp_path)) for path in paths]
    assert names == ["a.log", "b.log", "x[1].log", "deep/c.log", "x[1].log"]


@pytest.mark.parametrize("words", [["-", "a.log", "-"], ["no/such/*.log"]])
def test_what_cannot_be_meant_is_refused_and_shown(words):
    with pytest.raises(UserError, match="LOG must .*got (it twice|'no/such)"), named(words, io.BytesIO()):
        pass
    with pytest.raises(UserError, match="LOG must not be - here, got '-'"), named(["-"], None):
        pass


def test_the_saved_standard_input_is_deleted():
    with named(["-"], io.BytesIO(b"x")) as (path,):
        assert Path(path).read_bytes() == b"x"
    assert not Path(path).parent.exists()
