"""The options of the data source: accepted ones, and those refused with their value."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark.sql.datasource", reason="the data source needs PySpark 4")

from drainq.datasource.options import MAX_ROWS, Options
from drainq.datasource.payload_form import PayloadForm

GIVEN = {"url": "sqlite:///q.db", "queue": "mail"}


def test_names_arrive_in_lower_case_and_sparks_own_come_along():
    options = Options.of({**GIVEN, "maxrows": "7", "checkpointlocation": "/c", "path": "/p", "payload": "json"})
    assert (options.max_rows, options.payload, options.update, options.table) == (
        7,
        PayloadForm.JSON,
        True,
        "delayed_queue",
    )
    assert (options.partitions, options.poll_interval, MAX_ROWS) == (8, 0.2, 10_000)


def test_a_password_is_not_shown():
    options = Options.of({**GIVEN, "url": "postgresql://me:secret@db/app"})
    assert "secret" not in repr(options)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"url": ""}, "needs .option\\('url'"),
        ({"url": "memory:"}, "url must name a database, got 'memory:'"),
        ({"url": "mysql://me:secret@db/app"}, r"url must name a database, got 'mysql://me:\*\*\*@db/app'"),
        ({"queue": ""}, "needs .option\\('queue'"),
        ({"payload": "pickle"}, "payload must be 'text', 'json', 'binary' or 'utf8', got 'pickle'"),
        ({"ifexists": "fail"}, "ifExists must be 'update' or 'ignore', got 'fail'"),
        ({"maxrows": "0"}, "maxRows must be a whole number of at least 1, got '0'"),
        ({"partitions": "two"}, "partitions must be a whole number of at least 1, got 'two'"),
        ({"pollinterval": "-1"}, "pollInterval must be a finite number of seconds >= 0, got '-1'"),
        ({"maxrow": "10"}, "there is no option 'maxrow': did you mean 'maxRows'?"),
        ({"consumers": "a"}, "did you mean 'consumer'"),
    ],
)
def test_a_wrong_option_is_refused_with_its_value(more, words):
    with pytest.raises(ValueError, match=words) as refused:
        Options.of({**GIVEN, **more})
    assert "secret" not in str(refused.value)
