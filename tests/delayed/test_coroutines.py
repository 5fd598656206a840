"""The queue from asyncio: the same answers, no thread held while waiting, nothing lost by a cancel."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextvars import ContextVar

import pytest

from drainq.delayed import OfferOutcome, ScheduledMessage, TimeConfig
from drainq.delayed.coroutines import CallThreads, twin
from drainq.errors import ShutDown

TENANT: ContextVar[str] = ContextVar("tenant")


def test_offer_poll_and_ack(queue, world):
    async def main():
        assert await queue.offer_or_update_async("a", 1, world.now) is OfferOutcome.CREATED
        assert await queue.offer_if_not_exists_async("a", 2, world.now) is OfferOutcome.IGNORED
        assert await queue.offer_batch_async([ScheduledMessage("b", 2, world.now)]) == [OfferOutcome.CREATED]
        envelope = await queue.poll_async()
        assert envelope.payload == 1
        assert await envelope.extend_async(60) is True
        assert await envelope.nack_async(delay=5) is True
        batch = await queue.try_poll_many_async(10)
        assert batch.payload == [2]
        assert await batch.ack_async() is True
        assert await queue.try_poll_async() is None
        assert (await queue.read_async("a")).payload == 1
        assert await queue.contains_message_async("a")
        assert await queue.drop_message_async("a")
        assert await queue.poll_async(timeout=0.01) is None

    asyncio.run(main())


@pytest.mark.parametrize("undo", [None, lambda queue, taken: None])
def test_a_twin_hands_on_all_arguments(queue, undo):
    call = twin(lambda self, *arguments, **more: (self, arguments, more), undo=undo)
    assert asyncio.run(call(queue, 1, timeout=2)) == (queue, (1,), {"timeout": 2})


def test_a_hundred_waiting_tasks_hold_no_thread(world):
    queue = world.open(time=TimeConfig(poll_period=3600))
    queue.offer_batch([ScheduledMessage(f"{n}", n, world.now + 10) for n in range(100)])

    before = set(threading.enumerate())  # other tests may have left threads that still end

    async def main():
        polls = [asyncio.create_task(queue.poll_async(timeout=60)) for _ in range(100)]
        world.clock.advance(10)
        queue.offer_or_update("wake", -1, world.now + 1000)
        envelopes = await asyncio.wait_for(asyncio.gather(*polls), 60)
        assert len(set(threading.enumerate()) - before) < 60
        return sorted(envelope.payload for envelope in envelopes)

    assert asyncio.run(main()) == list(range(100)) and not queue._session.wakeup._listeners


def test_a_poll_cancelled_while_it_takes_gives_the_message_back(queue, world):
    queue.offer_or_update("a", 1, world.now)
    taken, go_on, released = threading.Event(), threading.Event(), threading.Event()
    acquire, release = queue._session.storage.acquire, queue._session.storage.release

    def slow_acquire(*arguments):
        rows = acquire(*arguments)
        taken.set()
        assert go_on.wait(60)
        return rows

    def watched_release(*arguments):
        try:
            return release(*arguments)
        finally:
            released.set()

    queue._session.storage.acquire, queue._session.storage.release = slow_acquire, watched_release

    async def main():
        polling = asyncio.create_task(queue.poll_async())
        assert await asyncio.to_thread(taken.wait, 60)
        polling.cancel()
        try:
            await polling
        except asyncio.CancelledError:
            go_on.set()
            assert await asyncio.to_thread(released.wait, 60)
            return True

    try:
        assert asyncio.run(main())
    finally:
        queue._session.storage.acquire, queue._session.storage.release = acquire, release
    again = queue.try_poll()
    assert (again.payload, again.attempt) == (1, 1)


def test_close_lets_a_waiting_poll_go(world):
    from drainq.errors import ShutDown

    queue = world.open(time=TimeConfig(poll_period=3600))

    async def main():
        polling = asyncio.create_task(queue.poll_async())
        await asyncio.to_thread(queue.try_poll)
        await queue.close_async()
        try:
            await asyncio.wait_for(polling, 30)
        except ShutDown:
            return True

    assert asyncio.run(main())


@pytest.mark.parametrize(("error", "said"), [(ShutDown("closed"), False), (KeyError("x"), True), (None, False)])
def test_what_cannot_be_given_back_is_said_unless_the_queue_is_closed(error, said, caplog):
    calls, taken, given = CallThreads(1), Future(), []

    def give_back(result):
        given.append(result)
        if error:
            raise error

    returned = calls.give_back_after(taken, give_back)
    assert not calls.close(0.0)
    taken.set_result("taken")
    returned.result(60)
    assert given == ["taken"] and calls.close(0.0)
    assert ("could not give back what a cancelled call took" in caplog.text) is said and bool(caplog.text) is said


class Gate:
    """Holds up a storage call once it has done its work, until it is told to answer."""

    def __init__(self, storage, name):
        self._storage, self._name = storage, name
        self._call = getattr(storage, name)
        self.reached, self.open = threading.Event(), threading.Event()
        setattr(storage, name, self)

    def __call__(self, *arguments, **more):
        answer = self._call(*arguments, **more)
        self.reached.set()
        assert self.open.wait(60)
        return answer

    def remove(self):
        self.open.set()
        setattr(self._storage, self._name, self._call)


def test_a_poll_that_the_end_of_the_loop_cuts_off_gives_its_message_back(queue, world):
    queue.offer_or_update("a", 1, world.now)
    gate = Gate(queue._session.storage, "acquire")

    async def main():
        asyncio.get_running_loop().create_task(queue.poll_async())
        assert await queue._session.calls.run(gate.reached.wait, 60)

    try:
        asyncio.run(main())
    finally:
        gate.remove()
    for _ in range(600):
        if queue.stats().in_flight == 0:
            break
        threading.Event().wait(0.05)  # the giving back is another thread's, and there is no event for it
    again = queue.try_poll()
    assert (again.payload, again.attempt) == (1, 1)


def test_closing_waits_for_what_a_cancelled_poll_gives_back(world):
    queue, other = world.open(), world.open()
    queue.offer_or_update("a", 1, world.now)
    gate = Gate(queue._session.storage, "acquire")

    async def main():
        polling = asyncio.create_task(queue.try_poll_async())
        assert await queue._session.calls.run(gate.reached.wait, 60)
        polling.cancel()

    asyncio.run(main())
    assert queue._session.calls.close(0) is False
    threading.Timer(0.1, gate.remove).start()
    queue.close()
    assert not queue._session.calls._returning
    again = other.try_poll()
    assert (again.payload, again.attempt) == (1, 1)


def test_calls_that_wait_for_the_database_leave_the_programs_own_threads_alone(queue, world):
    gate = Gate(queue._session.storage, "offer")

    async def main():
        offers = [asyncio.create_task(queue.offer_or_update_async(f"{n}", n, world.now)) for n in range(50)]
        assert await queue._session.calls.run(gate.reached.wait, 60)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "ran"), 30) == "ran"
        gate.remove()
        await asyncio.gather(*offers)
        TENANT.set("ann")
        assert await queue._session.calls.run(TENANT.get) == "ann"

    asyncio.run(main())
    assert queue.stats().ready == 50


def test_an_offer_that_is_cancelled_before_it_began_is_not_made(queue, world):
    gate = Gate(queue._session.storage, "offer")

    async def main():
        offers = [asyncio.create_task(queue.offer_or_update_async(f"{n}", n, world.now)) for n in range(30)]
        assert await queue._session.calls.run(gate.reached.wait, 60)
        for offer in offers:
            offer.cancel()
        assert {type(end) for end in await asyncio.gather(*offers, return_exceptions=True)} == {asyncio.CancelledError}
        gate.remove()

    asyncio.run(main())
    queue.close()
    assert 1 <= world.open().stats().ready <= 10


def test_an_offer_wakes_others_although_a_loop_was_closed_with_a_poll_in_it(queue, world):
    loop = asyncio.new_event_loop()
    polling = loop.create_task(queue.poll_async())
    loop.run_until_complete(queue.contains_message_async("a"))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert queue.offer_or_update("a", 1, world.now) is OfferOutcome.CREATED
    polling._log_destroy_pending = False
