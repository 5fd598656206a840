"""The table that a notebook shows: well-formed, readable aloud, escaped, and without credentials or payloads."""

from __future__ import annotations

import html.parser
from typing import Any

import pytest

from drainq import (
    BatchQueue,
    BatchQueueConfig,
    Fair,
    MultiQueue,
    PrefetchSource,
    SetQueue,
    SourceScheduler,
    ThreadPolicy,
)
from drainq.delayed import DelayedQueue
from drainq.delivery.accounting import Books
from drainq.html_table import MOST_ROWS, table

HOSTILE = '<script>alert("&")</script>'


class Page(html.parser.HTMLParser):
    """Reads a table: its caption, its headings with their scope, its cells; complains about a tag that is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str | None]] = []
        self.texts: list[tuple[str, str | None, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in ("table", "caption", "thead", "tbody", "tr", "th", "td")
        self.open.append((tag, dict(attributes).get("scope")))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((*self.open[-1], data))

    def of(self, tag: str, scope: str | None = None) -> list[str]:
        return [text for *where, text in self.texts if where == [tag, scope]]


def page(thing: Any) -> Page:
    shown = Page(thing._repr_html_())
    [_] = shown.of("caption")
    assert len(shown.of("th", "col")) >= 2 and shown.of("th") == [] and shown.of("th", "row")
    assert len(shown.of("td")) == len(shown.of("th", "row")) * (len(shown.of("th", "col")) - 1)
    return shown


def test_a_batch_queue_and_its_counters():
    with BatchQueue(HOSTILE, BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=len)) as queue:
        queue.produce_many(range(1200))
        assert queue.flush(20)
        shown, stats = page(queue), queue.stats()
        assert HOSTILE.replace('"', '\\"') in shown.of("caption")[0]
        assert dict(zip(shown.of("th", "row"), shown.of("td")))["handled"] == "1,200"
        assert page(stats).of("th", "row") == shown.of("th", "row")
        assert set(page(stats.per_type[int]).of("th", "row")) == {"accepted", "handled", "failed", "unrouted"}
        for more in (*stats.threads, *stats.top_n(1)):
            page(more)


def test_a_multi_queue_has_a_row_for_each_sub_queue_and_one_for_all():
    queue: MultiQueue[int] = MultiQueue()
    assert page(queue).of("th", "row") == ["all"]
    queue.add_sub_queue(HOSTILE).put_many([1, 2])
    queue.add_sub_queue(3)
    for shown in (page(queue), page(queue.stats())):
        assert [text.strip("'") for text in shown.of("th", "row")] == [HOSTILE, "3", "all"]
        assert "blocked_getters 0" in shown.of("caption")[0]
        columns, cells = shown.of("th", "col"), shown.of("td")
        assert dict(zip(columns[1:], cells))["depth"] == "2"
    page(queue[3].stats())
    for number in range(100, 200):
        queue.add_sub_queue(number)
    assert len(page(queue).of("th", "row")) == MOST_ROWS + 1
    assert f"{MOST_ROWS} of 102 sub-queues" in page(queue).of("caption")[0]


def test_a_key_whose_repr_raises_is_shown_by_its_class():
    class Key:
        def __repr__(self) -> str:
            raise ValueError("no")

    queue: MultiQueue[int] = MultiQueue()
    queue.add_sub_queue(Key())
    assert page(queue).of("th", "row") == ["an object of class Key", "all"]


def test_a_delayed_queue_shows_neither_its_database_nor_a_payload(tmp_path):
    with DelayedQueue.open(f"sqlite:///{tmp_path}/secret.db", "mail") as queue:
        queue.offer_or_update("key", HOSTILE, 0)
        shown = queue._repr_html_()
        assert page(queue).of("caption") == ["DelayedQueue 'mail' in SQLiteStorage"]
        assert dict(zip(page(queue).of("th", "row"), page(queue).of("td")))["ready"] == "1"
        assert "secret" not in shown and "alert" not in shown
        page(queue.stats())
    assert page(queue).of("td") == ["not readable: ShutDown"]


@pytest.mark.parametrize(
    "make",
    [
        SetQueue,
        lambda: SetQueue().stats(),
        lambda: PrefetchSource(lambda n: [], capacity=3, replenish_threshold=1).stats(),
        lambda: Books().stats(),
    ],
)
def test_all_other_counters_are_tables_as_well(make):
    page(make())


def test_a_scheduler_has_a_row_for_each_source():
    scheduler = SourceScheduler({HOSTILE: iter("abc"), "y": iter("d")}, lambda name, items: None, Fair(HOSTILE, "y"))
    scheduler.step()
    shown = page(scheduler.stats())
    assert [text.strip("'") for text in shown.of("th", "row")] == [HOSTILE, "y", "all"]
    assert "steps 1" in shown.of("caption")[0] and "paused no" in shown.of("caption")[0]


def test_numbers_and_words_are_written_for_readers():
    shown = Page(table("all", ("what", "value"), zip("abcdef", (None, True, False, 1234567, 1234.5678901, "x"))))
    assert shown.of("td") == ["none", "yes", "no", "1,234,567", "1,234.57", "x"]
