"""A sink may answer for a part of a batch, refuse without naming, or give items up itself: the books stay exact."""

from __future__ import annotations

import random

import pytest

from drainq.delayed import DelayedQueue
from drainq.delivery import DeliveryError, DeliveryStopped, Refused, Rest, SendingWorker, Sink, Unavailable, Undelivered
from drainq.testing import ManualClock
from tests.delivery.helpers import Bench, Letters


class Scripted(Sink):
    """Answers each call by the next of the script, and takes everything once it is over."""

    def __init__(self, *script):
        self.script, self.calls, self.taken = list(script), [], []

    def send(self, items):
        self.calls.append(list(items))
        if not self.script:
            self.taken += items
            return None
        answer = self.script.pop(0)(items)
        if isinstance(answer, Exception):
            raise answer
        return answer


def books(sender):
    stats = sender.stats()
    counts = {name: getattr(stats, name) for name in ("sent", "refused", "dead_lettered", "lost", "pending")}
    assert stats.accepted == sum(counts.values())
    return {name: count for name, count in counts.items() if count}


def test_after_a_part_only_the_rest_is_sent_again_as_the_very_list_that_the_sink_gave():
    rests = []

    def half(items):
        places = range(len(items) // 2, len(items))
        rests.append(Rest([items[place] for place in places], places))
        return Unavailable("busy", after=0.0, rest=rests[-1])

    sink = Scripted(half, half)
    sender = SendingWorker(sink, name="s", retry_for=30.0)
    seen = []
    send = sink.send
    sink.send = lambda items: (seen.append(items), send(items))[1]
    sender(list("abcdefgh"))
    assert [list(call) for call in seen] == [list("abcdefgh"), list("efgh"), list("gh")]
    assert seen[1] is rests[0] and seen[2] is rests[1]
    assert books(sender) == {"sent": 8}
    assert sender.stats().retried == 4 + 2


def test_what_is_refused_in_a_part_is_refused_and_the_rest_goes_on():
    def part(items):
        return Unavailable("busy", after=0.0, rest=Rest([items[3]], [3]), refusals=[(1, "odd")])

    sink = Scripted(part)
    sender = SendingWorker(sink, name="s", retry_for=30.0)
    sender(list("abcd"))
    assert sink.taken == ["d"]
    assert books(sender) == {"sent": 3, "refused": 1}


def test_a_stop_in_the_middle_of_a_batch_gives_up_the_rest_alone():
    sink = Scripted(lambda items: DeliveryStopped("no right", rest=Rest(items[2:], range(2, len(items)))))
    sender = SendingWorker(sink, name="s")
    with pytest.raises(DeliveryError, match="2 items are lost"):
        sender(list("abcd"))
    assert books(sender) == {"sent": 2, "lost": 2}


def test_what_is_given_up_in_the_middle_of_a_halved_batch_is_kept_in_its_order():
    letters = Letters()
    first = Unavailable("away", rest=Rest(["b"], range(1, 2)))
    script = [lambda items: Refused("odd"), lambda items: first, lambda items: Unavailable("away")]
    bench = Bench(Scripted(*script), dead_letters=letters, retry_for=1.0)
    bench.deliver("abcd")
    assert bench.counts() == {"sent": 1, "dead_lettered": 3} and list(letters.kept.values()) == [["b", "c", "d"]]


def test_items_that_are_refused_without_a_name_are_counted_and_none_is_kept(caplog):
    with DelayedQueue.open("memory:", "rest") as delayed:
        sender = SendingWorker(
            Scripted(lambda items: [(None, "odd"), (None, "odd"), (0, "bad")]), name="s", delayed=delayed
        )
        sender(list("abcdef"))
        assert books(sender) == {"sent": 3, "refused": 2, "dead_lettered": 1}
        assert "s: 2 items were refused, it is not said which: odd\n" in caplog.text
        sender.close()


def test_items_that_the_sink_gave_up_on_are_lost_and_those_that_may_have_arrived_are_unknown():
    late = Undelivered("too late", unknown=True)
    sender = SendingWorker(Scripted(lambda items: [(0, late), (2, Undelivered("never sent", unknown=False))]), name="s")
    with pytest.raises(DeliveryError, match="2 items are lost: .*too late.*never sent"):
        sender(list("abcd"))
    assert books(sender) == {"sent": 2, "lost": 2}
    assert sender.stats().unknown == 1


def test_items_that_the_sink_gave_up_on_come_back_from_the_delayed_queue():
    clock = ManualClock()
    late = Undelivered("too late", unknown=True)
    with DelayedQueue.open("memory:", "rest", clock=clock) as delayed:
        sink = Scripted(lambda items: [(0, late), (2, late)])
        sender = SendingWorker(sink, name="s", delayed=delayed, clock=clock)
        sender(list("abcd"))
        assert books(sender) == {"sent": 2, "dead_lettered": 2}
        clock.advance(3_600.0)
        assert sender.flush(60)
        assert sink.taken == ["a", "c"]
        assert books(sender) == {"sent": 4} and sender.stats().unknown == 2
        assert sender.close()


@pytest.mark.parametrize("seed", range(50))
def test_any_mixture_of_answers_accounts_for_each_item_once(seed):
    rng = random.Random(seed)
    clock = ManualClock()

    def mixed(items):
        fate = [rng.choice("sssrnug") for _ in items]
        refusals = [(place, "bad") for place, of in enumerate(fate) if of == "r"]
        refusals += [(None, "odd") for of in fate if of == "n"]
        refusals += [(place, Undelivered("late", unknown=True)) for place, of in enumerate(fate) if of == "u"]
        rest = [place for place, of in enumerate(fate) if of == "g"]
        if rest:
            return Unavailable("busy", after=0.0, rest=Rest([items[p] for p in rest], rest), refusals=refusals)
        return refusals

    with DelayedQueue.open("memory:", "rest", clock=clock) as delayed:
        kept = {"delayed": delayed, "clock": clock} if seed % 2 else {}
        sender = SendingWorker(Scripted(*[mixed] * 4), name="s", retry_for=30.0, **kept)
        for _ in range(3):
            try:
                sender([object() if rng.random() < 0.1 else rng.randrange(3) for _ in range(rng.randrange(20))])
            except DeliveryError:
                assert not kept or sender.stats().lost
            books(sender)
        for _ in range(5):
            clock.advance(3_600.0)
            sender.flush(60)
            assert books(sender).get("pending", 0) == 0
        if kept:
            assert books(sender).get("dead_lettered", 0) == 0
        sender.close()
