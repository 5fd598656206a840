"""A task's items without a handler, without Spark."""

from __future__ import annotations

import pytest

from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
from drainq.spark import UnroutedItems
from drainq.spark.unrouted import check_routed


def stats_of(items, **config):
    with BatchQueue("unrouted", BatchQueueConfig(threads=ThreadPolicy.fixed(1), **config)) as queue:
        queue.add_handler(int, lambda batch: None)
        queue.produce_many(items)
    return queue.stats()


def test_items_that_all_have_a_handler_are_no_error():
    check_routed(stats_of([1, 2, 3]), [int])


def test_one_item_without_a_handler_is_an_error():
    with pytest.raises(UnroutedItems, match="^1 items have no handler: 1 of str. There are handlers for int. Only the"):
        check_routed(stats_of([1, "a"]), [int])
    with pytest.raises(UnroutedItems, match="1 of str. There are handlers for nothing. Only"):
        check_routed(stats_of(["a"]), [])


def test_the_largest_kinds_are_named_and_the_others_counted():
    items = [kind for kind in range(8) for _ in range(kind + 1)]
    with pytest.raises(UnroutedItems) as raised:
        check_routed(stats_of(items, dispatch_key=lambda item: f"k{item}"))
    assert str(raised.value).startswith(
        "36 items have no handler: 8 of 'k7', 7 of 'k6', 6 of 'k5', 5 of 'k4', 4 of 'k3' and 3 other kinds. Only"
    )
