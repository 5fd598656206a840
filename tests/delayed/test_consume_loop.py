"""One consumer's loop with a storage that fails on request: its waits, and the messages that it returns."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from types import SimpleNamespace

import pytest

import drainq.delayed.consume
import drainq.delayed.poll
from drainq import Backoff
from drainq.delayed import DelayedQueue, QueueBroken, QueueUnavailable, RetryConfig, ScheduledMessage, TimeConfig
from drainq.delayed.consume_loop import consumer_loop
from drainq.delayed.queue_settings import QueueSettings
from drainq.delayed.storage.records import Chosen
from drainq.delayed.storage.sqlite.storage import MemoryStorage
from drainq.errors import ShutDown
from drainq.testing import ManualClock


@pytest.fixture(autouse=True)
def every_handler_is_quick(monkeypatch):
    monkeypatch.setattr(drainq.delayed.consume, "time", SimpleNamespace(monotonic=lambda: 1000.0))


class Away(Exception):
    """The database is away."""


class Shaky(MemoryStorage):
    """A storage whose methods fail as often as ``failures`` says, by name."""

    def __init__(self):
        super().__init__()
        self.failures, self.calls = {}, Counter()

    def close(self):
        """Stay open, for the test to look at."""

    def is_transient(self, error):
        return isinstance(error, Away)

    def _fail(self, name):
        self.calls[name] += 1
        if self.failures.get(name, 0) > 0:
            self.failures[name] -= 1
            raise Away(name)

    def acquire(self, *arguments, **more):
        self._fail("acquire")
        return super().acquire(*arguments, **more)

    def ack(self, *arguments, **more):
        self._fail("ack")
        return super().ack(*arguments, **more)

    def nack(self, *arguments, **more):
        self._fail("nack")
        return super().nack(*arguments, **more)

    def release(self, *arguments, **more):
        self._fail("release")
        return super().release(*arguments, **more)


class Bench:
    """A queue on a shaky storage; its consumer's waits are noted, take no time, and end the loop after so many."""

    def __init__(self, **options):
        self.clock, self.storage, self.waits, self.most = ManualClock(), Shaky(), [], 8
        retry = RetryConfig(Backoff(0.25, 4.0, jitter=0), max_retries=3)
        self.queue = DelayedQueue(self.storage, QueueSettings.of("mail", clock=self.clock, retry=retry,
            time=TimeConfig(acquire_timeout=30.0, poll_period=2.0), **options,))  # fmt: skip
        self.session = self.queue._session
        self.before_wait = lambda: None
        self.session.wakeup.wait = self.wait

    def wait(self, noted, seconds):
        self.waits.append(seconds)
        self.before_wait()
        if len(self.waits) >= self.most:
            self.queue.close()
        return self.session.wakeup.count() != noted

    def offer(self, *names, at=None):
        due = self.clock.now() if at is None else at
        self.queue.offer_batch([ScheduledMessage(name, name, due) for name in names])

    def retry_at_once(self, tries=4):
        self.session.retry = RetryConfig(Backoff(0.0, jitter=0), max_retries=tries - 1)

    def states(self):
        """(ready, scheduled, in flight, dead) of what the storage holds, closed or not."""
        ready, scheduled, in_flight, _, _, dead, *_ = self.storage.counts(self.session.kind, self.session.now())
        return ready, scheduled, in_flight, dead


def test_an_outage_is_waited_for_with_growing_pauses_of_at_most_a_second_and_each_has_its_own():
    bench, seen = Bench(), []
    bench.storage.failures["acquire"] = 4
    bench.offer("a")

    def handle(envelope):
        seen.append(envelope.payload)
        bench.storage.failures["acquire"] = 2

    bench.most = 7
    assert bench.queue.consume(handle) == 1
    assert seen == ["a"]
    assert bench.waits == [0.25, 0.5, 1.0, 1.0, 0.25, 0.5, 2.0]  # the last: nothing is due, a poll period
    assert bench.states() == (0, 0, 0, 0)  # what was handled before the outage is acknowledged after it


def test_an_idle_consumer_sleeps_until_the_next_message_is_due_and_at_most_a_poll_period():
    bench = Bench()
    bench.most = 3
    bench.offer("soon", at=bench.clock.now() + 1.5)

    def later():
        bench.clock.advance(1.4999 if len(bench.waits) == 1 else 60.0)
        if len(bench.waits) == 2:
            bench.queue.drop_message("soon")

    bench.before_wait = later
    assert bench.queue.consume(lambda envelope: None) == 0
    assert bench.waits[0] == 1.5 and 0 < bench.waits[1] <= 0.005 and bench.waits[2] == 2.0


def test_a_consumer_with_a_stop_looks_at_it_while_it_sleeps():
    bench, looks = Bench(), []

    class Stop:
        def is_set(self):
            looks.append(len(bench.waits))
            return len(bench.waits) == 3

    assert bench.queue.consume(lambda envelope: None, stop=Stop()) == 0
    assert bench.waits == [0.1] * 3 and bench.queue.closed is False


def test_an_offer_during_the_fetch_or_the_outage_that_it_met_ends_the_pause_after_it():
    bench, noted = Bench(), []
    bench.most = 2
    acquire, wait, bench.storage.failures["acquire"] = bench.storage.acquire, bench.wait, 1

    def acquire_beside_an_offer(*arguments, **more):
        bench.session.wakeup.wake()
        return acquire(*arguments, **more)

    bench.storage.acquire = acquire_beside_an_offer
    bench.session.wakeup.wait = lambda before, seconds: (noted.append(before), wait(before, seconds))
    bench.queue.consume(lambda envelope: None)
    assert noted == [0, 1]


def test_a_poll_sleeps_for_a_poll_period_or_what_is_left_and_a_coroutine_does_too(monkeypatch):
    bench, slept, now = Bench(), [], [50.0]

    def sleep(seconds):
        slept.append(round(seconds, 6))
        now[0] += seconds

    class Signal:
        def give(self):
            """Nobody offers."""

        def clear(self):
            slept.append("cleared")

        async def wait(self, seconds):
            sleep(seconds)

    bench.session.wakeup.wait = lambda noted, seconds: sleep(seconds)
    monkeypatch.setattr(drainq.delayed.poll, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(drainq.delayed.poll, "LoopSignal", Signal)
    for timeout, sleeps in ((4.5, [2.0, 2.0, 0.5]), (2.0, [2.0]), (0, [])):
        assert bench.queue.poll(timeout) is None
        assert slept == sleeps
        slept.clear()
        assert asyncio.run(bench.queue.poll_async(timeout)) is None
        assert slept == [each for pause in sleeps for each in ("cleared", pause)] + ["cleared"]
        slept.clear()
    assert not bench.session.wakeup._listeners


def test_an_async_consumer_leaves_no_task_and_no_listener_behind():
    bench = Bench()

    async def main():
        async def handle(envelope):
            """Accept it."""

        assert await bench.queue.consume_async(handle, stop=asyncio.Event(), until="empty") == 0
        await asyncio.sleep(0)
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(main()) == set() and not bench.session.wakeup._listeners


def test_the_second_try_of_an_offer_knows_that_it_is_one():
    bench, again, offer = Bench(), [], MemoryStorage.offer
    bench.retry_at_once()

    def lost(*arguments, **more):
        again.append(more["again"])
        outcomes = offer(bench.storage, *arguments, **more)
        if len(again) < 3:
            raise Away
        return outcomes

    bench.storage.offer = lost
    bench.offer("a")
    assert again == [False, True, True]


def test_an_offer_ends_the_sleep_at_once():
    bench, seen = Bench(), []
    bench.before_wait = lambda: len(bench.waits) == 1 and bench.offer("a")
    stop = type("Stop", (), {"is_set": lambda self: bool(seen)})()
    assert bench.queue.consume(lambda envelope: seen.append(envelope.payload), stop=stop) == 1
    assert bench.waits == [0.1]


def test_what_fails_is_not_counted_as_handled_and_comes_back_after_the_back_off():
    bench = Bench()
    bench.offer("a", "b")
    bench.most = 1

    def handle(envelope):
        if envelope.payload == "a":
            raise ValueError("not now")

    assert bench.queue.consume(handle) == 1
    assert bench.states() == (0, 1, 0, 0)
    assert bench.storage.next_due(bench.session.kind, 0) == bench.session.now() + 250


def test_a_message_that_its_handler_settled_and_then_failed_on_is_left_alone():
    bench = Bench()
    bench.offer("acked", "nacked")
    bench.most = 1

    def handle(envelope):
        if envelope.payload == "acked":
            assert envelope.ack()
        else:
            assert envelope.nack(delay=100)
        raise ValueError("after it was settled")

    assert bench.queue.consume(handle) == 0
    assert bench.states() == (0, 1, 0, 0)
    assert bench.storage.next_due(bench.session.kind, 0) == bench.session.now() + 100_000
    assert bench.storage.calls["nack"] == 1  # the handler's own


def test_a_message_that_cannot_be_given_back_stays_leased_and_the_loop_goes_on():
    bench, seen = Bench(), []
    bench.offer("a", "b")
    bench.most = 1
    bench.storage.failures["nack"] = 4  # as often as a call is tried

    def handle(envelope):
        seen.append(envelope.payload)
        if envelope.payload == "a":
            raise ValueError("not now")

    bench.retry_at_once()
    assert bench.queue.consume(handle) == 1 and seen == ["a", "b"]
    assert bench.states() == (0, 0, 1, 0)


@pytest.mark.parametrize("limits", [{"max_in_flight": 1}, {}])
def test_a_consumer_with_a_limit_wakes_others_when_it_has_made_room(limits):
    bench, woken, seen = Bench(), [], []
    bench.offer("a")
    bench.most = 1
    bench.session.wakeup.add_listener(lambda: woken.append(len(seen)))
    bench.queue.consume(lambda envelope: seen.append(envelope.payload), **limits)
    assert woken == ([1, 1] if limits else [1])  # the last is the end of the queue


def test_a_handled_message_is_acknowledged_when_the_loop_ends_and_an_outage_then_is_said(caplog):
    bench = Bench()
    bench.offer("a", "b")
    stop = type("Stop", (), {"is_set": lambda self: bool(seen)})()
    seen = []
    assert bench.queue.consume(lambda envelope: seen.append(envelope.payload), stop=stop) == 1
    assert bench.states() == (1, 0, 0, 0)
    seen.clear()
    bench.retry_at_once()
    bench.storage.failures["ack"] = 4
    assert bench.queue.consume(lambda envelope: seen.append(envelope.payload), stop=stop) == 1
    assert bench.states() == (0, 0, 1, 0)
    assert "could not acknowledge 1 handled messages" in caplog.text


@pytest.mark.parametrize(
    "error", [QueueUnavailable("away", []), QueueBroken("no table", []), ShutDown("closed")], ids=repr
)
def test_whatever_keeps_the_end_of_a_loop_from_its_books_is_only_said(error, caplog, monkeypatch):
    bench, seen = Bench(), []
    bench.offer("a", "b")

    def fails(held, *, again=False):
        raise error

    monkeypatch.setattr(bench.session, "ack", fails)
    monkeypatch.setattr(bench.session, "release", fails)
    assert bench.queue.consume(seen.append, stop=type("Stop", (), {"is_set": lambda self: bool(seen)})()) == 1
    looks = iter([False, True, True, True])
    assert bench.queue.consume(seen.append, stop=type("Stop", (), {"is_set": lambda self: next(looks)})()) == 0
    assert "could not acknowledge 1 handled messages; they will be delivered again" in caplog.text
    assert "could not give back 1 messages; they come back when their lease runs out" in caplog.text


def test_what_the_handler_reports_as_done_is_not_acknowledged_again(caplog):
    bench = Bench()
    bench.offer("a", "b")
    assert bench.queue.consume(lambda envelope: bench.queue.done([envelope]) and None) == 2
    assert bench.states() == (0, 0, 0, 0) and caplog.text == ""


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_the_number_of_attempts_is_the_callers_or_the_queues_or_that_of_the_retries(attempts):
    for given, of_queue in ((attempts, 5), (None, attempts), (None, None)):
        bench, tries = Bench(max_attempts=of_queue), []
        if given is None and of_queue is None:
            bench.retry_at_once(attempts)
        else:
            bench.retry_at_once(9)
        bench.offer("a")
        bench.most = 1

        def handle(envelope, tries=tries):
            tries.append(envelope.attempt)
            raise ValueError("never")

        assert bench.queue.consume(handle, max_attempts=given) == 0
        assert tries == list(range(1, attempts + 1)) and bench.states() == (0, 0, 0, 1)


def test_an_interrupt_of_the_handler_gives_back_what_is_left_of_a_batch():
    bench = Bench()
    bench.offer("a", "b", "c")

    def handle(envelope):
        envelope.ack_some(["b"])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.queue.consume(handle, batch_size=3)
    assert bench.states() == (2, 0, 0, 0)
    assert [row.attempts for row in bench.storage.peek(bench.session.kind, Chosen(), 3)] == [0, 0]


class Prefetching(Shaky):
    worth_prefetching = True


def prefetching(**options):
    """Return a bench whose consumer has had enough quick calls to take ten messages at once."""
    bench = Bench(**options)
    bench.storage.__class__ = Prefetching
    bench.most = 1
    return bench


def test_quick_messages_are_taken_ten_at_a_time_after_ten_and_handled_in_order():
    bench, seen = prefetching(), []
    bench.offer(*(f"{n:02}" for n in range(20)))
    assert bench.queue.consume(lambda envelope: seen.append(envelope.payload)) == 20
    assert seen == [f"{n:02}" for n in range(20)]
    assert bench.states() == (0, 0, 0, 0)
    assert bench.storage.calls["acquire"] == 10 + 1 + 1  # one by one, then ten; the last finds nothing


def test_what_was_prefetched_is_given_back_once_half_of_its_lease_is_over():
    bench, seen = prefetching(), []
    bench.offer(*(f"{n:02}" for n in range(14)))

    def handle(envelope):
        seen.append(envelope.payload)
        if envelope.payload == "11":
            bench.clock.advance(15.0)  # of 30, and the handler was quick by the clock of the machine

    assert bench.queue.consume(handle) == 14 and seen == [f"{n:02}" for n in range(14)]
    assert bench.storage.calls["release"] == 1
    assert bench.states() == (0, 0, 0, 0)


def test_messages_that_were_delivered_before_are_handled_alone():
    bench, seen = prefetching(), []
    bench.offer(*(f"{n:02}" for n in range(13)))

    def handle(envelope):
        seen.append((envelope.payload, envelope.attempt))
        if envelope.payload == "09" and envelope.attempt == 1:
            with bench.storage._cursor() as cursor:  # 11 was delivered before, to a consumer that died
                cursor.execute("""UPDATE delayed_queue SET attempts = 1, attemptsOf = createdAt WHERE pKey = '11'""")

    assert bench.queue.consume(handle) == 13
    assert seen == [(f"{n:02}", 2 if n == 11 else 1) for n in range(13)]
    assert bench.storage.calls["release"] == 1 and bench.states() == (0, 0, 0, 0)


def test_a_stop_gives_back_what_was_prefetched_as_if_it_had_never_been_taken():
    bench, seen = prefetching(), []
    bench.offer(*(f"{n:02}" for n in range(14)))
    stop = type("Stop", (), {"is_set": lambda self: len(seen) == 12})()
    assert bench.queue.consume(lambda envelope: seen.append(envelope.payload), stop=stop) == 12
    assert bench.states() == (2, 0, 0, 0)
    assert [row.attempts for row in bench.storage.peek(bench.session.kind, Chosen(), 9)] == [0, 0]


def test_what_was_prefetched_follows_on_the_event_loop_without_a_thread(monkeypatch):
    bench, seen, steps = prefetching(), [], []
    bench.offer(*(f"{n:02}" for n in range(20)))
    submit = bench.session.calls.submit
    monkeypatch.setattr(bench.session.calls, "submit", lambda work: steps.append(work) or submit(work))

    async def handle(envelope):
        seen.append(envelope.payload)

    assert asyncio.run(bench.queue.consume_async(handle, until="empty")) == 20
    assert seen == [f"{n:02}" for n in range(20)] and bench.states() == (0, 0, 0, 0)
    assert len(steps) == 10 + 1 + 1  # as many as fetches
    activity = bench.queue.activity()
    assert (activity.acknowledged, activity.handler_time.count) == (20, 20)


STATES = {
    "a check of the lease": ("_keeper._lock", SimpleNamespace(acquire=lambda blocking: blocking)),
    "a call that settles": ("_taken._mutex", SimpleNamespace(acquire=lambda blocking: blocking)),
    "half of the lease is over": ("_too_late", 0),
    "the handler has settled it": ("_envelope._settled", True),
    "it was taken from the handler": ("_keeper._envelope", None),
    "the clock asks the database": ("session.clock_waits", True),
    "stop": ("_stop", SimpleNamespace(is_set=lambda: True)),
}


@pytest.mark.parametrize("state", STATES)
def test_nothing_follows_when_something_must_be_waited_for(state, monkeypatch):
    bench = prefetching()
    bench.offer(*(f"{n:02}" for n in range(14)))
    loop = consumer_loop(bench.session, batch_size=1, stop=None, max_attempts=None, backoff=None, max_in_flight=None,
        prefetch=4, until="empty")  # fmt: skip
    steps = loop.run()
    seen = [steps.send(None) for _ in range(11)]
    name, value = STATES[state]
    *path, attribute = name.split(".")
    with monkeypatch.context() as patch:
        patch.setattr(functools.reduce(getattr, path, loop), attribute, value)
        assert loop.follow() is None
    seen += [loop.follow() for _ in range(3)]
    assert [envelope.payload for envelope in seen] == [f"{n:02}" for n in range(14)] and loop.follow() is None
    assert steps.send(None) == loop.handled == 14
    assert bench.states() == (0, 0, 0, 0)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_message_that_follows_and_fails_is_the_one_that_is_given_back(is_async):
    bench, seen = prefetching(), []
    bench.offer(*(f"{n:02}" for n in range(14)))

    def handle(envelope):
        seen.append((envelope.payload, envelope.attempt))
        if seen[-1] == ("11", 1):
            raise ValueError("not now")

    async def handle_async(envelope):
        handle(envelope)

    def run():
        if is_async:
            return asyncio.run(bench.queue.consume_async(handle_async, until="empty"))
        return bench.queue.consume(handle, until="empty")

    assert run() == 13
    bench.clock.advance(1.0)
    assert run() == 1
    assert seen == [*((f"{n:02}", 1) for n in range(14)), ("11", 2)] and bench.states() == (0, 0, 0, 0)


def test_a_consumer_that_is_cancelled_gives_back_the_message_that_followed_uncounted():
    bench, seen = prefetching(), []
    bench.offer(*(f"{n:02}" for n in range(14)))

    async def handle(envelope):
        seen.append(envelope.payload)
        if envelope.payload == "12":
            await asyncio.sleep(60)

    async def program():
        task = asyncio.ensure_future(bench.queue.consume_async(handle))
        while seen[-1:] != ["12"]:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(program())
    assert bench.states() == (2, 0, 0, 0)
    assert [row.attempts for row in bench.storage.peek(bench.session.kind, Chosen(), 9)] == [0, 0]


@pytest.mark.parametrize(
    ("option", "most"),
    [({"max_attempts": 1}, 1), ({"batch_size": 2}, 2), ({"max_in_flight": 9}, 1), ({"prefetch": 1}, 1), ({}, 10)],
)
def test_what_rules_prefetching_out_takes_no_message_ahead(option, most):
    bench, ahead = prefetching(), []
    bench.offer(*(f"{n:02}" for n in range(24)))
    assert bench.queue.consume(lambda envelope: ahead.append(bench.states()[2]), **option) == 24
    assert max(ahead) == most


@pytest.mark.parametrize("is_async", [False, True])
def test_a_consumer_until_empty_retries_on_a_frozen_clock_and_buries_at_the_end(is_async):
    calls, clock = [], ManualClock()

    def handle(envelope):
        calls.append(envelope.payload)
        if envelope.payload == "bad":
            raise ValueError

    async def handle_async(envelope):
        handle(envelope)

    def consume(queue):
        if is_async:
            return asyncio.run(queue.consume_async(handle_async, until="empty"))
        return queue.consume(handle, until="empty")

    retry = RetryConfig(backoff=Backoff(1.0, 1.0), max_retries=2)
    with DelayedQueue.open("memory:", "mail", clock=clock, retry=retry) as queue:
        for key in ("good", "bad", "later"):
            queue.offer(key, key, delay=60.0 if key == "later" else None)
        answers = []
        for _ in range(4):
            answers.append(consume(queue))
            clock.advance(1.0)
        assert (answers, sorted(calls)) == ([1, 0, 0, 0], ["bad", "bad", "bad", "good"])
        assert [dead.key for dead in queue.dead_letters()] == ["bad"] and queue.peek(limit=9)[0].key == "later"
        with pytest.raises(ValueError, match='until must be "empty" or None'):
            queue.consume(handle, until="full")


@pytest.mark.parametrize("history", [None, 5])
def test_an_interrupted_fetch_releases_what_it_took_and_says_nothing_false(world, monkeypatch, caplog, history):
    queue = world.open(history=history)
    for key in "abc":
        queue.offer(key, 1)
    storage, handled, takes = queue._session.storage, [], []
    acquire = storage.acquire

    def interrupted(*arguments, **more):
        takes.append(acquire(*arguments, **more))
        if len(takes) == 2:
            raise KeyboardInterrupt
        return takes[-1]

    monkeypatch.setattr(storage, "acquire", interrupted)
    with pytest.raises(KeyboardInterrupt):
        queue.consume(lambda envelope: handled.append(envelope.message_id))
    assert (handled, len(takes[1].rows)) == (["a"], 1)
    assert [(row.key, row.attempts, row.in_flight) for row in queue.peek()] == [("b", 0, False), ("c", 0, False)]
    assert (queue.activity().acknowledged, queue.activity().lost) == (1, 0)
    assert "updated or taken over" not in caplog.text


def test_an_interrupted_poll_releases_what_it_took(world, monkeypatch):
    queue = world.open()
    queue.offer("a", 1)
    storage = queue._session.storage
    acquire = storage.acquire
    monkeypatch.setattr(storage, "acquire", lambda *a, **more: acquire(*a, **more) and interrupt())
    with pytest.raises(SystemExit):
        queue.poll(timeout=10)
    assert [(row.key, row.attempts, row.in_flight) for row in queue.peek()] == [("a", 0, False)]


def interrupt():
    raise SystemExit(143)
