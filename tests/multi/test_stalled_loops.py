"""A wake-up given to an event loop that does not run goes to a thread that waits, in bounded time."""

import asyncio
from contextlib import contextmanager

import pytest

from .helpers import PATIENCE, blocked_getters, blocked_putters, drain, eventually, in_thread, totals_add_up


@contextmanager
def task_of(loop, queue):
    """Have a task of a loop sleep in ``get_async``; the loop is not running afterwards."""
    before, task = queue.stats().blocked_getters, loop.create_task(queue.get_async())
    while not blocked_getters(queue, before + 1)():
        loop.run_until_complete(asyncio.sleep(0))
    yield loop
    if loop.is_closed():
        task._log_destroy_pending = False
    else:
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.close()


@pytest.fixture
def stopped(queue):
    """Yield a loop that is not running, with a task that sleeps in ``get_async``."""
    with task_of(asyncio.new_event_loop(), queue) as loop:
        yield loop


def test_a_thread_gets_the_item_that_a_stopped_loop_was_woken_for(queue, stopped):
    sub = queue.add_sub_queue("a")
    thread = in_thread(queue.get)
    eventually(blocked_getters(queue, 2))
    sub.put("x")
    assert thread.result(PATIENCE) == "x"
    assert queue.stats().blocked_getters == 1


def test_a_stopped_loop_that_runs_again_finds_what_came_meanwhile(queue, stopped):
    sub = queue.add_sub_queue("a")
    sub.put("x")
    (task,) = asyncio.all_tasks(stopped)
    assert stopped.run_until_complete(asyncio.wait_for(task, PATIENCE)) == "x"


def test_a_thread_gets_the_item_that_a_busy_loop_was_woken_for(queue):
    """The loop is busy until the thread has the item."""
    sub = queue.add_sub_queue("a")

    async def busy():
        task = asyncio.create_task(queue.get_async())
        while not blocked_getters(queue, 1)():
            await asyncio.sleep(0)
        thread = in_thread(queue.get)
        eventually(blocked_getters(queue, 2))
        sub.put("x")
        got = thread.result(PATIENCE)  # blocks the loop
        sub.put("y")
        return got, await task

    assert asyncio.run(busy()) == ("x", "y")
    totals_add_up(queue)
    assert queue.stats().blocked_getters == 0


def test_a_thread_puts_into_the_room_that_a_busy_loop_was_woken_for(queue):
    sub = queue.add_sub_queue("a", capacity=1)
    sub.put(0)

    async def busy():
        task = asyncio.create_task(sub.put_async("task's"))
        while not blocked_putters(queue, 1)():
            await asyncio.sleep(0)
        thread = in_thread(sub.put, "thread's")
        eventually(blocked_putters(queue, 2))
        assert queue.get() == 0
        thread.result(PATIENCE)  # blocks the loop
        assert queue.get() == "thread's"
        await task

    asyncio.run(busy())
    assert drain(queue) == ["task's"]
    totals_add_up(queue)
