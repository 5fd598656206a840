"""A worker's constructor refuses unusable arguments, by name, with the value."""

from __future__ import annotations

import re

import pytest

from drainq.workers import (
    BatchWriter,
    MetricsAggregator,
    MetricsPersister,
    SendingWorker,
    Sink,
    TopN,
)


def first(item):
    return item[0]


def aggregator(**changes):
    return MetricsAggregator(**{"key": first, "merge": max, "sink": print, **changes})


class Plain(Sink):
    def send(self, items):
        """Take them."""


class Coroutine(Plain):
    async def send(self, items):
        """Is never begun."""


class Short(Plain):
    def send(self):
        """Take none."""


def sending(**changes):
    return SendingWorker(**{"sink": Plain(), **changes})


def top(**changes):
    return TopN(**{"n": 3, "score": first, "sink": print, **changes})


@pytest.mark.parametrize(
    ("make", "changes", "error", "says"),
    [
        (aggregator, {"queue": "metrics"}, TypeError, "queue must be a drainq.BatchQueue .*, got 'metrics'"),
        (sending, {"sink": print}, TypeError, "sink must be a drainq.workers.Sink, with send"),
        (
            sending,
            {"sink": Coroutine()},
            TypeError,
            "send must be a plain function .*, which is an async function.*_threadsafe",
        ),
        (sending, {"sink": Short()}, TypeError, r"send is called with 1 positional argument \(items\)"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused(make, changes, error, says):
    with pytest.raises(error, match=says):
        make(**changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"columns": "abc"}, r"columns must be a list of names, such as \['id', 'name'\], got 'abc'"),
        ({"columns": ["a", 3]}, "columns must be a list of names"),
        ({"key": "a"}, "key must be a list of names, .* got 'a'"),
    ],
)
@pytest.mark.parametrize("worker", [BatchWriter, MetricsPersister])
def test_a_text_is_not_taken_for_a_list_of_columns(table, worker, changes, says):
    options = {"url": table("a INTEGER PRIMARY KEY, b INTEGER, c INTEGER"), "table": "t", "columns": ["a", "b", "c"]}
    more = {"merge": {}} if worker is MetricsPersister else {}
    with pytest.raises(TypeError, match=says):
        worker(**{**options, "key": ["a"], **more, **changes})


@pytest.mark.parametrize("wrong", ["mail", "", False, 0, []])
def test_a_writer_refuses_a_delayed_queue_that_is_none(table, wrong):
    options = {"url": table("a INTEGER"), "table": "t", "columns": ["a"]}
    why = f"delayed must be a drainq.delayed.DelayedQueue or None, got {wrong!r}"
    with pytest.raises(TypeError, match=re.escape(why)):
        BatchWriter(**options, delayed=wrong)


@pytest.mark.parametrize("make", [aggregator, top])
def test_a_sink_of_whose_call_nothing_has_run_has_taken_nothing(make, caplog):
    async def send(items):
        raise AssertionError(items)

    worker = make(sink=lambda items: send(items), flush_interval=None)
    worker.produce((1,))
    assert worker.flush(60) is False
    assert "the sink returned <coroutine object" in caplog.text
    assert (worker.stats().sent, worker.stats().pending) == (0, 1)
    assert worker.close(60) is False
    assert (worker.stats().sent, worker.stats().lost) == (0, 1)


@pytest.mark.parametrize(("make", "name"), [(aggregator, "key"), (aggregator, "merge"), (top, "score"), (top, "group")])
def test_a_batch_is_refused_whose_key_or_score_has_not_been_computed(make, name):
    def compute(*items):
        yield items

    worker = make(**{name: lambda *items: compute(*items)}, flush_interval=None)
    with pytest.raises(TypeError, match=f"^{name} returned <generator object"):
        worker([(1, "a"), (1, "b")])
    assert (worker.stats().refused, worker.stats().pending) == (2, 0)
    assert worker.close(60) is False


async def later(*_):
    raise AssertionError("nobody waits for this")


@pytest.mark.parametrize(
    ("make", "option"),
    [(aggregator, "key"), (aggregator, "merge"), (aggregator, "sink"), (top, "score"), (top, "group"), (top, "sink")],
)
@pytest.mark.filterwarnings("ignore:coroutine")
def test_an_answer_that_had_to_be_awaited_is_no_answer(make, option):
    worker = make(**{option: lambda *of: later(*of)})
    try:
        worker([("a", 1), ("a", 2)])
    except TypeError:
        assert option != "sink"
    assert worker.flush() is False and worker.stats().sent == 0
