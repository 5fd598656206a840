"""Dead letters are kept in order, sent again in order, and counted once."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from drainq.delayed import DelayedQueue
from drainq.delivery import Books, Outcome, Refused, Sink, Unavailable, Undelivered
from drainq.delivery.dead_letters import MESSAGES_AT_ONCE, RESEND_DELAY, DeadLetters
from drainq.delivery.payload import unpack
from drainq.delivery.sink_contract import Rest
from tests.delivery.helpers import Bench, Table


class Desk:
    """Dead letters with books of their own; items are (amount, name)."""

    def __init__(self, delayed, clock, *, label="visits", **more):
        self.books, self.delayed, self.clock = Books(), delayed, clock
        self.letters = DeadLetters(delayed, label=label, books=self.books, clock=clock, size=amounts, **more)
        self.told = 0
        self.letters.on_sent = self.hear

    def hear(self):
        self.told += 1

    def give_up(self, items, error="Unavailable: away"):
        self.books.arrive(amounts(items))
        self.books.move(amounts(items), Outcome.PENDING, Outcome.DEAD_LETTERED)
        return self.letters.park(items, error)

    def give_up_each(self, items, errors):
        self.books.arrive(amounts(items))
        self.books.move(amounts(items), Outcome.PENDING, Outcome.DEAD_LETTERED)
        return self.letters.park_each(items, errors)

    def counts(self):
        return {outcome.value: count for outcome in Outcome if (count := self.books.count(outcome))}

    def kept(self):
        """Return the items that wait, message by message, with the tries and the error that are noted beside them."""
        found = [self.delayed.read(row.key).payload for row in self.delayed.peek(10)]
        return [([unpack(item) for item in each["items"]], each["tries"], each["error"]) for each in found]


def amounts(items):
    return sum(amount for amount, _ in items)


def by_name(item):
    return item[1]


A, B, C = (5, "a"), (7, "b"), (11, "c")


def test_a_message_is_due_after_the_delay_and_not_before(delayed, clock):
    desk, table = Desk(delayed, clock), Table()
    desk.give_up([A, B])
    clock.advance(RESEND_DELAY - 0.001)
    assert desk.letters.resend(table) and table.rows == []
    clock.advance(0.001)
    assert desk.letters.resend(table) and table.rows == [A, B]
    assert desk.counts() == {"sent": 12} and desk.told == 1


def test_what_fails_again_waits_again_with_its_last_error_and_the_number_of_tries(delayed, clock):
    desk, table = Desk(delayed, clock), Table(poison={B})
    desk.give_up([A, B, C], "Unavailable: away")
    for tries in (1, 2):
        clock.advance(RESEND_DELAY)
        assert desk.letters.resend(table)
        assert desk.kept() == [([B], tries, "Refused: poison in the batch")]
    assert table.rows == [A, C] and desk.counts() == {"sent": 16, "dead_lettered": 7}
    assert delayed.stats().scheduled == 1  # not due again at once


def test_a_message_that_meets_an_outage_stands_first_again_and_ends_the_turn(delayed, clock):
    desk, table = Desk(delayed, clock), Table()
    desk.give_up([A])
    desk.give_up([B])
    clock.advance(RESEND_DELAY)
    table.down = Unavailable("away")
    assert desk.letters.resend(table) is False
    assert table.calls == 1 and desk.told == 0 and desk.counts() == {"dead_lettered": 12}
    table.down = None
    assert desk.letters.resend(table) and table.rows == [A, B]


def test_an_outage_in_the_middle_of_a_message_leaves_all_that_was_not_sent(delayed, clock):
    class Breaks(Table):
        def send(self, items):
            self.down = Unavailable("away") if self.rows else Refused("too many") if len(items) > 1 else None
            super().send(items)

    desk, table = Desk(delayed, clock), Breaks()
    desk.give_up([A, B, C, (1, "d")])
    clock.advance(RESEND_DELAY)
    assert desk.letters.resend(table) is False and table.rows == [A]
    assert desk.kept() == [([B, C, (1, "d")], 1, "Unavailable: away")]
    assert desk.counts() == {"sent": 5, "dead_lettered": 19}


def test_items_that_are_refused_without_a_name_are_refused_and_not_kept(delayed, clock):
    class Partial(Sink):
        def send(self, items):
            return [(None, "one of them is odd")] if len(items) > 1 else None

    desk = Desk(delayed, clock)
    desk.give_up([(1, "a"), (1, "b"), (1, "c")])
    clock.advance(RESEND_DELAY)
    assert desk.letters.resend(Partial())
    assert desk.counts() == {"sent": 2, "refused": 1} and desk.kept() == []


def test_what_the_sink_leaves_undone_is_kept_and_what_may_have_arrived_is_noted(delayed, clock):
    class Slow(Sink):
        def send(self, items):
            return [(1, Undelivered("too slow", unknown=True)), (2, Undelivered("too late", unknown=False))]

    desk = Desk(delayed, clock)
    desk.give_up([A, B, C])
    clock.advance(RESEND_DELAY)
    assert desk.letters.resend(Slow())
    assert desk.kept() == [([B, C], 1, "Undelivered: too late")]
    assert desk.counts() == {"sent": 5, "dead_lettered": 18} and desk.books.stats().unknown == 7


def test_a_sink_that_did_a_part_is_believed_and_the_rest_is_kept(delayed, clock):
    class Part(Sink):
        def send(self, items):
            raise Unavailable("away", rest=Rest(items[2:], range(2, len(items))), refusals=[(1, Refused("odd"))])

    desk = Desk(delayed, clock)
    desk.give_up([A, B, C])
    clock.advance(RESEND_DELAY)
    assert desk.letters.resend(Part()) is False
    assert desk.counts() == {"sent": 5, "dead_lettered": 18}
    assert desk.kept() == [([B, C], 1, "Unavailable: away")] and desk.told == 1


def test_a_turn_ends_by_its_deadline_or_its_own_and_when_it_is_stopped(delayed, clock, monkeypatch):
    for stops_by in ((math.inf, -math.inf), (-math.inf, None), (-math.inf, math.inf), None):
        stops, goes_on = stops_by is None, stops_by is not None
        desk, table = Desk(delayed, clock, label=f"visits {stops}"), Table()
        desk.give_up([A])
        desk.give_up([B])
        clock.advance(RESEND_DELAY)
        if stops:
            desk.letters.on_sent = desk.letters.stop
            assert desk.letters.resend(table) is False
        else:
            longest, deadline = stops_by
            monkeypatch.setattr("drainq.delivery.dead_letters.RESEND_TIME", longest)
            assert desk.letters.resend(table, deadline=deadline) is False
            monkeypatch.undo()
        assert table.rows == [A]  # the message that it was at, and no further
        assert desk.letters.resend(table) is goes_on
        assert table.rows == ([A, B] if goes_on else [A])
        delayed.drop_all_messages("Yes, please, I know what I'm doing!")


def test_one_turn_at_a_time(delayed, clock):
    desk, answers = Desk(delayed, clock), []

    class Nested(Table):
        def send(self, items):
            answers.append(desk.letters.resend(self))
            super().send(items)

    desk.give_up([A])
    clock.advance(RESEND_DELAY)
    table = Nested()
    assert desk.letters.resend(table) and answers == [False] and table.rows == [A]


def test_each_refused_item_has_a_message_with_its_own_reason(delayed, clock):
    desk = Desk(delayed, clock)
    assert desk.give_up_each([A, B], ["odd", "even"]) == [True, True]
    assert desk.kept() == [([A], 0, "odd"), ([B], 0, "even")]


def test_more_items_than_go_in_at_once_are_all_kept(delayed, clock):
    desk, table = Desk(delayed, clock), Table()
    items = [(1, n) for n in range(MESSAGES_AT_ONCE + 1)]
    assert desk.give_up_each(items, ["odd"] * len(items)) == [True] * len(items)
    clock.advance(RESEND_DELAY)
    while not desk.letters.resend(table):
        pass
    assert table.rows == items and desk.counts() == {"sent": len(items)}


class Failing:
    """A delayed queue that takes so many messages, and then none."""

    def __init__(self, delayed, takes):
        self._delayed, self._left = delayed, takes

    def __getattr__(self, name):
        return getattr(self._delayed, name)

    def offer_batch(self, messages):
        self._left -= len(messages)
        if self._left < 0:
            raise OSError("disk full")
        return self._delayed.offer_batch(messages)


def test_what_the_delayed_queue_does_not_take_is_said_item_by_item(delayed, clock, caplog):
    items = [(1, n) for n in range(MESSAGES_AT_ONCE + 1)]
    desk = Desk(Failing(delayed, MESSAGES_AT_ONCE), clock)
    assert desk.letters.park_each([*items, (1, 1j)], ["odd"] * 600) == [*[True] * MESSAGES_AT_ONCE, False, False]
    assert "visits: an item cannot be kept: " in caplog.text
    assert f"visits: the delayed queue did not take all of {MESSAGES_AT_ONCE + 2} items" in caplog.text
    assert delayed.stats().scheduled == MESSAGES_AT_ONCE
    desk = Desk(Failing(delayed, MESSAGES_AT_ONCE), clock, key_of=by_name, label="with keys")
    desk.letters.park_each(items, ["odd"] * len(items))
    desk.letters.were_sent(items[:-1])
    assert desk.letters.order() is None  # of the one that was not taken nothing is kept that could be replaced
    with pytest.raises(OSError, match="disk full"):  # none of them: the caller has to know why
        Desk(Failing(delayed, 0), clock).letters.park_each(items, ["odd"] * len(items))


def test_a_message_of_another_sink_is_put_off_with_the_reason_and_the_turn_goes_on(delayed, clock):
    theirs, ours, table = Desk(delayed, clock, label="orders"), Desk(delayed, clock), Table()
    theirs.give_up([A])
    ours.give_up([B])
    clock.advance(RESEND_DELAY)
    assert ours.letters.resend(table) and table.rows == [B]
    assert ours.counts() == {"sent": 7} and theirs.counts() == {"dead_lettered": 5}
    assert delayed.stats().scheduled == 1  # for its own worker, later
    clock.advance(RESEND_DELAY)
    assert theirs.letters.resend(table) and table.rows == [B, A]
    with DelayedQueue.open("memory:", "once", clock=clock, max_attempts=1) as once:
        Desk(once, clock, label="orders").give_up([A])
        clock.advance(RESEND_DELAY)
        assert Desk(once, clock).letters.resend(table)
        clock.advance(RESEND_DELAY)
        assert once.try_poll() is None and "it belongs to 'orders'" in once.dead_letters()[0].error


def test_what_another_worker_of_the_name_gave_up_on_is_its_own_to_count(delayed, clock):
    first, second, table = Desk(delayed, clock), Desk(delayed, clock), Table(poison={B})
    first.give_up([A, B])
    clock.advance(RESEND_DELAY)
    assert second.letters.resend(table)
    assert first.counts() == {"dead_lettered": 12} and second.counts() == {}
    assert second.books.stats().resent == 5
    table.poison = set()
    clock.advance(RESEND_DELAY)
    assert first.letters.resend(table) and first.counts() == {"dead_lettered": 5, "sent": 7}


def test_a_message_that_another_worker_took_meanwhile_is_the_others_to_count(delayed, clock, caplog):
    class Slow(Table):
        def send(self, items):
            clock.advance(3600)  # the lease has ended
            assert delayed.try_poll() is not None
            super().send(items)

    desk = Desk(delayed, clock)
    desk.give_up([A])
    clock.advance(RESEND_DELAY)
    assert desk.letters.resend(Slow()) and desk.counts() == {"dead_lettered": 5} and desk.told == 0
    assert "was sent, and may be sent again" in caplog.text


def test_a_message_that_is_gone_before_its_items_are_taken_out_is_not_counted_as_sent(delayed, clock):
    desk = Desk(delayed, clock, key_of=by_name)
    desk.give_up([A])
    desk.letters._delayed = Failing(delayed, 0)
    desk.letters._delayed.drop_message = lambda key: False
    sent_newer(desk, [(1, "a")])
    assert desk.counts() == {"dead_lettered": 5}


def test_a_long_name_leaves_room_for_the_rest_of_a_messages_key(delayed, clock):
    desk, table = Desk(delayed, clock, label="t" * 500), Table()
    desk.give_up([A])
    clock.advance(RESEND_DELAY)
    assert delayed.peek(1)[0].key.startswith("t" * 120 + "/")
    assert desk.letters.resend(table) and table.rows == [A]


def test_withdrawn_is_gone_and_says_whether_it_was_there(delayed, clock, caplog):
    desk = Desk(delayed, clock, key_of=by_name)
    key = desk.give_up([A])
    assert desk.letters.order() is not None
    assert desk.letters.withdraw(key) is True and desk.letters.withdraw(key) is False
    assert desk.letters.order() is None  # there is nothing left that a newer item could replace
    assert desk.kept() == []
    delayed.drop_message = lambda key: 1 / 0
    assert desk.letters.withdraw(key) is False
    assert f"visits: message {key!r} could not be taken out of the delayed queue" in caplog.text


def sent_newer(desk, items):
    """Newer items reach the sink, as the delivery tells it."""
    with desk.letters.order():
        desk.letters.were_sent(items)


def test_a_newer_item_takes_each_older_one_of_its_key_out_of_its_message(delayed, clock):
    desk, table = Desk(delayed, clock, key_of=by_name), Table()
    desk.give_up([(5, "a"), (7, "b")])
    desk.give_up([(2, "a")])
    sent_newer(desk, [(1, "a")])
    assert desk.counts() == {"dead_lettered": 7, "sent": 7}  # 5 and 2 were replaced
    clock.advance(RESEND_DELAY)
    assert desk.letters.resend(table) and table.rows == [(7, "b")]
    assert desk.counts() == {"sent": 14} and desk.letters.order() is None


def test_with_a_sink_for_older_items_these_are_added_after_the_newer_one(delayed, clock):
    older, table = Table(), Table()
    older.down = Unavailable("away")
    desk = Desk(delayed, clock, key_of=by_name, older_sink=older)
    desk.give_up([(5, "a"), (7, "b")])
    desk.give_up([(2, "a")])
    clock.advance(1)
    sent_newer(desk, [(1, "a")])
    assert desk.counts() == {"dead_lettered": 14}
    clock.advance(RESEND_DELAY - 1)
    while not desk.letters.resend(table):
        older.down = None  # a message for the other sink is still one after a try that failed
    assert table.rows == [(7, "b")] and sorted(older.rows) == [(2, "a"), (5, "a")]
    assert desk.counts() == {"sent": 14} and delayed.stats().scheduled == delayed.stats().ready == 0


def test_a_resent_item_replaces_what_was_kept_before_it_and_not_what_came_later(delayed, clock):
    desk = Desk(delayed, clock, key_of=by_name)
    table = Table()
    desk.give_up([(1, "a")])
    desk.give_up([(2, "a"), (3, "b")])
    desk.give_up([(4, "a")])
    rows = delayed.peek(3)
    for row in (rows[0], rows[2]):  # the one in the middle is due alone
        found = delayed.read(row.key)
        delayed.offer_or_update(row.key, found.payload, clock.now() + 2 * RESEND_DELAY)
    clock.advance(RESEND_DELAY)
    assert desk.letters.resend(table) and table.rows == [(2, "a"), (3, "b")]
    assert desk.counts() == {"sent": 6, "dead_lettered": 4}  # 1 was replaced, 4 is newer
    clock.advance(RESEND_DELAY)
    assert desk.letters.resend(table) and table.rows == [(2, "a"), (3, "b"), (4, "a")]
    assert desk.letters.order() is None


def test_of_two_items_of_a_key_in_a_message_the_one_that_stays_can_still_be_replaced(delayed, clock):
    desk, table = Desk(delayed, clock, key_of=by_name), Table(poison={(2, "a")})
    desk.give_up([(1, "a"), (2, "a")])
    clock.advance(RESEND_DELAY)
    assert desk.letters.resend(table) and table.rows == [(1, "a")]
    assert desk.kept() == [([(2, "a")], 1, "Refused: poison in the batch")] and desk.counts()["dead_lettered"] == 2
    sent_newer(desk, [(3, "a")])
    assert desk.kept() == [] and desk.counts() == {"sent": 3}


def test_a_worker_that_begins_knows_the_keys_of_its_own_messages_alone(delayed, clock):
    Desk(delayed, clock, key_of=by_name, label="orders").give_up([A])
    assert Desk(delayed, clock, key_of=by_name).letters.order() is None
    earlier = Desk(delayed, clock, key_of=by_name)
    earlier.give_up([A])
    earlier.give_up([(2, "a")])
    later = Desk(delayed, clock, key_of=by_name)
    sent_newer(later, [(1, "a")])
    assert [items for items, *_ in later.kept()] == [[A]]  # that of the other sink
    assert later.counts() == {}  # what was replaced is another worker's to count
    sums = Desk(delayed, clock, key_of=by_name, label="sums", older_sink=Table())
    sums.give_up([A])
    sent_newer(sums, [(1, "a")])
    assert Desk(delayed, clock, key_of=by_name, label="sums").letters.order() is None  # what is older replaces nothing


@pytest.mark.parametrize("item", [(1,), (1, ["no hash"])])
def test_an_item_without_a_usable_key_replaces_nothing_and_is_kept(item, delayed, clock):
    books = Books()
    letters = DeadLetters(delayed, label="visits", books=books, clock=clock, key_of=by_name)
    letters.park([item, (1, "a")], "odd")
    assert letters.order() is not None
    letters.were_sent([item])
    clock.advance(RESEND_DELAY)
    rows = []

    class Rows(Sink):
        def send(self, items):
            rows.extend(items)

    assert letters.resend(Rows()) and rows == [item, (1, "a")]


def test_begun_anew_in_a_child_it_has_a_name_and_keys_of_its_own(delayed, clock):
    desk, table = Desk(delayed, clock, key_of=by_name), Table()
    desk.give_up([A])
    desk.letters.renew()
    desk.books.renew()
    assert desk.letters.order() is None
    desk.give_up([B])
    clock.advance(RESEND_DELAY)
    assert desk.letters.resend(table) and table.rows == [A, B]
    assert desk.counts() == {"sent": 7} and desk.books.stats().resent == 5


def test_while_newer_items_are_sent_no_older_ones_are_sent_again_and_the_other_way_round(delayed, clock):
    desk, held = Desk(delayed, clock, key_of=by_name), []

    class Watched(Sink):
        def send(self, items):
            held.append(order.locked())

    desk.give_up([A])
    order = desk.letters.order()
    Bench(Watched(), dead_letters=desk.letters).deliver([B])
    clock.advance(RESEND_DELAY)
    assert desk.letters.resend(Watched())
    Bench(Watched(), dead_letters=desk.letters).deliver([B])  # nothing is kept any more that it could replace
    assert held == [True, True, False]


def test_a_delayed_queue_that_cannot_be_read_is_said_and_nothing_is_counted_as_replaced(delayed, clock, caplog):
    def away(*_):
        raise OSError("away")

    desk, read = Desk(delayed, clock, key_of=by_name), SimpleNamespace(peek=away, read=away)
    desk.give_up([A])
    [message] = desk.letters._kept["a"]
    desk.letters._delayed = read
    sent_newer(desk, [(1, "a")])
    desk.letters._delayed.read = lambda key: None  # another worker has sent it
    desk.letters._kept["a"] = [message]
    sent_newer(desk, [(1, "a")])
    assert desk.counts() == {"dead_lettered": 5}
    Desk(read, clock, key_of=by_name)
    assert [line.partition(": OSError")[0] for line in caplog.messages] == [
        f"visits: replaced items could not be taken out of message {message!r}",
        "visits: the delayed queue could not be read; order with what it keeps is not known",
    ]
