"""A waiting ``get_many`` takes no item before there are enough, and no other getter starves."""

import pytest

from drainq import MultiQueue, ShutDown

from .helpers import PATIENCE, blocked_getters, blocked_putters, drain, ended, eventually, in_thread, totals_add_up


class First:
    """A selection of one's own that does what the core does."""

    def select(self, groups):
        return groups[0][0]


@pytest.fixture(params=["core", "object"])
def queue(request):
    return MultiQueue() if request.param == "core" else MultiQueue(First())


@pytest.mark.parametrize("attempt", range(20))
def test_of_two_that_want_ten_one_is_served_with_ten(queue, attempt):
    subs = [queue.add_sub_queue(key) for key in "ab"]
    bulks = [in_thread(queue.get_many, 10, min_items=10) for _ in range(2)]
    eventually(blocked_getters(queue, 2))
    putters = [in_thread(sub.put_many, range(5)) for sub in subs]
    eventually(lambda: any(bulk.done() for bulk in bulks))
    with ended(*putters):
        pass
    assert [len(bulk.result(PATIENCE)) for bulk in bulks if bulk.done()] == [10]
    assert queue.stats().depth == 0
    subs[0].put_many(range(10))
    assert [len(bulk.result(PATIENCE)) for bulk in bulks] == [10, 10]
    totals_add_up(queue)


def test_what_it_waits_beside_can_be_seen_and_got_by_others(queue):
    sub = queue.add_sub_queue("a")
    bulk = in_thread(queue.get_many, 3, min_items=3)
    eventually(blocked_getters(queue, 1))
    sub.put_many([1, 2])
    assert (queue.qsize(), queue.peek(), list(sub), queue.stats().got) == (2, 1, [1, 2], 0)
    assert queue.get() == 1
    sub.put_many([3, 4])
    assert bulk.result(PATIENCE) == [2, 3, 4]


def test_a_get_behind_it_is_served_with_what_is_too_little_for_it(queue):
    sub = queue.add_sub_queue("a")
    bulk = in_thread(queue.get_many, 3, min_items=3)
    eventually(blocked_getters(queue, 1))
    single = in_thread(queue.get)
    eventually(blocked_getters(queue, 2))
    sub.put(1)
    assert single.result(PATIENCE) == 1
    sub.put_many([2, 3, 4])
    assert bulk.result(PATIENCE) == [2, 3, 4]


def test_a_smaller_one_behind_a_larger_one_is_served_first_if_there_is_enough_for_it(queue):
    sub = queue.add_sub_queue("a")
    large = in_thread(queue.get_many, 5, min_items=5)
    eventually(blocked_getters(queue, 1))
    small = in_thread(queue.get_many, 2, min_items=2)
    eventually(blocked_getters(queue, 2))
    sub.put_many([1, 2])
    assert small.result(PATIENCE) == [1, 2]
    sub.put_many(range(5))
    assert large.result(PATIENCE) == list(range(5))


def test_more_than_a_full_sub_queue_can_hold_is_gathered_by_the_first_alone(queue):
    sub = queue.add_sub_queue("a", capacity=2)
    bulks = [in_thread(queue.get_many, 5, min_items=5) for _ in range(2)]
    eventually(blocked_getters(queue, 2))
    putter = in_thread(sub.put_many, range(10))
    got = [bulk.result(PATIENCE) for bulk in bulks]
    assert sorted(got) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert putter.result(PATIENCE) == 10
    totals_add_up(queue)


def test_a_producer_at_one_full_sub_queue_is_let_in_although_others_have_room(queue):
    full, _idle = queue.add_sub_queue("full", capacity=2), queue.add_sub_queue("idle")
    bulk = in_thread(queue.get_many, 3, min_items=3)
    eventually(blocked_getters(queue, 1))
    assert in_thread(full.put_many, [1, 2, 3]).result(PATIENCE) == 3
    assert bulk.result(PATIENCE) == [1, 2, 3]


def test_a_capacity_that_is_lowered_to_what_is_there_lets_it_hold(queue):
    sub = queue.add_sub_queue("a", capacity=10)
    bulk = in_thread(queue.get_many, 3, min_items=3)
    eventually(blocked_getters(queue, 1))
    sub.put_many([1, 2])
    assert queue.qsize() == 2
    sub.capacity = 2
    eventually(lambda: queue.qsize() == 0)
    assert (queue.stats().depth, sub.stats().depth, sub.stats().got) == (2, 2, 0)
    sub.put(3)
    assert bulk.result(PATIENCE) == [1, 2, 3]
    totals_add_up(queue)


def test_when_time_runs_out_it_takes_what_is_there_and_what_it_held(queue):
    free, full = queue.add_sub_queue("free"), queue.add_sub_queue("full", capacity=1)
    assert queue.get_many(3, min_items=3, timeout=0) == []
    full.put("held")
    for doubled in range(7):
        bulk = in_thread(queue.get_many, 9, min_items=9, timeout=0.1 * 2**doubled)
        eventually(lambda: queue.qsize() == 0)
        free.put("free")
        if (got := bulk.result(PATIENCE)) != ["held"]:
            break
        assert queue.get() == "free", "the time ran out before the second item was there, on a busy machine"
        full.put("held")
    assert got == ["held", "free"]
    totals_add_up(queue)


@pytest.mark.parametrize("immediate", [False, True])
def test_a_shutdown_ends_it_with_what_it_held(queue, immediate):
    sub = queue.add_sub_queue("a", capacity=1)
    bulk = in_thread(queue.get_many, 3, min_items=3)
    sub.put(1)
    eventually(lambda: queue.qsize() == 0)
    queue.shutdown(immediate=immediate)
    assert bulk.result(PATIENCE) == [1]
    with pytest.raises(ShutDown):
        queue.get_many(3)
    totals_add_up(queue)


def test_what_it_held_of_a_sub_queue_that_is_removed_is_among_the_leftovers_in_order(queue):
    gone, stays = queue.add_sub_queue("gone", capacity=2), queue.add_sub_queue("stays", capacity=1)
    bulk = in_thread(queue.get_many, 4, min_items=4)
    gone.put_many(["precious", "jewel"])
    stays.put("other")
    eventually(lambda: queue.qsize() == 0)
    del gone
    assert queue.remove_sub_queue("gone").clear() == ["precious", "jewel"]
    eventually(lambda: queue.stats().depth == 1)
    stays.put_many(["second", "third", "fourth"])
    assert bulk.result(PATIENCE) == ["other", "second", "third", "fourth"]
    totals_add_up(queue)


def test_a_selection_that_raises_loses_nothing_of_a_sub_queue_that_it_removed():
    left = []

    class Fails:
        asked = 0

        def select(self, groups):
            self.asked += 1
            if self.asked == 2:
                left.extend(queue.remove_sub_queue("a").clear())
                raise LookupError
            return groups[0][0]

    queue = MultiQueue(Fails())
    queue.add_sub_queue("a").put("x")
    queue.add_sub_queue("b").put("y")
    with pytest.raises(LookupError):
        queue.get_many(2)
    assert (left, drain(queue)) == (["x"], ["y"])
    totals_add_up(queue)


def test_a_selection_that_lets_another_take_gives_back_what_is_too_little():
    class LetsAnotherTake:
        asked = 0

        def select(self, groups):
            self.asked += 1
            if self.asked == 2:
                stolen.append(in_thread(queue.get).result(PATIENCE))
            return groups[0][0]

    stolen = []
    queue = MultiQueue(LetsAnotherTake())
    sub = queue.add_sub_queue("a")
    sub.put_many([1, 2, 3])
    bulk = in_thread(queue.get_many, 3, min_items=3)
    eventually(blocked_getters(queue, 1))
    assert (stolen, list(sub)) == ([2], [1, 3])
    sub.put(4)
    assert bulk.result(PATIENCE) == [1, 3, 4]
    totals_add_up(queue)


def test_many_bulk_getters_and_getters_of_one_share_everything(queue):
    subs = [queue.add_sub_queue(key, capacity=7) for key in "abc"]
    count, got = 600, []

    def bulk(least):
        while True:
            try:
                got.extend(queue.get_many(least + 2, min_items=least))
            except ShutDown:
                return

    def single():
        while True:
            try:
                got.append(queue.get())
            except ShutDown:
                return

    getters = [in_thread(bulk, least) for least in (2, 3, 5, 9)] + [in_thread(single)]
    putters = [in_thread(sub.put_many, [(key, n) for n in range(count)]) for key, sub in zip("abc", subs)]
    for putter in putters:
        assert putter.result(PATIENCE) == count
    queue.shutdown()
    for getter in getters:
        getter.result(PATIENCE)
    assert sorted(got) == [(key, n) for key in "abc" for n in range(count)]
    totals_add_up(queue)
    assert blocked_putters(queue, 0)()


@pytest.mark.parametrize("min_items", [0, 1])
def test_none_of_the_items_is_asked_for_and_nothing_is_waited_for(min_items):
    queue = MultiQueue()
    sub = queue.add_sub_queue("a")
    for expected in ([], ["x"]):
        assert in_thread(queue.get_many, 0, min_items=min_items).result(PATIENCE) == []
        assert list(sub) == expected
        sub.put("x")
    assert queue.stats().got == 0


@pytest.mark.parametrize("n", range(-1, 4))
@pytest.mark.parametrize("min_items", range(-1, 5))
@pytest.mark.parametrize("held", [0, 1, 2, 5])
def test_every_pair_of_amounts_gives_what_is_there_or_is_refused(queue, n, min_items, held):
    """At least ``min_items`` of ``n``: 0 to ``n``, and 1, which is the default, for an ``n`` of 0 or less."""
    queue.add_sub_queue("a").put_many(range(held))
    if not 0 <= min_items <= max(n, 1):
        with pytest.raises(ValueError, match=rf"min_items must be 0 to n \({n}\) items, got {min_items}"):
            queue.get_many(n, min_items=min_items, timeout=0)
        taken = 0
    else:
        taken = min(max(n, 0), held)
        assert queue.get_many(n, min_items=min_items, timeout=0) == list(range(taken))
    stats = queue.stats()
    assert (stats.put, stats.got, stats.depth, stats.blocked_getters) == (held, taken, held - taken, 0)
