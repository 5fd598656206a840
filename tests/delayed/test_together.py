"""The calls of several threads that wait for a turn become one transaction."""

from __future__ import annotations

import threading

import pytest

psycopg = pytest.importorskip("psycopg")

from drainq.delayed.cron.tick_key import tick_key  # noqa: E402
from drainq.delayed.deadline import set_deadline  # noqa: E402
from drainq.delayed.storage.postgres.connection import PoolExhausted  # noqa: E402
from drainq.delayed.storage.postgres.ticks import _Install  # noqa: E402
from drainq.delayed.storage.postgres.together import Together  # noqa: E402
from drainq.delayed.storage.records import Tick  # noqa: E402
from drainq.threads import start_aside  # noqa: E402


class Turns:
    """Holds the first turn until told, and notes the groups."""

    def __init__(self, answer=lambda value: value * 2, most=8):
        self.groups, self.begun, self.go_on = [], threading.Event(), threading.Event()
        self.answer = answer
        self.together = Together(self.run, most=most)

    def run(self, values):
        self.groups.append(sorted(values))
        if not self.begun.is_set():
            self.begun.set()
            assert self.go_on.wait(30)
        return [self.answer(value) for value in values]

    def call(self, *values):
        """Call with 0, which holds the turn, and meanwhile with each value on a thread."""
        first = start_aside(self.together, 0)
        assert self.begun.wait(30)
        calls = [start_aside(self.together, value) for value in values]
        while len(self.together._waiting) < len(values):
            pass
        self.go_on.set()
        return [first, *calls]


def test_what_waits_for_a_turn_runs_in_one_and_each_caller_gets_its_answer():
    turns = Turns(most=3)
    assert [call.result(30) for call in turns.call(1, 2, 3, 4)] == [0, 2, 4, 6, 8]
    assert [len(group) for group in turns.groups] == [1, 3, 1]


@pytest.mark.parametrize(("error", "refused"), [(psycopg.DataError("no"), 1), (psycopg.errors.DeadlockDetected(), 3)])
def test_a_refusal_is_the_error_of_its_own_request_and_a_passing_failure_that_of_all(error, refused):
    def answer(value):
        if value == 2:
            raise error
        return value

    turns = Turns(answer)
    first, *others = turns.call(1, 2, 3)
    assert first.result(30) == 0
    assert [call.exception(30) for call in others].count(error) == refused


def test_ctrl_c_in_one_thread_leaves_the_requests_of_the_others():
    interrupts = iter([KeyboardInterrupt()])

    def answer(value):
        if value and (interrupt := next(interrupts, None)):
            raise interrupt
        return value

    turns = Turns(answer)
    calls = turns.call(1, 2, 3)
    ends = [call.exception(30) for call in calls]
    assert [type(end) for end in ends].count(KeyboardInterrupt) == 1
    assert [call.result(30) for call, end in zip(calls, ends) if end is None] == [
        number for number, end in enumerate(ends) if end is None
    ]


def test_a_request_whose_caller_was_interrupted_does_not_run_later():
    def interrupted(_value):
        raise KeyboardInterrupt

    turns = Turns(interrupted)
    turns.go_on.set()
    with pytest.raises(KeyboardInterrupt):
        turns.together(1)
    turns.answer = str
    assert turns.together(2) == "2" and turns.groups == [[1], [2]]


def test_a_turn_that_does_not_come_in_time_is_an_error_that_passes():
    turns = Turns()
    first = start_aside(turns.together, 0)
    assert turns.begun.wait(30)
    before = set_deadline(0.0)
    try:
        with pytest.raises(PoolExhausted):
            turns.together(1)
    finally:
        set_deadline(before)
    turns.go_on.set()
    assert first.result(30) == 0
    assert turns.groups == [[0]]


def test_configurations_of_schedules_that_share_a_turn_have_their_numbers_in_the_order_of_the_calls(postgres):
    session = postgres.open()._session

    def install(prefix, config_hash, *seconds):
        at = [int(postgres.now + after) * 1_000_000 for after in seconds]
        ticks = [Tick(tick_key(prefix, config_hash, nominal), b"1", nominal, nominal // 1000) for nominal in at]
        return _Install(prefix, config_hash, ticks, int(postgres.now * 1000), False, None)

    installs = [install("a", "old", 60), install("a", "new", 60, 70), install("b", "one", 60, 70, 80)]
    assert session.storage._install(session.kind, installs) == [1, 2, 3]
    assert session.storage._install(session.kind, installs[1:]) == [0, 0]
