"""The lease of a message whose handler takes its time: extended in time, given up when it is lost."""

from __future__ import annotations

import pytest

from drainq.delayed import DelayedQueue, RetryConfig, ScheduledMessage, TimeConfig
from drainq.delayed.lease import LeaseKeeper
from drainq.delayed.queue_settings import QueueSettings
from drainq.delayed.storage.records import Held
from drainq.delayed.storage.sqlite.storage import MemoryStorage
from drainq.testing import ManualClock

LEASE = 30.0


class Away(Exception):
    """The database is away."""


class Extending(MemoryStorage):
    """A storage that notes how leases are extended, and fails as often as told."""

    def __init__(self):
        super().__init__()
        self.extended, self.failures = [], 0

    def is_transient(self, error):
        return isinstance(error, Away)

    def extend(self, kind, held, until):
        if self.failures:
            self.failures -= 1
            raise Away
        self.extended.append((held.ids, until))
        return super().extend(kind, held, until)


@pytest.fixture
def clock():
    return ManualClock(0.0)


@pytest.fixture
def storage():
    return Extending()


@pytest.fixture
def queue(storage, clock):
    time = TimeConfig(acquire_timeout=LEASE)
    with DelayedQueue(
        storage, QueueSettings.of("mail", clock=clock, time=time, retry=RetryConfig(max_retries=0))
    ) as queue:
        queue.offer_batch([ScheduledMessage(f"{n}", n, 0) for n in range(3)])
        yield queue


@pytest.fixture
def keeper(queue):
    return LeaseKeeper(queue._session)  # not entered: the checks are the test's to make


def after(clock, seconds, keeper):
    clock.advance(seconds)
    keeper._extend_in_time()


def test_a_lease_is_extended_when_a_third_of_it_is_over(queue, keeper, clock, storage):
    keeper.hold(queue.try_poll())
    after(clock, 9.999, keeper)
    assert storage.extended == []
    after(clock, 0.001, keeper)
    assert storage.extended == [((1,), 40_000)]  # a whole lease from now
    after(clock, 9.999, keeper)
    assert len(storage.extended) == 1
    after(clock, 0.001, keeper)
    assert storage.extended[1:] == [((1,), 50_000)]


def test_the_time_that_an_extension_takes_is_not_added_to_the_lease(queue, keeper, clock, storage):
    extend = storage.extend

    def slowly(kind, held, until):
        clock.advance(8)
        return extend(kind, held, until)

    storage.extend = slowly
    keeper.hold(queue.try_poll())
    after(clock, 10, keeper)
    assert storage.extended == [((1,), 40_000)]
    after(clock, 2, keeper)  # a third of a lease after the extension was begun
    assert storage.extended[1:] == [((1,), 50_000)]


def test_nothing_is_extended_after_the_handler_or_before_the_next(queue, keeper, clock, storage):
    keeper.hold(queue.try_poll())
    keeper.let_go()
    after(clock, 20, keeper)
    assert storage.extended == []
    keeper.hold(queue.try_poll())  # its time begins now
    after(clock, 9, keeper)
    assert storage.extended == []


@pytest.mark.parametrize("settle", ["ack", "nack"])
def test_what_the_handler_has_settled_itself_is_not_extended(queue, keeper, clock, storage, settle, caplog):
    envelope = queue.try_poll()
    keeper.hold(envelope)
    getattr(envelope, settle)()
    after(clock, 20, keeper)
    assert storage.extended == [] and caplog.text == ""


def test_the_rest_of_a_batch_goes_on_being_extended(queue, keeper, clock, storage):
    batch = queue.try_poll_many(3)
    keeper.hold(batch)
    batch.ack_some(["1"])
    after(clock, 10, keeper)
    assert storage.extended == [((1, 3), 40_000)]


def test_a_lost_message_is_said_once_and_let_go(queue, keeper, clock, storage, caplog):
    keeper.hold(queue.try_poll())
    queue.offer_or_update("0", "changed", 0)
    for _ in range(2):
        after(clock, 10, keeper)
    assert len(storage.extended) == 1
    assert caplog.text.count("was updated or taken over while its handler runs") == 1


def test_a_failure_that_passes_is_tried_again_at_the_next_check(queue, keeper, clock, storage, caplog):
    keeper.hold(queue.try_poll())
    storage.failures = 1
    after(clock, 10, keeper)
    assert storage.extended == [] and "could not extend a lease" in caplog.text
    after(clock, 0.5, keeper)
    assert storage.extended == [((1,), 40_500)]


def test_a_failure_that_does_not_pass_is_logged_and_ends_no_check(queue, keeper, clock, storage, caplog):
    storage.extend = lambda *_: 1 / 0
    keeper.hold(queue.try_poll())
    after(clock, 10, keeper)
    assert "could not extend the lease of message #" in caplog.text and "ZeroDivisionError" in caplog.text
    del storage.extend
    after(clock, 0, keeper)
    assert storage.extended == [((1,), 40_000)]


def test_a_closed_queue_is_no_failure(queue, keeper, clock, caplog):
    keeper.hold(queue.try_poll())
    queue.close()
    after(clock, 10, keeper)
    assert caplog.text == ""


class Waiting:
    """What a consumer has prefetched; it can be settled only if the database is there."""

    def __init__(self):
        self.settled, self.failures = 0, 0

    def settle(self):
        if self.failures:
            self.failures -= 1
            raise Away
        self.settled += 1


def test_what_waits_behind_a_slow_handler_is_given_back_at_the_second_check_once(queue, keeper):
    waiting = Waiting()
    keeper.hold(queue.try_poll(), waiting)
    settled = []
    for _ in range(3):
        keeper._extend_in_time()
        settled.append(waiting.settled)
    assert settled == [0, 1, 1]


def test_between_two_messages_nothing_is_given_back_and_after_the_consumer_nothing_checked(queue, keeper):
    waiting = Waiting()
    with keeper:
        keeper.hold(queue.try_poll(), waiting)
        keeper.let_go()
        for _ in range(3):
            keeper._extend_in_time()
    assert waiting.settled == 0 and keeper._check.stopped


def test_each_message_has_its_own_two_checks(queue, keeper):
    waiting = Waiting()
    for envelope in (queue.try_poll(), queue.try_poll()):
        keeper.hold(envelope, waiting)
        keeper._extend_in_time()
    assert waiting.settled == 0


def test_giving_back_is_tried_again_until_the_database_is_there(queue, keeper, storage):
    waiting = Waiting()
    waiting.failures = 2
    keeper.hold(queue.try_poll(), waiting)
    settled = []
    for _ in range(5):
        keeper._extend_in_time()
        settled.append(waiting.settled)
    assert settled == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(("lease", "pause"), [(30.0, 0.5), (0.6, 0.1)])
def test_checks_come_at_least_six_times_in_a_lease(storage, clock, lease, pause):
    with DelayedQueue(storage, QueueSettings.of("mail", clock=clock, time=TimeConfig(acquire_timeout=lease))) as queue:
        assert LeaseKeeper(queue._session)._extend_in_time() == pytest.approx(pause)


def test_an_extension_of_what_is_held_says_whether_all_of_it_was_ours(queue, storage):
    batch = queue.try_poll_many(3)
    assert batch.extend(5) is True
    queue._session.storage.release(queue._session.kind, Held(batch._lock, (2,)))
    assert batch.extend(5) is False
