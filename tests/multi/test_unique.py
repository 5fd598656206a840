"""A sub-queue with ``unique`` leaves an item out while an equal one waits, and no longer."""

import asyncio
import gc
import random
import threading
import weakref
from collections import Counter
from queue import Full

import pytest

from drainq import MultiQueue, ShutDown, SubQueueRemoved

from .helpers import blocked_putters, eventually, in_thread, totals_add_up


class Word:
    """Equal by its letters, which Python code compares, in any case."""

    def __init__(self, text):
        self.text = text

    def __hash__(self):
        return len(self.text)  # so that words of one length are compared

    def __eq__(self, other):
        return isinstance(other, Word) and self.text.lower() == other.text.lower()


KINDS = {
    "numbers": (lambda number: number, True, lambda item: item),
    "words": (lambda number: Word("ab"[number % 2] * (number // 2 + 1)), True, lambda item: item.text),
    "by key": (lambda number: [number, object()], lambda item: item[0], lambda item: item[0]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(20))
def test_agrees_with_a_list_in_which_each_item_is_looked_up(kind, seed):
    make, unique, identity = KINDS[kind]
    dice, counts, model = random.Random(seed), Counter(), []
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", unique=unique, capacity=6)

    def put(item):
        if identity(item) in map(identity, model):
            counts["duplicates"] += 1
            return False
        model.append(item)
        counts["put"] += 1
        return True

    for _ in range(200):
        item, way = make(dice.randrange(10)), dice.randrange(9)
        if way == 0:
            assert queue.get_many(3, min_items=0) == [model.pop(0) for _ in range(min(3, len(model)))]
        elif way == 1 and model:
            assert queue.peek() is model[0]
            assert queue.get() is model.pop(0)
        elif way == 2 and model:
            assert asyncio.run(queue.get_item_async()) == ("a", model.pop(0))
        elif way == 3 and model:
            gone = dice.choice(model)
            model.remove(gone)
            assert sub.remove(gone)
        elif way == 4:
            odd = [there for there in model if ord(str(identity(there))[-1]) % 2]
            assert sub.remove_if(lambda there: ord(str(identity(there))[-1]) % 2) == odd
            model[:] = [there for there in model if there not in odd]
        elif way == 5 and dice.random() < 0.1:
            assert sub.clear() == model
            model.clear()
        elif len(model) < 5:
            expected = put(item)
            assert dice.choice([sub.put, sub.put_nowait, lambda one: sub.put_many([one, one]) == 1])(item) == expected
            counts["duplicates"] = sub.stats().duplicates
        else:
            more = [make(dice.randrange(10)) for _ in range(3)]
            expected, rest = 0, list(more)
            while rest and (identity(rest[0]) in map(identity, model) or len(model) < 6):
                expected += put(rest.pop(0))
            assert sub.put_many(more, block=False) == expected
        assert list(sub) == model and len(model) == sub.qsize()
        assert all(there in sub for there in model)
        totals_add_up(queue)
    assert sub.stats().put == counts["put"] and queue.stats().duplicates == sub.stats().duplicates > 0


def test_a_put_that_waits_for_room_is_left_out_if_its_item_waits_by_then():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", capacity=2, unique=True)
    sub.put_many([1, 2])
    assert not sub.put(1), "a duplicate needs no room"
    first, second = in_thread(sub.put, 3), None
    eventually(blocked_putters(queue, 1))
    second = in_thread(sub.put, 3)
    eventually(blocked_putters(queue, 2))
    queue.get_many(2)
    assert sorted([first.result(), second.result()]) == [False, True]
    assert (list(sub), queue.stats().blocked_putters) == ([3], 0)


def test_a_task_that_waits_and_one_that_is_cancelled():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", capacity=1, unique=str.lower)

    async def run():
        assert await sub.put_async("x") and not await sub.put_async("X")
        tasks = [asyncio.ensure_future(sub.put_async(item)) for item in ("y", "Y", "z")]
        await asyncio.sleep(0)
        tasks[0].cancel()
        assert await queue.get_async() == "x"
        assert await tasks[1]
        assert await queue.get_async() == "Y"
        assert await tasks[2]
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())
    assert sub.put_many(["Z", "z"], block=False) == 0
    assert (list(sub), sub.stats().rejected) == (["z"], 1)


def test_a_duplicate_is_refused_after_the_end_and_its_key_is_forgotten():
    queue = MultiQueue()
    sub, other = queue.add_sub_queue("a", unique=True), queue.add_sub_queue("b", unique=True)
    word = Word("a")
    gone = weakref.ref(word)
    sub.put(1), other.put(1), other.put(word)
    sub.disable("pause")
    assert not sub.put(1)
    queue.remove_sub_queue("a")
    with pytest.raises(SubQueueRemoved):
        sub.put(1)
    queue.shutdown(immediate=True)
    with pytest.raises(ShutDown):
        other.put(1)
    del word
    assert (gone(), sub.clear(), sub.stats().duplicates) == (None, [1], 1)


def test_code_of_the_key_may_use_the_queue_and_what_it_raises_changes_nothing():
    queue = MultiQueue()

    def key(item):
        if item == "nested":
            sub.put("inner")
        return item if item != "bad" else []

    sub = queue.add_sub_queue("a", unique=key)
    assert sub.put("nested")
    with pytest.raises(TypeError, match="hashable"):
        sub.put("bad")
    with pytest.raises(TypeError, match="hashable") as raised:
        sub.put_many(["one", "bad", "two"])
    assert (raised.value.accepted, list(sub)) == (1, ["inner", "nested", "one"])


def test_a_cycle_through_an_item_and_its_key_is_collected():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", unique=lambda item: item)
    word = Word("a")
    word.sub = sub
    sub.put(word)
    gone = weakref.ref(word)
    del word, sub, queue
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("unique", [1, "id", lambda: None])
def test_what_makes_no_key_is_refused(unique):
    with pytest.raises(TypeError, match="unique"):
        MultiQueue().add_sub_queue("a", unique=unique)


def test_an_item_that_finds_no_room_is_no_duplicate_of_one_that_another_thread_is_putting():
    """Without a GIL two puts of equal items run at once; neither may see the key of the other before its item is in."""
    sub = MultiQueue().add_sub_queue("s", capacity=1, unique=True)
    assert sub.put("in the way")
    answers = []

    def put():
        for _ in range(5_000):
            try:
                answers.append(sub.put_nowait("k"))
            except Full:
                pass

    threads = [threading.Thread(target=put) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [] and sub.stats().rejected == 15_000 and sub.stats().duplicates == 0
