"""Resources of a worker process: one for a key, closed once, by themselves, and never by a forked child."""

from __future__ import annotations

import importlib
import os
import threading

import pytest
from tests.forked import in_child
from tests.patience import PATIENCE, Call, eventually

from drainq.spark import worker_resource
from drainq.spark.worker_resource import Once, _Resources


class Connection:
    def __init__(self):
        self.closed = threading.Event()
        self.closings = 0

    def close(self):
        self.closings += 1
        self.closed.set()


def use(key, **how):
    return worker_resource(key, Connection, Connection.close, **how)


def test_it_is_made_once_and_shared_and_closed_when_nobody_used_it_for_a_while():
    with use("shared", idle_close=0) as first, use("shared", idle_close=0) as second:
        assert first is second
    assert first.closed.wait(30)
    with use("shared", idle_close=0) as third:
        assert third is not first
    assert third.closed.wait(30) and first.closings == third.closings == 1


def test_while_it_is_in_use_and_before_its_time_it_stays():
    with use("kept", idle_close=3600) as first:
        assert not first.closed.is_set()
    with use("kept", idle_close=3600) as again:
        assert again is first and first.closings == 0


def test_an_alarm_that_was_set_does_not_close_what_is_in_use_again(monkeypatch):
    alarms = []

    class Timer:
        def after(self, seconds, work):
            alarms.append([work])
            return self

        def cancel(self):
            alarms[-1].clear()

    monkeypatch.setattr(importlib.import_module("drainq.spark.worker_resource"), "SHARED", Timer())
    with use("alarmed", idle_close=30) as first:
        pass
    with use("alarmed", idle_close=30) as again:
        assert again is first and alarms == [[]]
    (work,) = alarms[1]
    work()
    assert first.closings == 1


def test_what_a_check_refuses_is_closed_and_made_anew():
    with use("checked", idle_close=3600) as first:
        pass
    with use("checked", idle_close=3600, check=lambda connection: connection is not first) as second:
        assert second is not first and first.closings == 1

    def raises(connection):
        raise OSError("gone")

    with use("checked", idle_close=3600, check=raises) as third:
        assert third is not second and (first.closings, second.closings) == (1, 1)


def test_a_resource_that_is_refused_while_another_uses_it_is_closed_by_its_last_user():
    with use("retired", idle_close=3600) as first:
        with use("retired", idle_close=3600, check=lambda connection: False) as second:
            assert second is not first and first.closings == 0
    assert first.closings == 1


def test_a_factory_that_fails_leaves_nothing_and_the_next_caller_tries_again():
    def fail():
        raise ConnectionError("down")

    with pytest.raises(ConnectionError, match="down"):
        with worker_resource("failing", fail):
            raise AssertionError("there is nothing to use")
    with use("failing", idle_close=3600) as made:
        assert made.closings == 0


def test_many_threads_get_the_same_one():
    made, got, ready = [], [], threading.Barrier(8)

    def factory():
        made.append(Connection())
        return made[-1]

    def ask():
        ready.wait()
        with worker_resource("raced", factory, idle_close=3600) as resource:
            got.append(resource)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and got == made * 8


def a_child_has_its_own():
    with use("forked", idle_close=3600) as parents:

        def check():
            with use("forked", idle_close=3600) as own:
                assert own is not parents and own.closings == 0

        assert in_child(check) == 0
    return parents


@pytest.mark.system
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_its_own_and_does_not_close_its_parents():
    assert a_child_has_its_own().closings == 0


@pytest.mark.system
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_that_leaves_its_parents_block_closes_nothing():
    block = use("left", idle_close=0)
    parents = block.__enter__()

    def check():
        block.__exit__(None, None, None)
        assert parents.closings == 0

    assert in_child(check) == 0
    block.__exit__(None, None, None)
    assert parents.closed.wait(30)


def test_a_close_that_fails_is_logged(caplog):
    failed = threading.Event()

    def close(connection):
        failed.set()
        raise OSError("cannot")

    with worker_resource("unclosable", Connection, close, idle_close=3600):
        pass
    with worker_resource("unclosable", Connection, close, idle_close=3600, check=lambda connection: False):
        assert failed.is_set()
    assert "a worker resource could not be closed" in caplog.text and "its text is not shown" in caplog.text


def test_a_resource_of_another_process_is_not_closed():
    closed = []
    with worker_resource("theirs", Connection, closed.append, idle_close=3600):
        pass
    kept = importlib.import_module("drainq.spark.worker_resource")._resources.kept.pop("theirs")
    for process, found in ((-1, 0), (os.getpid(), 1)):
        kept.process = process
        kept.end()
        assert len(closed) == found


@pytest.mark.parametrize(
    ("key", "how", "words"),
    [
        (["a", "list"], {}, r"key must be hashable, .* got \['a', 'list'\]"),
        ("k", {"factory": None}, "factory must be a callable"),
        ("k", {"factory": lambda: None}, "returned None, which is no resource"),
        ("k", {"close": "close"}, "close must be a callable"),
        ("k", {"check": lambda: True}, "check is called with 1 positional argument"),
        ("k", {"idle_close": -1}, "idle_close must be at least 0 seconds and finite, got -1"),
        ("k", {"idle_close": "30"}, "idle_close must be a number of seconds, or a datetime.timedelta, got '30'"),
    ],
)
def test_a_wrong_argument_is_refused_with_its_value(key, how, words):
    factory = how.pop("factory", Connection)
    with pytest.raises((TypeError, ValueError), match=words):
        with worker_resource(key, factory, **how):
            raise AssertionError("there is nothing to use")


def test_a_value_that_asks_for_itself_is_refused():
    once = Once(lambda: once.get())
    with pytest.raises(RuntimeError, match="asks for the value that it is about to make"):
        once.get()


def test_an_alarm_that_comes_too_late_closes_nothing_that_is_used_and_nothing_that_took_its_place():
    resources, closed = _Resources(), []
    kept = resources.take("k", object, closed.append)
    one = kept.resource.get()
    resources._idle("k", kept)
    assert closed == [] and resources.kept == {"k": kept}
    resources.retire("k", kept)
    other = resources.take("k", object, closed.append)
    resources.give_back("k", kept, 3600)
    resources.retire("k", kept)
    resources._idle("k", kept)
    assert closed == [one] and resources.kept == {"k": other}


def test_who_waits_for_a_value_gets_it_or_makes_it():
    for first in ("value", SystemExit("out")):
        entered, go, tries = threading.Event(), threading.Event(), []

        def make(first=first, entered=entered, go=go, tries=tries):
            tries.append(1)
            entered.set()
            assert go.wait(PATIENCE)
            if isinstance(first, SystemExit) and len(tries) == 1:
                raise first
            return []

        once = Once(make)
        maker = Call(once.get)
        assert entered.wait(PATIENCE)
        waiting = Call(once.get)
        eventually(lambda once=once: once._changed._waiters)
        go.set()
        assert waiting.result() is once.made and waiting.result() == []
        assert len(tries) == (2 if isinstance(maker.exception(), SystemExit) else 1)
    with worker_resource("empty", list) as empty:
        assert empty == []


def test_a_value_whose_making_failed_is_made_again():
    answers = [7, 0]
    once = Once(lambda: 7 // answers.pop())
    with pytest.raises(ZeroDivisionError):
        once.get()
    assert once.get() == 1
