"""How long a try may take, and what the log says while a worker waits: the clock is the test's."""

from __future__ import annotations

import contextlib
import math

import pytest

from drainq.delivery import DeliveryError, Unavailable, outage
from tests.delivery.helpers import Bench, Table


class Silent(Table):
    """A sink that answers nothing, and fails when its time is over."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def send_within(self, items, attempt):
        self.seconds.append(attempt.seconds)
        self.clock.advance(min(attempt.seconds or 1e6, 1e6))
        raise Unavailable("silent")


def deliver(bench, items):
    with contextlib.suppress(DeliveryError):
        bench.deliver(items)


@pytest.mark.parametrize(
    ("retry_for", "seconds"),
    [(60.0, [60.0, 10.0, 10.0]), (3.0, [3.0, 3.0, 3.0]), (0.1, [1.0, 1.0, 1.0]), (0, [10.0, 10.0, 10.0])],
)
def test_a_batch_that_is_not_answered_takes_its_time_once(retry_for, seconds):
    sink = Silent()
    bench = Bench(sink, retry_for=retry_for)
    sink.clock = bench.clock
    for _ in seconds:
        deliver(bench, "ab")
    assert (sink.seconds, bench.waits) == (seconds, [])
    bench.clock.advance(3600.0)
    deliver(bench, "ab")
    assert sink.seconds[3:] == seconds[:1]  # another outage


def test_a_try_has_what_is_left_of_the_outage_and_at_least_a_second():
    seconds = []

    class Fails(Table):
        def send_within(self, items, attempt):
            seconds.append(attempt.seconds)
            raise Unavailable("away")

    for retry_for in (10.0, math.inf):
        bench = Bench(Fails(), retry_for=retry_for)
        bench.before_try = lambda bench=bench: bench.delivery.give_up() if len(bench.waits) == 4 else None
        deliver(bench, "a")
    assert seconds == [10.0, 9.0, 7.0, 3.0, None, None, None, None]
    bench = Bench(Fails(), retry_for=1.5)
    deliver(bench, "a")
    assert seconds[8:] == [1.5, 1.0, 1.0]


@pytest.mark.parametrize("retry_for", [300.0, math.inf])
def test_the_log_says_that_the_other_side_is_silent_and_then_once_a_minute(retry_for, caplog, monkeypatch):
    alarms = []

    class Timer:
        def after(self, seconds, ring):
            alarms.append((seconds, ring))
            return self

        def cancel(self):
            alarms.append(None)

    class Slow(Table):
        def send(self, items):
            for _ in range(3):
                seconds, ring = alarms[-1]
                bench.clock.advance(seconds)
                ring()

    monkeypatch.setattr(outage, "SHARED", Timer())
    caplog.set_level("INFO", "drainq")
    bench = Bench(Slow(), retry_for=retry_for)
    bench.deliver("ab")
    first, second, third = (f" for {left} s" if retry_for < math.inf else "" for left in (295, 235, 175))
    assert caplog.messages == [
        f"test: the other side does not answer; waiting{first}",
        f"test: the other side does not answer; waiting{second}, since 65 s",
        f"test: the other side does not answer; waiting{third}, since 125 s",
        "test: the other side takes items again",
    ]
    caplog.clear()
    assert alarms.pop() is None
    alarms[-1][1]()  # it rings in the moment in which the answer comes
    assert caplog.messages == [] and len(alarms) == 4


def test_the_log_says_once_a_minute_that_an_outage_goes_on(caplog):
    table = Table()
    table.down = Unavailable("away")
    bench = Bench(table, retry_for=140.0)
    deliver(bench, "ab")
    assert [message for message in caplog.messages if "fails" in message] == [
        "test: the other side fails; trying again for 140 s: Unavailable: away",
        "test: the other side fails; trying again for 77 s, since 63 s: Unavailable: away",
        "test: the other side fails; trying again for 13 s, since 127 s: Unavailable: away",
    ]
