"""Turns of resending: on a timer, one at a time, no longer than the worker lives, and ended by ``stop``."""

from __future__ import annotations

import gc
import threading

import pytest

from drainq.delivery import Resender, dead_letter_resend
from tests.patience import PATIENCE, Call, eventually


class Owner:
    """A worker, as far as it is collected."""


class Letters:
    """Dead letters whose turns go through a gate."""

    def __init__(self):
        self.turns, self.failures, self.is_stopped = 0, [], False
        self.begun, self.gate, self.error = threading.Event(), threading.Event(), None
        self.gate.set()

    def resend(self, sink):
        self.turns += 1
        self.begun.set()
        assert self.gate.wait(PATIENCE)
        if self.error is not None:
            raise self.error

    def stop(self):
        self.is_stopped = True

    def log_failure(self, message, error):
        self.failures.append(error)


@pytest.fixture
def letters(monkeypatch):
    monkeypatch.setattr(dead_letter_resend, "RESEND_INTERVAL", 0.001)
    return Letters()


def test_turns_follow_each_other_also_after_one_that_failed_until_the_owner_is_collected(letters):
    letters.error = OSError("the delayed queue is away")
    owner = Owner()
    resender = Resender(owner, letters, None)
    eventually(lambda: len(letters.failures) >= 3)
    del owner
    gc.collect()
    ended = resender._repeat
    eventually(lambda: ended.stopped)
    turns = letters.turns
    assert ended.stop(PATIENCE) and letters.turns == turns


def test_a_flush_waits_for_a_turn_of_its_own_and_no_longer_once_it_is_given_up(letters):
    owner = Owner()
    resender = Resender(owner, letters, None)
    letters.gate.clear()
    letters.begun.clear()
    assert letters.begun.wait(PATIENCE)
    flushes = Call(lambda: resender.flush(None))
    assert resender.flush(0.0) is False and not flushes.done()
    resender.give_up()
    assert flushes.result() is True and letters.is_stopped
    Call(lambda: resender.stop(0.0)).result()  # at its deadline, although the turn hangs
    letters.gate.set()
    assert resender._repeat.stop(PATIENCE)


@pytest.mark.parametrize(("ended", "is_done"), [(5, False), (6, True)])
def test_a_flush_does_not_take_the_end_of_a_turn_that_began_before_it_for_its_own(letters, monkeypatch, ended, is_done):
    owner = Owner()
    resender = Resender(owner, letters, None)
    assert resender._repeat.stop(PATIENCE)
    resender._begun, resender._ended = 5, 4
    monkeypatch.setattr(resender._repeat, "wake", lambda: setattr(resender, "_ended", ended))
    assert resender.flush(0.0) is is_done
