"""Every coroutine of the package, cancelled in every step of its event loop: it ends, and has taken nothing.

The loop is stepped by hand and its clock jumps to the next timer; the test does the work of other threads between
two steps. So for each wake-up there is a cancel before it, in the same step, and after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, Full

import pytest

from drainq import BatchQueue, BatchQueueConfig, MultiQueue, SetQueue, SubQueue, ThreadPolicy
from drainq.delayed import DelayedQueue, ScheduledMessage
from drainq.sources import PrefetchSource
from drainq.testing import ManualClock
from tests.sources.by_hand import HandExecutor, Stock

STEPS = range(9)
BOUND = 30
"""Steps in which a cancelled task must have ended."""


class SteppedLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        super().__init__()
        self._jumped = 0.0

    def time(self):
        return self._jumped

    def step(self):
        if not self._ready and self._scheduled:
            self._jumped = max(self._jumped, self._scheduled[0]._when)
        self.call_soon(self.stop)
        self.run_forever()


class AtOnce(ThreadPoolExecutor):
    """Runs what it is given on the spot."""

    def submit(self, fn, /, *args, **kwargs):
        done = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done


class Case:
    """A coroutine, the act that ends its wait, and a check that no item is lost."""

    waits_for_threads = False

    def __init__(self, call=None):
        self.call = call

    def run(self):
        raise NotImplementedError

    def act(self):
        """Do what the coroutine waits for, as another thread would. A second call does nothing."""

    def books(self, answer):
        """Return the found items and the expected items. ``answer`` is the coroutine's result, None after a cancel."""
        return [], []


class AsyncFor(Case):
    """A consumer of a prefetching source; its act is the refill."""

    def __init__(self):
        self.background, self.taken = HandExecutor(), []
        self.source = PrefetchSource(Stock("abc"), 4, 1, executor=self.background, clock=ManualClock())

    async def run(self):
        async for item in self.source:
            self.taken.append(item)

    def act(self):
        self.background.run()

    def books(self, answer):
        found = [*self.taken, *self.source.get_next_batch(9)]
        self.act()
        return [*found, *self.source.get_next_batch(9)], ["a", "b", "c"]


class ANext(AsyncFor):
    async def run(self):
        self.taken = [await anext(aiter(self.source))]


class Closing(AsyncFor):
    def run(self):
        return self.source.close_async(30)

    def books(self, answer):
        return [], []


class Delayed(Case):
    """A call of a delayed queue; its act is the offer of the message that it may take."""

    def __init__(self, call, *, at_once=False):
        self.call = call
        self.queue = DelayedQueue.open("memory:", "mail", clock=ManualClock())
        self.queue._session.calls._executor = AtOnce()
        self.offered = False
        if at_once:
            self.act()

    def run(self):
        return self.call(self.queue)

    def act(self):
        if not self.offered:
            self.offered = True
            self.queue.offer_or_update("a", "a", 0)


class Taking(Delayed):
    def books(self, answer):
        self.act()
        self.queue._session.calls.close(30)  # waits until messages are given back
        taken = [] if answer is None else answer.payload
        return [*taken, *self.queue.try_poll_many(9).payload], ["a"]


class TakingEach(Taking):
    def books(self, answer):
        found, there = super().books(None)
        return [*found, *(envelope.payload for envelope in answer or [])], there


class Consuming(Delayed):
    """A consumer with an async handler, which takes two steps and ends after one message."""

    def __init__(self):
        super().__init__(None)
        self.handled = []
        self.queue._session.calls.give_back_after = lambda running, give_back: AtOnce().submit(
            lambda: give_back(running.result())
        )

    async def run(self):
        stop = asyncio.Event()

        async def handle(envelope):
            await asyncio.sleep(0)
            self.handled.append(envelope.payload)
            stop.set()

        return await self.queue.consume_async(handle, stop=stop)

    def books(self, answer):
        self.act()
        self.queue._session.calls.close(30)
        return [*self.handled, *self.queue.try_poll_many(9).payload], ["a"]


class Get(Case):
    """A getter of a multi-queue or a set queue; its act is a put."""

    def __init__(self, call, kind=MultiQueue):
        self.call, self.queue, self.acted = call, kind(), False
        self.sub = self.queue.add_sub_queue("s") if kind is MultiQueue else self.queue

    async def run(self):
        with contextlib.suppress(Empty):
            return await self.call(self.queue)

    def act(self):
        if not self.acted:
            self.acted = True
            self.sub.put_many(list("ab"))

    def books(self, answer):
        self.act()
        return [*(answer or []), *self.queue.get_many(9, timeout=0)], ["a", "b"]


class Join(Get):
    """A wait for the end of the work; its act takes the item and marks the item as done."""

    def __init__(self, kind=MultiQueue):
        super().__init__(lambda queue: queue.join_async(), kind)
        self.sub.put("a")

    async def run(self):
        assert await self.queue.join_async()

    def act(self):
        if not self.acted:
            self.acted = True
            assert self.queue.get() == "a"
            self.queue.task_done()

    def books(self, answer):
        return [], []


class GetAll(Get):
    def __init__(self, kind=MultiQueue):
        super().__init__(None, kind)
        self.taken = []

    async def run(self):
        async for item in self.queue.stream_async():
            self.taken.append(item)

    def books(self, answer):
        return super().books(self.taken)


class Put(Case):
    """A putter in front of a full queue; its act is a get."""

    def __init__(self, kind=MultiQueue, timeout=None, unique=False):
        self.queue, self.gotten, self.timeout = MultiQueue() if kind is MultiQueue else kind(1), [], timeout
        self.sub = self.queue.add_sub_queue("s", capacity=1, unique=unique) if kind is MultiQueue else self.queue
        self.sub.put("a")

    async def run(self):
        with contextlib.suppress(Full):
            await self.sub.put_async("b", self.timeout)
            return True

    def act(self):
        self.gotten += [] if self.gotten else self.queue.get_many(1, timeout=0)

    def books(self, answer):
        return [*self.gotten, *self.queue.get_many(9, timeout=0)], ["a", "b"] if answer else ["a"]


class PutMany(Put):
    """A producer of a list in front of a full queue."""

    async def run(self):
        return await self.sub.put_many_async(["b"], self.timeout)


class Produce(Case):
    """A producer in front of a full partition; its act lets the handler return."""

    def __init__(self, call):
        self.call, self.handled, self.accepted = call, [], ["0"]
        self.busy, self.go_on = threading.Event(), threading.Event()
        config = BatchQueueConfig(buffer_size=2, threads=ThreadPolicy.fixed(1), consumer=self.handle)
        self.queue = BatchQueue("full", config)
        assert self.queue.produce("0") and self.busy.wait(30)
        while self.queue.offer(f"{len(self.accepted)}", timeout=0):
            self.accepted.append(f"{len(self.accepted)}")

    def handle(self, batch):
        self.busy.set()
        assert self.go_on.wait(30)
        self.handled += batch

    def run(self):
        return self.call(self.queue)

    def act(self):
        self.go_on.set()
        assert self.queue.flush(30)

    def books(self, answer):
        self.go_on.set()
        assert self.queue.shutdown(30)
        return self.handled, [*self.accepted, "late"] if answer else self.accepted


class Waiting(Produce):
    """A coroutine that waits for the threads of a batch queue."""

    waits_for_threads = True

    def __init__(self, call):
        super().__init__(call)
        self.go_on.set()

    def books(self, answer):
        return super().books(None)


async def inside(queue):
    async with queue:
        await asyncio.sleep(0)


async def item(queue):
    return (await queue.get_item_async())[1]


CASES = {
    "async for of a source": AsyncFor,
    "anext of a source": ANext,
    "close_async of a source": Closing,
    "poll_async": lambda: Taking(lambda queue: queue.poll_async()),
    "poll_async with a timeout": lambda: Taking(lambda queue: queue.poll_async(timeout=60)),
    "poll_async of what is there": lambda: Taking(lambda queue: queue.poll_async(), at_once=True),
    "try_poll_async": lambda: Taking(lambda queue: queue.try_poll_async(), at_once=True),
    "try_poll_many_async": lambda: Taking(lambda queue: queue.try_poll_many_async(3), at_once=True),
    "get_next_batch_async": lambda: TakingEach(lambda queue: queue.get_next_batch_async(3), at_once=True),
    "consume_async": Consuming,
    "offer_batch_async": lambda: Delayed(lambda queue: queue.offer_batch_async([ScheduledMessage("b", "b", 0)])),
    "ack_async": lambda: Delayed(lambda queue: queue.try_poll().ack_async(), at_once=True),
    "close_async": lambda: Delayed(lambda queue: queue.close_async(), at_once=True),
    "get_async": lambda: Get(lambda queue: queue.get_async()),
    "get_item_async": lambda: Get(item),
    "get_many_async": lambda: Get(lambda queue: queue.get_many_async(2)),
    "get_many_async of two": lambda: Get(lambda queue: queue.get_many_async(2, min_items=2, timeout=60)),
    "stream_async": GetAll,
    "join_async": Join,
    "join_async of a set queue": lambda: Join(SetQueue),
    "put_async": Put,
    "put_async with a timeout": lambda: Put(timeout=60),
    "put_async without duplicates": lambda: Put(unique=True),
    "put_many_async": PutMany,
    "put_many_async without duplicates": lambda: PutMany(unique=True, timeout=60),
    "put_many_async of a set queue": lambda: PutMany(SetQueue),
    "get_async of a set queue": lambda: Get(lambda queue: queue.get_async(timeout=60), SetQueue),
    "get_many_async of a set queue": lambda: Get(lambda queue: queue.get_many_async(2, min_items=2), SetQueue),
    "stream_async of a set queue": lambda: GetAll(SetQueue),
    "put_async of a set queue": lambda: Put(SetQueue),
    "produce_async": lambda: Produce(lambda queue: queue.produce_async("late")),
    "produce_many_async": lambda: Produce(lambda queue: queue.produce_many_async(iter(["late"]))),
    "offer_async": lambda: Produce(lambda queue: queue.offer_async("late", 60)),
    "flush_async": lambda: Waiting(lambda queue: queue.flush_async()),
    "remove_handler_async": lambda: Waiting(lambda queue: queue.remove_handler_async(str)),
    "shutdown_async": lambda: Waiting(lambda queue: queue.shutdown_async()),
    "async with": lambda: Waiting(inside),
}


def test_the_table_names_every_coroutine():
    named = {
        name for cls in (BatchQueue, MultiQueue, SetQueue, SubQueue) for name in dir(cls) if name.endswith("_async")
    }
    named |= {f"{name}_async" for name in ("poll", "try_poll", "try_poll_many", "get_next_batch", "consume", "close")}
    assert {name for name in named if not name.startswith("_")} - set(CASES) == set()


@pytest.mark.parametrize("name", CASES)
def test_a_task_that_is_cancelled_in_any_step_ends_and_has_taken_nothing(name):
    wrong = []
    for acts_at, cancelled_at, first in itertools.product(STEPS, STEPS, ("the cancel", "the wake-up")):
        if fault := _fault(CASES[name], acts_at, cancelled_at, first):
            wrong.append(f"woken at step {acts_at}, cancelled at step {cancelled_at}, first {first}: {fault}")
    assert wrong == []


def _fault(make, acts_at, cancelled_at, first):
    """Return what is wrong after a task was woken and cancelled at these steps; None if nothing is."""
    case, loop, accepted = make(), SteppedLoop(), []
    loop.set_default_executor(AtOnce())
    try:
        task = loop.create_task(case.run())
        for step in range(max(acts_at, cancelled_at) + 1):
            if step == cancelled_at and first == "the cancel":
                accepted.append(task.cancel())
            if step == acts_at:
                case.act()
            if step == cancelled_at and first == "the wake-up":
                loop.call_soon(lambda: accepted.append(task.cancel()))
            loop.step()
        for _ in range(BOUND):
            if task.done():
                break
            loop.step()
        if case.waits_for_threads and not task.done():
            task.add_done_callback(lambda _: loop.stop())
            loop.run_forever()
        if accepted == [True] and not task.cancelled():
            return f"the cancel was accepted, and the task goes on: {task}"
        answer = task.result() if task.done() and not task.cancelled() else None
        found, expected = case.books(answer)
        return None if sorted(found) == expected else f"{sorted(found)} are found, not {expected}"
    finally:
        for unfinished in asyncio.all_tasks(loop):
            unfinished._log_destroy_pending = False
        loop.close()
