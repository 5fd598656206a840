"""Rows that go through a task's queue in slices reach their handler as rows, all of them, in order."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from drainq._native import BatchQueue
from drainq.spark.queue_of_task import default_config
from drainq.spark.row_slices import MOST_ROWS, of_slices, slices, taking_slices
from drainq.spark.row_task import PRODUCED_AT_ONCE, RowTask, Spec
from drainq.spark.rows import Rows

ROWS = 2 * MOST_ROWS + 7
BATCH = pa.RecordBatch.from_pydict({"key": list(range(ROWS)), "value": [str(n) for n in range(ROWS)]})


class Kept:
    def __init__(self):
        self.rows, self.sizes, self.closed = [], [], False

    def consume(self, batch):
        self.sizes.append(len(batch))
        self.rows += batch

    def on_close(self):
        self.closed = True


def through_a_queue(handler, form, capacity=10_000):
    """Return what the queue counted, and the errors of the handler."""
    failures = []
    config = of_slices(default_config(threads=1, capacity=capacity), form, failures)
    with BatchQueue("slices", config) as queue:
        queue.add_handler(dict if form is Rows.RECORDS else tuple, taking_slices(handler, form))
        for part in slices(BATCH, capacity):
            queue.produce(part)
    return queue.stats(), failures


@pytest.mark.parametrize("form", [Rows.TUPLES, Rows.RECORDS])
@pytest.mark.parametrize("capacity", [1, 10, 10_000])
def test_a_handler_gets_every_row_once_and_in_order_and_the_queue_counts_rows(form, capacity):
    kept = Kept()
    counted, failures = through_a_queue(kept, form, capacity)
    assert kept.rows == form.listed(BATCH) and failures == []
    assert max(kept.sizes) <= min(MOST_ROWS, capacity) and kept.closed
    assert counted.accepted == counted.handled == ROWS


def test_a_record_batch_without_rows_or_columns_has_its_rows():
    assert list(slices(BATCH.slice(0, 0), 10)) == []
    bare = BATCH.select([])
    assert sum(len(Rows.TUPLES.listed(part)) for part in slices(bare, 10)) == bare.num_rows


def test_an_error_of_a_handler_says_of_how_many_rows():
    def refuse(batch):
        raise ValueError("not these")

    counted, failures = through_a_queue(refuse, Rows.TUPLES, capacity=ROWS)
    assert counted.failed == ROWS and {str(error) for error in failures} == {"not these"}
    if hasattr(failures[0], "__notes__"):
        notes = [note.split() for error in failures for note in error.__notes__]
        assert all(note[-2:] == ["tuple", "items"] for note in notes)
        assert sum(int(note[-3]) for note in notes) == ROWS


def test_a_handler_whose_answer_is_a_coroutine_has_not_run():
    _, failures = through_a_queue(lambda batch: Lazy().consume(batch), Rows.TUPLES)
    assert {type(error) for error in failures} == {TypeError}


class Lazy:
    async def consume(self, batch): ...


@pytest.mark.parametrize("handler", [Lazy(), lambda: None])
def test_a_handler_of_which_nothing_would_run_is_refused_when_it_is_given(handler):
    name = "handler.consume" if hasattr(handler, "consume") else "handler"
    with pytest.raises(TypeError, match=f"^{name} "):
        taking_slices(handler, Rows.TUPLES)


def test_a_handler_without_consume_is_refused_by_the_queue():
    with BatchQueue("slices", default_config(threads=1)) as queue, pytest.raises(TypeError, match="consume"):
        queue.add_handler(tuple, taking_slices(object(), Rows.TUPLES))


def test_a_wrong_row_names_its_own_handler_after_a_whole_chunk_of_another():
    types = pytest.importorskip("pyspark.sql.types")

    def run(spec, batches):
        yield from spec.changed("first", [(1,)] * PRODUCED_AT_ONCE)
        yield from spec.changed("second", [5])

    spec = Spec(None, None, None, None, 1, None, None, None)
    task = RowTask(spec, types.StructType().add("n", types.LongType()), Rows.TUPLES, run)([])
    assert next(task).num_rows == PRODUCED_AT_ONCE
    with pytest.raises(TypeError, match="^second returned an int instead of a row"):
        next(task)
