"""Statistics are values: they can be pickled, become a dictionary for logs, and are shown as a table by a notebook."""

from __future__ import annotations

import copy
import dataclasses
import html.parser
import pickle
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from drainq import BatchQueue, BatchQueueConfig, MultiQueue, SetQueue
from drainq.delayed import DelayedQueue
from drainq.delivery.accounting import Books
from drainq.sources import Fair, PrefetchSource, SourceScheduler
from drainq.statistics import BatchQueueStats, MultiQueueStats, PartitionUsage, Statistics, TypeStats, batch_queue

HOSTILE = '<script>alert("&")</script>'


class Table(html.parser.HTMLParser):
    """Reads a table and complains about a tag that is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {"caption": [], "th": [], "td": []}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in ("table", "caption", "tr", "th", "td")
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts[self.open[-1]].append(data)


@pytest.fixture
def statistics() -> Iterator[list[Any]]:
    """Yield one object of each class that a program meets."""
    with ExitStack() as stack:
        queue: BatchQueue[Any] = stack.enter_context(BatchQueue(HOSTILE, BatchQueueConfig(threads=1, consumer=len)))
        assert queue.produce_many([1, "a"]) == 2 and queue.flush(20)
        many: MultiQueue[int] = MultiQueue()
        many.add_sub_queue(HOSTILE).put(1)
        delayed: DelayedQueue[Any] = stack.enter_context(DelayedQueue.open("memory:", "statistics"))
        scheduler = SourceScheduler({HOSTILE: iter("abc")}, lambda name, items: None, Fair(HOSTILE))
        scheduler.step()
        batch = queue.stats()
        yield [
            batch, *batch.top_n(1), *batch.threads, *batch.per_type.values(), many.stats(), many[HOSTILE].stats(),
            SetQueue().stats(), PrefetchSource(lambda n: [], capacity=3, replenish_threshold=1).stats(),
            Books().stats(batch), scheduler.stats(), delayed.stats(),
        ]  # fmt: skip


def test_each_is_a_frozen_value_that_pickles_and_copies(statistics):
    for stats in statistics:
        for arrived in (pickle.loads(pickle.dumps(stats)), copy.copy(stats), copy.deepcopy(stats)):
            assert arrived == stats and repr(arrived) == repr(stats)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(stats, dataclasses.fields(stats)[0].name, 5)


def test_each_is_a_dictionary_of_plain_values(statistics):
    def plain(value: object) -> bool:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return not isinstance(value, Statistics) and all(plain(part) for part in parts)

    for stats in statistics:
        counts = stats.as_dict()
        assert counts and plain(counts)
        assert all(getattr(stats, name) == value for name, value in counts.items() if isinstance(value, (int, float)))


def test_each_is_a_table_in_a_notebook_whose_text_is_escaped(statistics):
    for stats in statistics:
        texts = Table(stats._repr_html_()).texts
        counts = stats.as_dict()
        assert texts["caption"] == [type(stats).__name__]
        assert (texts["th"], texts["td"]) == (list(counts), [str(value) for value in counts.values()])


def test_the_sums_of_a_batch_queue_have_each_counter_and_its_dictionary_is_a_copy():
    names = ("accepted", "handled", "failed", "unrouted", "dead_lettered", "abandoned", "queued")
    more = dict.fromkeys(("buffer_size", "total_capacity", "allocated_bytes", "rebalances", "gil_yields"), 1)
    types = [(int, (3, 1, 1, 1))]
    for place in names[1:]:
        counts = {**dict.fromkeys(names, 0), "accepted": 1, place: 1}
        stats = batch_queue(
            [], {**counts, **more, "rejected": {"full": 2}, "types": types, "used": [], "gil_waits": []}
        )
        assert stats.balanced and not dataclasses.replace(stats, accepted=2).balanced, place
    assert stats.offered == 3 and stats.per_type == {int: TypeStats(3, 1, 1, 1)}
    stats.as_dict()["rejected"].clear()
    assert stats.rejected == {"full": 2}


def test_the_use_of_a_batch_queue_is_that_of_its_partitions():
    names = [field.name for field in dataclasses.fields(BatchQueueStats)]
    stats = BatchQueueStats(
        **{**dict.fromkeys(names, 0), "used": [1, 5, 5, 0], "buffer_size": 10, "total_capacity": 20}
    )
    assert (stats.partition_count, stats.total_used, stats.total_used_percentage) == (4, 11, 55.0)
    assert [stats.partition_used_percentage(index) for index in range(4)] == [10.0, 50.0, 50.0, 0.0]
    fullest = [PartitionUsage(1, 5, 50.0), PartitionUsage(2, 5, 50.0), PartitionUsage(0, 1, 10.0)]
    assert (stats.top_n(0), stats.top_n(3)) == ([], fullest) and len(stats.top_n(9)) == 4
    with pytest.raises(ValueError, match="index must be the number of a partition, 0 to 3, got 4"):
        stats.partition_used(4)


def test_the_sub_queues_that_an_unknown_key_could_have_meant_are_shown_up_to_20():
    def told(count: int) -> str:
        with pytest.raises(KeyError) as error:
            MultiQueueStats(*[0] * 10, dict.fromkeys(range(count)))["x"]
        return str(error.value.args[0])

    assert told(20) == f"key must be that of a sub-queue, got 'x'; there are {list(range(20))}"
    assert told(22) == f"{told(20)} and 2 more"
