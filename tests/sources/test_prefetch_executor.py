"""PrefetchSource when its executor refuses, cancels or repeats a refill."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from drainq.sources import PrefetchSource
from tests.sources.by_hand import Raises, balanced


class Refuses:
    """An executor that raises at its first submit and keeps what comes then."""

    def __init__(self, error):
        self.submit = Raises(error, 1, then=lambda job: self.jobs.append(job))
        self.jobs = []


@pytest.mark.parametrize("error", [OSError, RuntimeError])
def test_an_executor_that_refuses_is_an_error_and_is_asked_again(make, heard, clock, error):
    executor = Refuses(error("full"))
    source = make(lambda n: [1], executor=executor)
    assert source.get_next_batch(1) == []
    assert [type(one) for one in heard] == [error]
    assert not source.stats().refilling
    clock.advance(1.0)
    source.get_next_batch(1)
    executor.jobs.pop()()
    assert source.get_next_batch(1) == [1]
    assert source.close(0)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_a_pull_took_is_given_back_when_it_is_interrupted(make, error):
    executor = Refuses(None)
    executor.submit.calls = (2,)
    executor.submit.error = error("out")
    source = make(lambda n: [1, 2, 3], executor=executor)
    source.get_next_batch(0)
    executor.jobs.pop()()
    with pytest.raises(error):
        source.get_next_batch(2)
    assert source.stats().size == len(source) == 3
    assert source.get_next_batch(1) == [1]
    assert source.get_next_batch(9) == [2, 3]
    assert not source.get_next_batch(1)
    assert balanced(source, 3)


def test_an_executor_that_exits_at_the_refill_after_a_refill_ends_no_background(make, background, heard):
    """A consumer found nothing during the first, so the second starts at its end."""

    def taken_at_once(n):
        yield 1
        assert source.get_next_batch(2) == [1] and source.get_next_batch(1) == []

    executor = Refuses(None)
    executor.submit.calls, executor.submit.error = (2,), SystemExit("out")
    source = make(taken_at_once, executor=executor)
    source.get_next_batch(0)
    executor.jobs.pop()()
    assert [type(error) for error in heard] == [SystemExit] and not source.stats().refilling


def test_a_refill_that_the_executor_cancels_is_noticed():
    heard, release = threading.Event(), threading.Event()
    errors = []

    def on_error(error):
        errors.append(error)
        heard.set()

    executor = ThreadPoolExecutor(1)
    executor.submit(release.wait)
    source = PrefetchSource(lambda n: [1], 4, 1, executor=executor, on_error=on_error, eager=True)
    assert source.stats().refilling
    executor.shutdown(wait=False, cancel_futures=True)
    release.set()
    assert heard.wait(30)
    assert "gave the refill up" in str(errors[0])
    assert source.close(30)


def test_an_executor_that_breaks_says_why(make, heard):
    broken, unfinished = OSError("broken"), Future()
    source = make(lambda n: [1], executor=SimpleNamespace(submit=lambda job: unfinished))
    source.get_next_batch(1)
    unfinished.set_exception(broken)
    assert heard == [broken] and not source.stats().refilling


def test_close_does_not_wait_for_a_refill_that_has_not_begun(make, background):
    asked = []
    source = make(lambda n: asked.append(n) or [1])
    source.get_next_batch(1)
    assert source.stats().refilling
    assert source.close()
    background.run()
    assert asked == []
