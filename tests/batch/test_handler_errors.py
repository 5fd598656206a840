"""The batch of a handler, or error handler, that raises."""

import pytest

from tests.batch.conftest import PATIENCE, Gate


def test_a_handler_that_raises_fails_its_batch_and_no_other(make_queue):
    errors, good = [], Gate()
    queue = make_queue(on_error=lambda batch, error: errors.append((batch, error)))

    def bad(batch):
        raise KeyError("bad batch")

    queue.add_handler(int, bad)
    queue.add_handler(str, good)
    queue.produce_many([1, "a", 2, "b"])
    assert queue.flush(PATIENCE)
    assert good.items == ["a", "b"]
    assert [item for batch, _ in errors for item in batch] == [1, 2]
    assert all(isinstance(error, KeyError) for _, error in errors)
    stats = queue.stats()
    assert (stats.failed, stats.handled, stats.per_type[int].failed) == (2, 2, 2)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, RecursionError])
def test_the_drain_thread_survives_whatever_a_handler_raises(make_queue, error):
    errors = []
    queue = make_queue(on_error=lambda batch, raised: errors.append(type(raised)))

    def handler(batch):
        raise error

    queue.add_handler(int, handler)
    for n in range(3):
        queue.produce(n)
        assert queue.flush(PATIENCE)
    assert errors == [error] * 3
    assert queue.stats().failed == 3


def test_without_an_error_handler_the_failure_is_logged(make_queue, caplog):
    queue = make_queue()
    queue.add_handler(int, lambda batch: 1 / 0)
    queue.produce(1)
    assert queue.flush(PATIENCE)
    assert any(record.exc_info and record.exc_info[0] is ZeroDivisionError for record in caplog.records)


def test_an_error_handler_that_keeps_a_batch_counts_it_as_dead_lettered(make_queue):
    class Keep:
        dead_letters = True

        def __init__(self):
            self.kept = []

        def __call__(self, batch, error):
            self.kept += batch[:2]
            return 2

    queue = make_queue(on_error=Keep())
    queue.add_handler(int, lambda batch: 1 / 0)
    gate = Gate(is_open=False)
    queue.add_handler(str, gate)
    queue.produce("hold")
    gate.wait_entered()
    queue.produce_many([1, 2, 3])
    gate.open()
    assert queue.flush(PATIENCE)
    stats = queue.stats()
    assert (stats.dead_lettered, stats.failed) == (2, 1)


def test_no_more_items_are_dead_lettered_than_the_batch_had(make_queue):
    def claim_too_many(batch, error):
        return 1_000

    claim_too_many.dead_letters = True
    queue = make_queue(on_error=claim_too_many)
    queue.add_handler(int, lambda batch: 1 / 0)
    queue.produce_many([1, 2, 3])
    assert queue.flush(PATIENCE)
    stats = queue.stats()
    assert (stats.dead_lettered, stats.failed) == (3, 0)


def test_what_an_error_handler_returns_is_no_count_unless_it_says_so(make_queue):
    queue = make_queue(on_error=lambda batch, error: 2)
    queue.add_handler(int, lambda batch: 1 / 0)
    queue.produce_many([1, 2, 3])
    assert queue.flush(PATIENCE)
    stats = queue.stats()
    assert (stats.dead_lettered, stats.failed) == (0, 3)
