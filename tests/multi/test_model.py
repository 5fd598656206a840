"""Any sequence of single-threaded calls agrees with a plain model in Python."""

from __future__ import annotations

import queue as std
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from drainq import MultiQueue, ShutDown, SubQueueRemoved
from tests.time_limit import SECONDS, each_test_within

from .helpers import totals_add_up

time_limit = each_test_within(4 * SECONDS)  # hundreds of programs, which take seconds


@dataclass(eq=False)
class ModelSub:
    """A sub-queue as lists and numbers."""

    key: int
    priority: int
    capacity: int | None
    weight: int
    reasons: set[str]
    total: Counter
    items: list = field(default_factory=list)
    removed: bool = False
    counts: Counter = field(default_factory=Counter)

    def count(self, name: str, times: int = 1) -> None:
        """Counts here, and in total while it belongs to the multi-queue."""
        self.counts[name] += times
        if not self.removed:
            self.total[name] += times

    @property
    def servable(self) -> bool:
        return bool(self.items) and not self.reasons and not self.removed

    @property
    def room(self) -> float:
        return float("inf") if self.capacity is None else max(0, self.capacity - len(self.items))


class ModelQueue:
    """A multi-queue that looks at every sub-queue at every turn."""

    def __init__(self, weighted: bool) -> None:
        self.weighted = weighted
        self.places: dict[int, list[ModelSub | None]] = {}
        self.turns: dict[object, tuple[int, int, int] | None] = {}
        self.down = False
        self.total: Counter = Counter()

    def depth(self) -> int:
        return sum(len(sub.items) for group in self.places.values() for sub in group if sub is not None)

    def has_put(self, sub: ModelSub, items: list) -> None:
        sub.items += items
        sub.count("put", len(items))
        sub.counts["high_water"] = max(sub.counts["high_water"], len(sub.items))
        self.total["high_water"] = max(self.total["high_water"], self.depth())

    def add(self, sub: ModelSub) -> None:
        """Places are positions in one list that is never shortened: a vacated place stays, as None."""
        self.places.setdefault(sub.priority, []).append(sub)

    def vacate(self, sub: ModelSub) -> None:
        group = self.places[sub.priority]
        place = group.index(sub)
        group[place] = None
        name = None if self.weighted else sub.priority
        turn = self.turns.get(name)
        if turn and turn[:2] == (sub.priority, place):
            self.turns[name] = (sub.priority, place, 0)
        if all(other is None for other in group):
            del self.places[sub.priority]
            if not self.weighted:
                self.turns.pop(sub.priority, None)
            elif turn and turn[0] == sub.priority:
                # The round goes on with the next group, or ended with the last.
                self.turns[name] = min(((later, 0, 0) for later in self.places if later > sub.priority), default=None)

    def candidates(self) -> list[tuple[int, int, ModelSub]]:
        return [
            (priority, place, sub)
            for priority in sorted(self.places)
            for place, sub in enumerate(self.places[priority])
            if sub is not None and sub.servable
        ]

    def next(self):
        """(priority, place, sub, turns served after it) of who is next."""
        ready = self.candidates()
        if not ready:
            return None
        if not self.weighted:
            ready = [entry for entry in ready if entry[0] == ready[0][0]]
        name = None if self.weighted else ready[0][0]
        priority, place, served = self.turns.get(name) or (float("-inf"), 0, 0)
        for entry in ready:
            if entry[:2] == (priority, place) and 0 < served < entry[2].weight:
                return (*entry, served + 1)
        start = (priority, place + (1 if served else 0))
        later = [entry for entry in ready if entry[:2] >= start]
        return (*(later or ready)[0], 1)

    def get(self):
        found = self.next()
        if found is None:
            raise ShutDown if self.down else std.Empty
        priority, place, sub, served = found
        self.turns[None if self.weighted else priority] = (priority, place, served)
        sub.count("got")
        return sub.key, sub.items.pop(0)

    def qsize(self) -> int:
        return sum(len(sub.items) for _, _, sub in self.candidates())


COUNTS = ("put", "got", "rejected", "removed", "high_water")


def counted(stats) -> tuple[int, ...]:
    return (*(getattr(stats, name) for name in COUNTS), stats.depth, stats.blocked_putters)


def counts_of(counts: Counter, depth: int) -> tuple[int, ...]:
    return (*(counts[name] for name in COUNTS), depth, 0)


class Agreement:
    """Drives both and compares everything that can be seen."""

    weighted = False

    def __init__(self) -> None:
        self.queue = MultiQueue("weighted" if self.weighted else "priority")
        self.model = ModelQueue(self.weighted)
        self.all: list[tuple] = []
        self.next_item = 0
        self.next_key = 0

    def add(self, priority, capacity, weight, enabled):
        self.next_key += 1
        arguments = (self.next_key, priority, capacity)
        if self.model.down:
            with pytest.raises(ShutDown):
                self.queue.add_sub_queue(*arguments, weight=weight, enabled=enabled)
            return None
        sub = self.queue.add_sub_queue(*arguments, weight=weight, enabled=enabled)
        model = ModelSub(self.next_key, priority, capacity, weight, set() if enabled else {""}, self.model.total)
        self.model.add(model)
        self.all.append((sub, model))
        return sub, model

    def refusal(self, model):
        if model.removed:
            return SubQueueRemoved
        return ShutDown if self.model.down else None

    def put_many(self, pair, count):
        sub, model = pair
        items = list(range(self.next_item, self.next_item + count))
        self.next_item += count
        if self.refusal(model):
            with pytest.raises(self.refusal(model)):
                sub.put_many(items, block=False)
            model.count("rejected", count)
            return
        fits = int(min(count, model.room))
        assert sub.put_many(items, block=False) == fits
        self.model.has_put(model, items[:fits])
        model.count("rejected", count - fits)

    def one(self, sub, way):
        match way:
            case "nowait":
                sub.put_nowait(self.next_item)
            case "no block":
                sub.put(self.next_item, block=False)
            case "no time":
                sub.put(self.next_item, timeout=0)

    def put(self, pair, way):
        sub, model = pair
        self.next_item += 1
        refusal = self.refusal(model) or (None if model.room else std.Full)
        if refusal:
            with pytest.raises(refusal):
                self.one(sub, way)
            model.count("rejected")
        else:
            self.one(sub, way)
            self.model.has_put(model, [self.next_item])

    def get(self):
        try:
            expected = self.model.get()
        except Exception as error:
            with pytest.raises(type(error)):
                self.queue.get_item(block=False)
        else:
            assert self.queue.get_item(block=False) == expected

    def get_many(self, n):
        expected = []
        while len(expected) < n and self.model.next():
            expected.append(self.model.get()[1])
        if n and not expected and self.model.down:
            with pytest.raises(ShutDown):
                self.queue.get_many(n, min_items=0)
        else:
            assert self.queue.get_many(n, min_items=0) == expected

    def disable(self, pair, reason):
        pair[0].disable(reason)
        pair[1].reasons.add(reason)

    def enable(self, pair, reason):
        pair[0].enable(reason)
        pair[1].reasons -= pair[1].reasons.copy() if reason is None else {reason}

    def set_priority(self, pair, priority):
        sub, model = pair
        sub.priority = priority
        if priority != model.priority and not model.removed:
            self.model.vacate(model)
            model.priority = priority
            self.model.add(model)
        model.priority = priority

    def set_weight(self, pair, weight):
        pair[0].weight = pair[1].weight = weight

    def set_capacity(self, pair, capacity):
        pair[0].capacity = pair[1].capacity = capacity

    def clear(self, pair):
        assert pair[0].clear() == pair[1].items
        pair[1].count("removed", len(pair[1].items))
        pair[1].items = []

    def remove(self, pair, index):
        sub, model = pair
        item = model.items[index] if index < len(model.items) else "no such item"
        assert sub.remove(item) == (item in model.items)
        if item in model.items:
            model.items.remove(item)
            model.count("removed")

    def remove_if(self, pair, remainder):
        taken = [item for item in pair[1].items if item % 3 == remainder]
        assert pair[0].remove_if(lambda item: item % 3 == remainder) == taken
        pair[1].items = [item for item in pair[1].items if item not in taken]
        pair[1].count("removed", len(taken))

    def remove_sub_queue(self, pair):
        if pair[1].removed:
            return
        sub, model = pair
        assert self.queue.remove_sub_queue(model.key) is sub
        self.model.vacate(model)
        self.model.total["removed"] += len(model.items)
        model.removed = True

    def shutdown(self, immediate):
        self.queue.shutdown(immediate=immediate)
        self.model.down = True
        for _, model in self.all:
            if immediate and not model.removed:
                model.count("removed", len(model.items))
                model.items = []

    def everything_that_can_be_seen_agrees(self):
        assert (self.queue.qsize(), self.queue.empty()) == (self.model.qsize(), self.model.qsize() == 0)
        assert self.queue.is_shutdown is self.model.down
        found = self.model.next()
        if found is None:
            with pytest.raises(ShutDown if self.model.down else std.Empty):
                self.queue.peek()
        else:
            assert self.queue.peek() == found[2].items[0]
        for sub, model in self.all:
            assert list(sub) == model.items
            assert (sub.qsize(), sub.empty(), sub.key) == (len(model.items), not model.items, model.key)
            assert (sub.priority, sub.weight, sub.capacity) == (model.priority, model.weight, model.capacity)
            assert (sub.enabled, sub.disabled_by) == (not model.reasons, sorted(model.reasons))
            assert sub.removed is model.removed and (model.key in self.queue) is not model.removed
            assert sub.full() == (model.room == 0)
            assert (sub.remaining_capacity() == model.room) or (sub.remaining_capacity() is model.capacity is None)
            assert counted(sub.stats()) == counts_of(model.counts, len(model.items))
        stats, attached = self.queue.stats(), {model.key: sub for sub, model in self.all if not model.removed}
        assert counted(stats) == counts_of(self.model.total, self.model.depth())
        assert stats.blocked_getters == 0
        assert {key: counted(each) for key, each in stats.sub_queues.items()} == {
            key: counted(sub.stats()) for key, sub in attached.items()
        }
        assert self.queue.keys() == list(attached)
        totals_add_up(self.queue)


class WeightedAgreement(Agreement):
    weighted = True


def test_a_round_that_ends_with_its_last_group_begins_anew():
    queue = MultiQueue("weighted")
    first, second = queue.add_sub_queue("a", priority=1), queue.add_sub_queue("b", priority=0)
    first.put_many([0, 1])
    assert queue.get() == 0
    second.put(2)
    first.priority = 2
    assert [queue.get(), queue.get()] == [2, 1]


def test_the_turn_of_a_group_that_is_gone_is_the_next_groups_although_its_priority_comes_back():
    agreement = WeightedAgreement()

    def add(priority):
        return agreement.add(priority=priority, capacity=None, weight=1, enabled=True)

    first, second = add(0), add(1)
    agreement.put(first, "nowait")
    agreement.get()
    agreement.remove_sub_queue(first)
    anew = add(0)
    agreement.put(anew, "nowait")
    agreement.put(second, "nowait")
    agreement.everything_that_can_be_seen_agrees()
    assert agreement.queue.get_item()[0] == second[0].key


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("kind", [Agreement, WeightedAgreement])
def test_every_answer_is_the_models(kind, seed):
    """Programs of few sub-queues with many puts and gets, so that turns pass on; each change comes now and then."""
    dice, agreement, pairs = random.Random(f"{kind.__name__} {seed}"), kind(), []
    priorities = range(-1, dice.choice([0, 2]))

    def add():
        capacity, weight = dice.choice([None, None, 1, 4]), dice.randint(1, 3)
        if pair := agreement.add(dice.choice(priorities), capacity, weight, dice.random() < 0.8):
            pairs.append(pair)

    changes = [
        lambda pair: add(),
        lambda pair: agreement.disable(pair, dice.choice(["", "x", "y"])),
        lambda pair: agreement.enable(pair, dice.choice([None, None, "", "x", "y"])),
        lambda pair: agreement.set_priority(pair, dice.choice(priorities)),
        lambda pair: agreement.set_weight(pair, dice.randint(1, 3)),
        lambda pair: agreement.set_capacity(pair, dice.choice([None, 1, 4])),
        lambda pair: agreement.clear(pair),
        lambda pair: agreement.remove(pair, dice.randrange(4)),
        lambda pair: agreement.remove_if(pair, dice.randrange(3)),
        lambda pair: agreement.remove_sub_queue(pair),
    ]
    for _ in range(3):
        add()
    for step in range(200):
        pair = dice.choice(pairs)
        match dice.randrange(8):
            case 0 | 1:
                agreement.put_many(pair, dice.randrange(6))
            case 2:
                agreement.put(pair, dice.choice(["nowait", "no block", "no time"]))
            case 3 | 4 | 5:
                agreement.get()
            case 6:
                agreement.get_many(dice.randrange(5))
            case 7:
                dice.choice(changes)(pair)
        if step == 180 and dice.random() < 0.5:
            agreement.shutdown(dice.random() < 0.5)
        agreement.everything_that_can_be_seen_agrees()
