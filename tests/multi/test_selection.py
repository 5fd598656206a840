"""A Python object that chooses whose turn it is."""

import asyncio
from types import SimpleNamespace

import pytest

from drainq import MultiQueue, SubQueue

from .helpers import PATIENCE, blocked_getters, eventually, in_thread, totals_add_up


class Recorder:
    """Chooses by a function and records what it was offered."""

    def __init__(self, choose):
        self.choose = choose
        self.offers = []

    def select(self, groups):
        self.offers.append([[sub.key for sub in group] for group in groups])
        return self.choose(groups)


def filled(choose):
    selection = Recorder(choose)
    queue = MultiQueue(selection)
    for key, priority in [("low", 2), ("a", 1), ("b", 1), ("c", 1), ("idle", 0), ("off", 0)]:
        queue.add_sub_queue(key, priority)
    for key in ("low", "a", "b", "c", "off"):
        queue[key].put_many([f"{key}0", f"{key}1"])
    queue["off"].disable()
    return queue, selection


def test_select_gets_groups_by_priority_of_servable_sub_queues_in_turn_order():
    queue, selection = filled(lambda groups: groups[0][0])
    assert queue.get() == "a0"
    assert queue.get() == "b0"
    assert selection.offers == [[["a", "b", "c"], ["low"]], [["b", "c", "a"], ["low"]]]


def test_select_gets_the_sub_queues_themselves():
    seen = []
    queue, _ = filled(lambda groups: seen.extend(groups[0]) or groups[0][0])
    queue.get()
    assert all(isinstance(sub, SubQueue) for sub in seen)
    assert [sub is queue[sub.key] for sub in seen] == [True] * 3


@pytest.mark.parametrize(
    "call",
    ["get", "get_nowait", "peek", "get_item", "get_many", "get_async", "get_item_async", "get_many_async"],
)
def test_every_way_to_take_asks_it(call):
    async def awaited(coroutine):
        return await coroutine

    queue, selection = filled(lambda groups: groups[-1][0])
    answer = getattr(queue, call)(*([1] if "many" in call else []))
    answer = asyncio.run(awaited(answer)) if "async" in call else answer
    assert "low0" in (answer if "many" in call or "item" in call else [answer])
    assert len(selection.offers) == 1


def test_bulk_gets_ask_for_each_item():
    queue, selection = filled(lambda groups: groups[-1][-1])
    assert queue.get_many(5) == ["low0", "low1", "c0", "c1", "b0"]
    assert len(selection.offers) == 5


def test_it_is_not_asked_when_there_is_nothing():
    selection = Recorder(lambda groups: groups[0][0])
    queue = MultiQueue(selection)
    queue.add_sub_queue("a")
    assert queue.get_many(3, timeout=0) == []
    assert selection.offers == []


@pytest.mark.parametrize("answer", [None, "a", 0])
def test_an_answer_that_was_not_offered_is_a_type_error_that_shows_it(answer):
    queue, _ = filled(lambda groups: answer)
    with pytest.raises(TypeError, match=f"got {answer!r}"):
        queue.get()
    assert queue.qsize() == 8


@pytest.mark.parametrize(
    ("selection", "error"),
    [(3, TypeError), (object(), TypeError), (SimpleNamespace(select=3), TypeError), ("fair", ValueError)],
)
def test_a_selection_that_cannot_select_is_refused(selection, error):
    with pytest.raises(error, match='selection must be "priority", "weighted" or an object with select.groups., got'):
        MultiQueue(selection)


def test_a_disabled_sub_queue_cannot_be_chosen():
    queue, _ = filled(lambda groups: queue["off"])
    with pytest.raises(TypeError, match="'off'"):
        queue.get()
    assert queue["off"].qsize() == 2


def test_an_exception_in_select_comes_out_and_loses_nothing():
    def choose(groups):
        raise LookupError("undecided")

    queue, _ = filled(choose)
    with pytest.raises(LookupError, match="undecided"):
        queue.get()
    totals_add_up(queue)
    assert queue.qsize() == 8


def test_it_is_asked_again_if_its_choice_is_gone():
    def choose(groups):
        sub = groups[0][0]
        if sub.key == "a":
            queue.remove_sub_queue("a")
        return sub

    queue, selection = filled(choose)
    assert queue.get() == "b0"
    assert len(selection.offers) == 2


def test_an_exception_in_a_woken_getter_wakes_the_next_one():
    failures = iter([True])

    def choose(groups):
        if next(failures, False):
            raise LookupError("undecided")
        return groups[0][0]

    queue = MultiQueue(Recorder(choose))
    sub = queue.add_sub_queue("a")
    first = in_thread(queue.get)
    eventually(blocked_getters(queue, 1))
    second = in_thread(queue.get)
    eventually(blocked_getters(queue, 2))
    sub.put("item")
    # On a busy machine the second getter may be faster: a wake-up that is not used for long goes to the next.
    failed, served = (first, second) if first.exception(PATIENCE) else (second, first)
    assert isinstance(failed.exception(PATIENCE), LookupError)
    assert served.result(PATIENCE) == "item"


def test_select_may_use_the_queue_itself():
    def choose(groups):
        if queue["idle"].empty():
            queue["idle"].put("idle")
        return groups[0][0]

    queue, _ = filled(choose)
    assert queue.get() == "a0"
    assert queue.get() == "idle"
    totals_add_up(queue)


@pytest.mark.parametrize("call", ["get_nowait", "peek", "get", "get_item", "get_many"])
def test_a_choice_that_is_empty_by_then_is_asked_for_again(call):
    class TooLate:
        asked = 0

        def select(self, groups):
            self.asked += 1
            if self.asked == 1:
                assert groups[0][0].clear() == ["gone"]
            return groups[0][0]

    rule = TooLate()
    queue = MultiQueue(rule)
    queue.add_sub_queue("a").put("gone")
    queue.add_sub_queue("b").put("there")
    calls = {
        "get_nowait": queue.get_nowait,
        "peek": queue.peek,
        "get": lambda: queue.get(timeout=0),
        "get_item": lambda: queue.get_item(block=False)[1],
        "get_many": lambda: "".join(queue.get_many(1, min_items=0)),
    }
    assert calls[call]() == "there"
    got = int(call != "peek")
    stats = queue.stats()
    assert (rule.asked, stats.put, stats.got, stats.removed, stats.depth) == (2, 2, got, 1, 1 - got)
