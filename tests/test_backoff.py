"""Backoff: grows, stops growing, never exceeds its bounds."""

from __future__ import annotations

import doctest
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import drainq.backoff
from drainq import Backoff
from drainq.backoff import Tries, check_backoff
from drainq.delivery import Unavailable
from drainq.testing import ManualClock


@given(
    st.floats(0.001, 10),
    st.floats(1, 100),
    st.floats(1, 10),
    st.floats(0, 1),
    st.integers(0, 5000),
    st.floats(0, 0.999),
)
def test_a_delay_is_within_its_bounds(initial, times, factor, jitter, attempt, chance):
    backoff = Backoff(initial, initial * times, factor, jitter=jitter)
    delay = backoff.delay(attempt, chance=lambda: chance)
    assert backoff.initial * (1 - jitter) <= delay <= backoff.maximum


def test_jitter_draws_a_delay_shorter_never_longer():
    backoff = Backoff(1.0, 1.0, jitter=0.5)
    chances = iter((0.0, 0.5, 1.0))
    assert [backoff.delay(0, chance=lambda: next(chances)) for _ in range(3)] == [1.0, 0.75, 0.5]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((-1, 1, 2), "initial .* got -1"),
        ((float("nan"), 1, 2), "initial .* got nan"),
        ((2, 1, 2), "maximum .* got 1"),
        ((1, float("inf"), 2), "maximum .* got inf"),
        ((1, 2, 0.5), "factor .* got 0.5"),
    ],
)
def test_values_out_of_range_are_refused(arguments, says):
    with pytest.raises(ValueError, match=says):
        Backoff(*arguments)


def test_a_jitter_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"jitter .* got 1.5"):
        Backoff(jitter=1.5)


def test_no_pause_stays_none():
    assert [Backoff(0).delay(attempt) for attempt in (0, 1, 100_000)] == [0, 0, 0]


def test_tries_end_by_their_number_or_their_time_and_heed_what_a_server_asks_for():
    clock, backoff = ManualClock(), Backoff(1.0, 4.0, jitter=0)

    def pauses(tries, *errors):
        pauses = []
        while len(pauses) < 6 and (pause := tries.failed(*errors)) is not None:
            clock.advance(pause)
            pauses.append(pause)
        return pauses

    assert pauses(Tries(backoff, most=2, clock=clock)) == [1, 2]
    assert pauses(Tries(backoff, most=0, clock=clock)) == []
    assert pauses(Tries(backoff, within=11.0, clock=clock)) == [1, 2, 4, 4]
    assert pauses(Tries(backoff, clock=clock), Unavailable("busy", after=3.0)) == [3, 3, 4, 4, 4, 4]


def test_the_examples_run():
    results = doctest.testmod(drainq.backoff)
    assert (results.attempted, results.failed) == (4, 0)


def test_the_pauses_without_settings_begin_with_a_tenth_of_a_second():
    assert Backoff() == Backoff(0.1, 10.0, 2.0, 0.1)


@pytest.mark.parametrize("wrong", [Backoff, 0.5, None, SimpleNamespace(delay=lambda attempt: 1.0)])
def test_what_is_no_backoff_is_refused_with_the_argument(wrong):
    with pytest.raises(TypeError, match=r"retry must be a drainq\.Backoff, such as Backoff\(0\.1, 10\.0\), got "):
        check_backoff(wrong, "retry")
    assert check_backoff(backoff := Backoff(1.0)) is backoff
