"""The N best of each group."""

from __future__ import annotations

import random

import pytest

from drainq.workers import TopN


@pytest.fixture
def sent():
    return []


@pytest.mark.parametrize("seed", range(50))
def test_agrees_with_sorting_everything(seed, sent):
    rng = random.Random(seed)
    items = [(rng.randrange(20), place) for place in range(rng.randrange(60))]
    late = []

    def sink(best):
        if late:  # it fails, and meanwhile more has come
            top(late.pop())
            raise OSError("down")
        sent.append(best)

    top = TopN(5, score=lambda item: item[0], sink=sink)
    for start in range(0, len(items), 14):
        top(items[start : start + 7])
        late.append(items[start + 7 : start + 14])
        assert top.flush() is False
    assert top.flush()
    expected = sorted(items, key=lambda item: (-item[0], item[1]))[:5]
    assert sent == ([expected] if expected else [])


@pytest.mark.parametrize("seed", range(20))
def test_each_group_is_ranked_by_itself(seed, sent):
    rng = random.Random(seed)
    items = [(rng.choice("abc"), rng.randrange(9), place) for place in range(40)]
    top = TopN(3, score=lambda item: item[1], group=lambda item: item[0], sink=sent.append)
    for start in range(0, 40, 7):
        top(items[start : start + 7])
    top.close()
    groups = dict.fromkeys(item[0] for item in items)
    expected = [(g, sorted((i for i in items if i[0] == g), key=lambda i: (-i[1], i[2]))[:3]) for g in groups]
    assert sent == [expected]


def test_the_first_items_are_not_taken_for_sorted(sent):
    top = TopN(3, score=float, sink=sent.append)
    top([100, 1, 2, 50])
    top.flush()
    assert sent == [[100, 50, 2]]


def test_begins_anew_after_a_flush(sent):
    top = TopN(2, score=float, sink=sent.append)
    top([9, 8])
    top.flush()
    top([1])
    top.flush()
    top.flush()
    assert sent == [[9, 8], [1]]


def test_items_produced_through_its_own_queue_are_ranked_at_close(sent):
    with TopN(2, score=float, sink=sent.append) as top:
        assert top.produce(1) and top.produce_many([5, 3]) == 2
    assert sent == [[5, 3]]
    stats = top.stats()
    assert (stats.sent, stats.lost, stats.queue.handled) == (3, 0, 3)


def test_a_batch_with_an_item_that_has_no_score_is_not_taken_in_part(sent):
    top = TopN(2, score=float, sink=sent.append)
    with pytest.raises(ValueError):
        top([1, "x"])
    top.flush()
    assert sent == []
