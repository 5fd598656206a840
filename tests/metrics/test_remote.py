"""Logs at URLs: Spark's text source gives the lines, the digests and so the tables of a log on a disk."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from drainq.metrics.errors import FileChanged, JobFailed, UserError
from drainq.metrics.explain import explained
from drainq.metrics.job import run
from drainq.metrics.remote import RemoteFiles, digests, remote_tasks
from tests.metrics.logs import contents, lines, write

BOM = b"\xef\xbb\xbf"


@pytest.fixture
def at_urls(spark, tmp_path, logs):
    """Runs the job over logs of the test's directory: at URLs on the shared Spark, or by path with another engine."""

    def load(*names, out="out", **more):
        given = {"context": spark.sparkContext, "max_bad": 100, **more}
        root = f"{logs}" if given.get("engine") == "local" else f"file://{logs}"
        outcome = run([f"{root}/{name}" for name in names], out=tmp_path / out, **given)
        assert outcome.reconciled, outcome
        return outcome

    return load


@pytest.fixture
def small_splits(spark):
    """Spark splits a log into many tasks, and gives small logs to one."""
    settings = spark.sparkContext._jsc.sc().conf()
    settings.set("spark.sql.files.maxPartitionBytes", "50000")
    settings.set("spark.sql.files.openCostInBytes", "1")
    yield
    settings.remove("spark.sql.files.maxPartitionBytes")
    settings.remove("spark.sql.files.openCostInBytes")


@pytest.mark.usefixtures("small_splits")
@pytest.mark.parametrize(("begin", "end"), [(BOM, b"\n"), (b"", b"")])
def test_a_log_at_a_url_has_the_tables_and_the_digest_of_one_on_a_disk(
    at_urls, logs, tmp_path, monkeypatch, begin, end
):
    """Also on a cluster, whose executors return what they would write: no directory is shared with them."""
    monkeypatch.setattr("drainq.metrics.engine.is_local", lambda master: begin == BOM)
    raw = [line.encode() for line in lines(3_000, seed=3)]
    raw[7], raw[8], raw[9] = b"", b"odd \xff\x00", raw[9] + b"\r"
    text = begin + b"\n".join(raw)
    names = ["a b%[1].log", "small.log", "old.log.gz", "older.bz2", "empty.log", "empty.gz"]
    written = [text + end, b"\n", gzip.compress(text[:99_999] + b"\n"), bz2.compress(raw[3] + b"\n"), b"", gzip.compress(b"")]  # fmt: skip
    for name, content in zip(names, written):
        (logs / name).write_bytes(content)
    far = at_urls("a b%*", *names[1:])
    at_urls(*names, out="local", engine="local")
    found, local = (contents(f"sqlite:///{tmp_path}/{out}/metrics.db", sources=False) for out in ("out", "local"))
    for table in ("bad_lines", "bad_reasons"):
        paths, named = ([row[0].rpartition("/")[2] for row in rows.pop(table)] for rows in (found, local))
        assert [path.replace("a%20b%25%5B1%5D", "a b%[1]") for path in paths] == named and named
    assert found == local
    assert [log.lines for log in far.sources][:3] == [3_000, 1, text[:99_999].count(b"\n") + 1]
    again = at_urls(*names, engine="local")
    assert [log.loaded_before for log in again.sources] == [True] * len(names)
    assert at_urls("a b*", "small.log").lines == 0


def test_a_log_at_a_url_that_cannot_be_read_is_refused_with_the_reason(at_urls, logs, spark):
    write(logs / "a.log", lines(3))
    write(logs / "_hidden.log", lines(3))
    (logs / "directory").mkdir()
    (logs / "a.xz").write_bytes(lzma.compress(b"x"))
    (logs / "wide.log").write_bytes("text".encode("utf-16"))
    (logs / "no.gz").write_bytes(b"no gzip")
    (logs / "cut.gz").write_bytes(gzip.compress("\n".join(lines(30_000)).encode())[:-9])
    (logs / "x.json").write_text('{"a":1}\n')
    url = re.escape(f"file://{logs}")
    for name, said in {
        "none.log": f"there is no log '{url}/none.log'; check the name",
        "none*": f"there is no log '{url}/none.*'; check the name",
        "directory": f"cannot read the log '{url}/directory': .*directory",
        "a.xz": "is compressed, and Spark does not see that by its name; name it .gz or .bz2, as it is compressed",
        "wide.log": "is text in UTF-16",
        "no.gz": f"cannot read the log '{url}/no.gz': java.io.EOFException",
        "x.json": "is JSON with keys that are not known",
        "_hidden.log": "is left out by Spark, as names that begin with _ or . are; nothing was loaded",
    }.items():
        with pytest.raises(UserError, match=said):
            at_urls("a.log", name)
    with pytest.raises(JobFailed, match=f"nothing was loaded: .*Encountered error while reading file {url}/cut.gz"):
        at_urls("cut.gz")
    with pytest.raises(UserError, match="cannot read the log 'none://h/a': .*No FileSystem for scheme"):
        run(["none://h/a"], out=logs / "out", context=spark.sparkContext)


def test_only_a_job_on_spark_reads_urls(logs, tmp_path):
    said = "'file:///a.log' is a URL, which only `drainq metrics LOG --engine spark` reads; copy the log"
    with pytest.raises(UserError, match=said):
        run(["file:///a.log"], out=tmp_path / "out", engine="local")
    with pytest.raises(UserError, match=said):
        list(explained("file:///a.log", None))
    assert not (tmp_path / "out").exists()


def test_a_log_at_a_url_that_changes_while_it_is_read_is_refused(spark, logs):
    path = write(logs / "a.log", lines(3))
    [source] = RemoteFiles(spark.sparkContext).matching(f"file://{path}", None)
    source.check_unchanged()
    [(log,)] = remote_tasks([source])
    assert [url for url, _ in digests(spark.sparkContext, [log])] == [f"file://{path}"]
    write(logs / "a.log", lines(4))
    with pytest.raises(FileChanged, match="changed while it was read"):
        digests(spark.sparkContext, [log])
    with pytest.raises(FileChanged, match="changed while it was read, and nothing was loaded"):
        source.check_unchanged()
