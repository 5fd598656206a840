"""The refiller: when its thread wakes."""

from __future__ import annotations

import threading

from drainq.sources.prefetch_refill_threads import Refill, Refiller
from drainq.sources.steady_clock import SteadyClock
from drainq.testing import ManualClock

LIMIT = 30


class Owner:
    """What a refiller calls."""

    def __init__(self) -> None:
        self.woken = threading.Event()

    def run(self, refill: Refill) -> None:
        raise AssertionError("no refill was asked for")

    def drop(self, refill: Refill, error: BaseException) -> None:
        raise error

    def wake(self) -> None:
        self.woken.set()

    def report(self, error: BaseException) -> None:
        raise error


def test_an_earlier_time_to_wake_takes_the_place_of_a_later_one():
    owner, clock = Owner(), ManualClock(1_000.0)
    steady = SteadyClock(clock, owner.report)
    refiller = Refiller(owner.run, owner.drop, owner.wake, name="test-refill", executor=None, clock=steady)
    refiller.wake_at(5_000.0)
    refiller.wake_at(1_000.0)
    assert owner.woken.wait(LIMIT)
    refiller.close()
