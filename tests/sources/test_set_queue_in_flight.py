"""SetQueue: items that stay known after they were taken."""

from __future__ import annotations

import pytest

from drainq import SetQueue
from tests.sources.threads import blocked, waits


def test_ttl_counts_from_the_moment_of_the_take_however_long_the_get_had_waited(clock):
    waiting, got = SetQueue(in_flight="ttl", ttl=5.0, clock=clock), []
    getter = blocked(waiting.get, got)
    waits(waiting, getters=1)
    clock.advance(100)
    waiting.put("a")
    getter.result()
    assert (got, waiting.put("a")) == (["a"], False)
    clock.advance(5)
    assert waiting.put("a")


def test_a_clock_that_goes_wrong_is_an_error_before_any_change(clock):
    waiting = SetQueue(in_flight="ttl", ttl=5.0, clock=clock)
    waiting.put("a")
    clock.set(-1.0)
    with pytest.raises(ValueError, match="got -1"):
        waiting.get()
    clock.set(0.0)
    assert waiting.get() == "a"
