"""Installing and uninstalling ticks: the messages that another configuration drops, and those it keeps."""

from __future__ import annotations

import pytest

from drainq.delayed import CronMessage, DeliveryType
from tests.delayed.cron.ticks import LEASE, after, drain, key_of, planned


def test_a_tick_is_delivered_at_its_time_and_not_before(queue, clock):
    assert queue.cron.install_tick("h", "p", [CronMessage("one", after(10)), CronMessage("two", after(20))]) == 2
    assert drain(queue) == []
    clock.advance(15)
    assert drain(queue) == ["one"]
    clock.advance(10)
    assert drain(queue) == ["two"]


def test_two_ticks_in_one_second_are_two_messages(queue, clock):
    queue.cron.install_tick("h", "p", [CronMessage("one", after(1.1)), CronMessage("two", after(1.9))])
    clock.advance(2)
    assert drain(queue) == ["one", "two"]


def test_the_time_of_delivery_may_differ_from_the_tick(queue, clock):
    queue.cron.install_tick("h", "p", [CronMessage("late", after(10), after(60))])
    assert planned(queue, ("h", "p", 10)) == [True]
    clock.advance(59)
    assert drain(queue) == []
    clock.advance(1)
    assert drain(queue) == ["late"]


def test_another_configuration_drops_what_the_old_one_had_planned(queue, clock):
    queue.cron.install_tick("old", "p", [CronMessage("old", after(5))])
    queue.cron.install_tick("new", "p", [CronMessage("new", after(10))])
    assert planned(queue, ("old", "p", 5), ("new", "p", 10)) == [False, True]
    clock.advance(10)
    assert drain(queue) == ["new"]


@pytest.mark.parametrize("given_back", ["in flight", "expired", "nacked"])
def test_a_tick_that_was_delivered_but_not_acknowledged_survives_another_configuration(queue, clock, given_back):
    queue.cron.install_tick("old", "p", [CronMessage("tick", after(0))])
    envelope = queue.try_poll()
    assert envelope.delivery_type is DeliveryType.FIRST_DELIVERY
    if given_back == "expired":
        clock.advance(LEASE + 1)
    if given_back == "nacked":
        assert envelope.nack(delay=LEASE / 2)
    queue.cron.install_tick("new", "p", [])
    queue.cron.install_tick("old", "p", [CronMessage("tick again", after(0))])
    clock.advance(LEASE + 1)
    again = queue.try_poll()
    assert (again.payload, again.delivery_type) == ("tick", DeliveryType.REDELIVERY)
    assert again.ack()
    assert drain(queue) == []


def test_uninstalling_drops_this_configuration_of_this_prefix_only(queue):
    for config, prefix in (("h", "p"), ("h", "other")):
        queue.cron.install_tick(config, prefix, [CronMessage("x", after(10)), CronMessage("y", after(20))])
    queue.offer_or_update("p/mine", "not a tick", after(10))
    assert queue.cron.uninstall_tick("another", "p") == 0
    assert queue.cron.uninstall_tick("h", "p") == 2
    assert planned(queue, ("h", "p", 10), ("h", "p", 20), ("h", "other", 10)) == [False, False, True]
    assert queue.contains_message("p/mine")


def test_a_configuration_that_comes_back_plans_its_future_again_and_not_its_past(queue, clock):
    ticks = [CronMessage("past", after(5)), CronMessage("future", after(60))]
    queue.cron.install_tick("a", "p", ticks)
    clock.advance(10)
    assert drain(queue) == ["past"]
    queue.cron.install_tick("b", "p", [CronMessage("b", after(60))])
    assert queue.cron.install_tick("a", "p", ticks) == 1
    clock.advance(60)
    assert drain(queue) == ["future"]


# --- names


HOSTILE = ["a", "a/x", "a/h", "A", "a_b", "aXb", "50%", "50%%", "o'clock", 'say "x"', "back\\slash", "é", "e\u0301"]
HOSTILE += ["🕐 /", " a", "{table}", "%s", ":p", "a--", "a;"]


def test_messages_that_are_no_ticks_are_left_alone(queue):
    keys = [
        "p",
        "p/",
        "p/x",
        "p/x/y",
        "p/x/20250101-000000",
        "p/x/20250101-000000.0000000000",
        "p/x/y/20250101-000000.000000000",
    ]
    for key in keys:
        queue.offer_or_update(key, "mine", after(100))
    queue.cron.install_tick("h", "p", [])
    assert [key for key in keys if not queue.contains_message(key)] == []


def test_ticks_that_another_implementation_made_are_taken_over(queue, clock):
    """They have no entry in the ledger: the old configuration's go, this one's stays as it is."""
    ours, theirs = key_of("h", "p", after(10)), key_of("old", "p", after(10))
    queue.offer_or_update(ours, "there before", after(10))
    queue.offer_or_update(theirs, "old", after(10))
    assert queue.cron.install_tick("h", "p", [CronMessage("ours", after(10))]) == 0
    clock.advance(10)
    assert drain(queue) == ["there before"]
