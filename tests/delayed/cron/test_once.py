"""Each tick is one message, for any number of processes and checks, and with any clocks."""

from __future__ import annotations

import random
import threading
from datetime import datetime, timedelta

import pytest

from drainq.delayed import CronMessage, DelayedQueue
from drainq.testing import ManualClock
from tests.delayed.cron.ticks import START, UTC, after, drain, key_of


def test_a_tick_that_was_handled_is_not_made_again(queue, clock):
    ticks = [CronMessage("x", after(5))]
    assert queue.cron.install_tick("h", "p", ticks) == 1
    clock.advance(5)
    assert drain(queue) == ["x"]
    assert queue.cron.install_tick("h", "p", ticks) == 0
    assert drain(queue) == []


def test_a_tick_that_the_user_dropped_is_not_made_again(queue, clock):
    ticks = [CronMessage("x", after(5))]
    queue.cron.install_tick("h", "p", ticks)
    assert queue.drop_message(key_of("h", "p", after(5)))
    assert queue.cron.install_tick("h", "p", ticks) == 0


def test_a_tick_that_was_forgotten_for_its_age_is_not_made_again(queue, clock):
    old = [CronMessage(f"old {n}", after(n)) for n in (1, 2, 3)]
    assert queue.cron.install_tick("h", "p", old) == 3
    clock.advance(timedelta(days=7).total_seconds())
    assert drain(queue) == ["old 1", "old 2", "old 3"]
    assert queue.cron.install_tick("h", "p", [CronMessage("new", after(8 * 24 * 3600))]) == 1
    assert queue.cron.install_tick("h", "p", old) == 0
    assert drain(queue) == []


def test_a_scheduler_whose_clock_is_behind_makes_no_tick_again(open_queue, clock):
    behind = ManualClock(START - timedelta(minutes=90))
    ahead_queue, behind_queue = open_queue(clock=clock), open_queue(clock=behind)
    first = ahead_queue.cron.install_periodic_tick("p", 3600, lambda at: at.isoformat())
    clock.set(datetime(2025, 1, 1, 11, 0, tzinfo=UTC))
    assert drain(ahead_queue) == ["2025-01-01T11:00:00+00:00"]
    second = behind_queue.cron.install_periodic_tick("p", 3600, lambda at: at.isoformat())
    for _ in range(12):  # its clock walks over the time that the other one's has passed
        behind.advance(15 * 60)
        second.look()
    assert behind.now() > clock.now()
    clock.set(datetime(2025, 1, 1, 12, 30, tzinfo=UTC))
    # 10:00 is a tick that only the clock behind has seen coming: it is made, once. 11:00 was handled.
    assert drain(ahead_queue) == ["2025-01-01T10:00:00+00:00", "2025-01-01T12:00:00+00:00"]
    assert first.close() and second.close()


def test_a_scheduler_that_was_paused_between_its_clock_and_the_database_makes_no_tick_again(open_queue, clock):
    quick, paused = open_queue(clock=clock), open_queue(clock=clock)
    computed, go_on = threading.Event(), threading.Event()

    def slowly(now: datetime) -> list[CronMessage]:
        message = CronMessage("paused", after(5))
        computed.set()
        assert go_on.wait(10)
        return [message]

    scheduler = threading.Thread(target=lambda: paused.cron.install("h", "p", 3600, slowly).close())
    scheduler.start()
    assert computed.wait(10)
    quick.cron.install_tick("h", "p", [CronMessage("quick", after(5))])
    clock.advance(5)
    assert drain(quick) == ["quick"]
    go_on.set()
    scheduler.join()
    assert drain(quick) == []


def test_a_restart_makes_no_tick_again_and_loses_none(open_queue, clock):
    delivered = []
    for _ in range(25):  # one every ten minutes, over four hours
        queue = open_queue(clock=clock)
        queue.cron.install_periodic_tick("p", 3600, lambda at: f"{at:%H:%M}").close()
        delivered += drain(queue)
        queue.close()
        clock.advance(600)
    assert delivered == ["11:00", "12:00", "13:00", "14:00"]


@pytest.mark.parametrize("seed", range(4))
def test_schedulers_and_consumers_with_clocks_apart_deliver_every_tick_exactly_once(open_queue, seed):
    """Clocks jump around by minutes, schedulers look whenever, consumers take what is due."""
    rng = random.Random(seed)
    clocks = [ManualClock(START + timedelta(seconds=rng.uniform(-300, 300))) for _ in range(3)]
    queues = [open_queue(clock=clock) for clock in clocks]
    delivered: list[str] = []
    made = 0
    for _ in range(60):
        which = rng.randrange(3)
        clocks[which].advance(rng.uniform(0, 90))
        now = datetime.fromtimestamp(clocks[which].now(), UTC).replace(second=0, microsecond=0)
        if rng.random() < 0.6:
            ticks = [now + timedelta(minutes=minute) for minute in range(1, rng.randrange(2, 8))]
            made += queues[which].cron.install_tick("h", "p", [CronMessage(at.isoformat(), at) for at in ticks])
        else:
            delivered += drain(queues[which])
    for clock in clocks:
        clock.advance(3600)
    delivered += drain(queues[0])
    assert made > 10, "the run was to be long enough to mean something"
    assert len(delivered) == len(set(delivered)) == made


def test_many_schedulers_at_once_make_each_tick_once(open_queue, clock):
    queues = [open_queue(clock=clock) for _ in range(6)]
    ticks = [CronMessage(f"{n}", after(n)) for n in range(1, 9)]
    together = threading.Barrier(len(queues))
    made: list[int] = []

    def schedule(queue: DelayedQueue) -> None:
        for count in range(1, len(ticks) + 1):
            together.wait(30)
            made.append(queue.cron.install_tick("h", "p", ticks[:count]))

    threads = [threading.Thread(target=schedule, args=(queue,)) for queue in queues]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(made) == len(ticks)
    clock.advance(60)
    assert drain(queues[0]) == [message.payload for message in ticks]
