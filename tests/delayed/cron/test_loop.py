"""The loop of a schedule: the times of its checks, its errors, and its end."""

from __future__ import annotations

import logging
import threading
from datetime import datetime, timedelta

import pytest

from drainq.delayed import CronMessage, DeliveryType
from drainq.errors import ShutDown
from tests.delayed.cron.ticks import LEASE, START, after, drain


def test_the_first_look_is_over_when_install_returns(queue):
    with queue.cron.install("h", "p", 3600, lambda now: [CronMessage("x", now + timedelta(seconds=5))]):
        assert queue.stats().scheduled == 1


def test_the_loop_looks_again_in_real_time_while_the_clock_stands_still(queue):
    looks = threading.Semaphore(0)
    with queue.cron.install("h", "p", 0.001, lambda now: [looks.release()][:0]):
        assert all(looks.acquire(timeout=10) for _ in range(5))


def test_the_loop_looks_again_when_the_clock_moves_on(queue, clock):
    looks = threading.Semaphore(0)
    with queue.cron.install("h", "p", 3600, lambda now: [looks.release()][:0]):
        for _ in range(3):
            assert looks.acquire(timeout=10)
            clock.advance(3600)


def test_a_generator_that_raises_is_logged_and_the_loop_goes_on(queue, caplog):
    looks = threading.Semaphore(0)

    def generate(now: datetime) -> list[CronMessage]:
        looks.release()
        raise RuntimeError("no idea what to send")

    with caplog.at_level(logging.ERROR, logger="drainq"), queue.cron.install("h", "some prefix", 0.001, generate):
        assert all(looks.acquire(timeout=10) for _ in range(3))
    assert "some prefix" in caplog.text
    assert "no idea what to send" in caplog.text


def test_an_unacknowledged_tick_survives_the_loop(queue, clock):
    looks = threading.Semaphore(0)

    def generate(now: datetime) -> list[CronMessage]:
        looks.release()
        return [CronMessage("x", START)]

    with queue.cron.install("h", "p", 0.001, generate):
        envelope = queue.try_poll()
        assert envelope.delivery_type is DeliveryType.FIRST_DELIVERY
        assert all(looks.acquire(timeout=10) for _ in range(5))
        clock.advance(LEASE + 1)
        again = queue.try_poll()
        assert again.delivery_type is DeliveryType.REDELIVERY
        assert again.ack()


def test_closing_keeps_what_is_planned_and_plans_no_more(queue, clock):
    handle = queue.cron.install("h", "p", 3600, lambda now: [CronMessage("x", now + timedelta(seconds=5))])
    assert handle.close()
    assert handle.closed
    clock.advance(7200)
    handle.look()
    assert drain(queue) == ["x"]


def test_closing_waits_for_a_look_and_says_if_it_did_not_end(queue):
    running, go_on = threading.Event(), threading.Event()

    def generate(now: datetime) -> list[CronMessage]:
        running.set()
        assert go_on.wait(30)
        return [CronMessage("x", START)]

    handle = queue.cron.install("h", "p", 3600, generate)
    assert running.wait(10)
    assert handle.close(timeout=0.01) is False
    go_on.set()
    assert handle.close() is True


def test_a_closed_queue_takes_no_schedule(open_queue, clock):
    queue = open_queue(clock=clock)
    queue.close()
    with pytest.raises(ShutDown):
        queue.cron.install_periodic_tick("p", 1, lambda at: 1)


def test_closing_the_queue_closes_its_schedules(open_queue, clock):
    queue = open_queue(clock=clock)
    handle = queue.cron.install_periodic_tick("p", 1, lambda at: 1)
    queue.close()
    assert handle.closed
    assert handle.close()


def test_the_first_look_refreshes_what_was_planned_and_leaves_what_was_delivered(open_queue, clock):
    """A release of the program that says the same schedule in other words."""
    queue = open_queue(clock=clock)
    ticks = [START, after(60)]
    queue.cron.install("h", "p", 3600, lambda now: [CronMessage("old", at) for at in ticks]).close()
    envelope = queue.try_poll()
    assert envelope.payload == "old"
    queue.cron.install("h", "p", 3600, lambda now: [CronMessage("new", at) for at in ticks]).close()
    assert queue.try_poll() is None, "the one in flight was not touched"
    assert envelope.ack()
    clock.advance(60)
    assert drain(queue) == ["new"]
