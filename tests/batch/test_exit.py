"""The interpreter's exit while user code runs below native code: never a signal, never a hang.

Up to Python 3.13 a thread that asks for the GIL then is ended where it stands, and its stack unwound.
"""

import pytest

from tests.batch.test_lifecycle import run, starts_threads_at_exit

pytestmark = pytest.mark.system

HEAD = """
import logging, threading, time
from drainq import BatchQueue, BatchQueueConfig, MultiQueue, PartitionPolicy, PartitionSelector, SetQueue, ThreadPolicy
entered, main = threading.Event(), threading.main_thread()
def retry(*_):
    entered.set()
    while threading.current_thread() is not main:  # the end of the program calls some of this as well
        time.sleep(0.0002)
def fail(batch):
    raise ValueError
def nothing(*_):
    pass
def daemon(work):
    threading.Thread(target=work, daemon=True).start()
def queue(n=1, **settings):
    settings.setdefault("threads", ThreadPolicy.fixed(n))
    return BatchQueue("exit", BatchQueueConfig(shutdown_timeout=0.02, **settings))
def having(**methods):
    return type("Having", (), {name: lambda self, *arguments, call=call: call() for name, call in methods.items()})
"""

PLACES = {
    "a handler": "queue(consumer=retry).produce(1)",
    "a handler that hangs": "queue(consumer=lambda batch: (entered.set(), threading.Event().wait())).produce(1)",
    "a handler of a pool": """
        pool = BatchQueueConfig(shared_scheduler=("pool", ThreadPolicy.fixed(2)), shutdown_timeout=0.02, consumer=retry)
        BatchQueue("pooled", pool).produce(1)""",
    "an error handler": "queue(consumer=fail, on_error=retry).produce(1)",
    "on_idle": "kept = queue(consumer=having(consume=nothing, on_idle=retry)())",
    "on_close": "kept = queue(consumer=having(consume=nothing, on_close=retry)()); daemon(kept.shutdown)",
    "on_drop": "kept = queue(on_drop=retry); kept.produce(1)",
    "on_drop, told later": """
        kept = queue(on_drop=lambda reason, count: count == 1 or retry())
        kept.shutdown()
        kept.produce_many(list("ab"))
        kept.produce_many(list("cd"))""",
    "the start of a thread": """
        start, threading.Thread.start = threading.Thread.start, retry
        start(threading.Thread(target=lambda: queue(consumer=nothing).produce(1), daemon=True))""",
    "a balancer": """
        many = PartitionPolicy.fixed(2)
        kept = queue(2, partitions=many, consumer=nothing, balancer=retry, rebalance_interval=0.001)""",
    "the log": """
        handler = logging.Handler()
        handler.handle = retry
        logging.getLogger("drainq").addHandler(handler)
        queue(consumer=fail).produce(1)""",
    "a repr": "queue().produce(type('Meta', (type,), {'__repr__': lambda self: retry() or 'x'})('Shown', (), {})())",
    "a finaliser of an item": "queue(consumer=nothing).produce(having(__del__=retry)())",
    "a finaliser of an item without a handler": "queue().produce(having(__del__=retry)())",
    "a dispatch key": "kept = queue(dispatch_key=retry, consumer=nothing); daemon(lambda: kept.produce(1))",
    "a hash": """
        kept = queue(dispatch_key=lambda item: having(__hash__=retry)(), consumer=nothing)
        daemon(lambda: kept.produce(1))""",
    "a comparison": """
        kept = queue(dispatch_key=lambda item: same(), consumer=nothing)
        same = having(__hash__=lambda: 1, __eq__=lambda: bool(retry()))
        kept.produce(1)
        daemon(lambda: kept.produce(1))""",
    "a selector": "kept = queue(partition_selector=retry); daemon(lambda: kept.produce(1))",
    "a selector's key": "kept = queue(partition_selector=PartitionSelector.by(retry)); daemon(lambda: kept.produce(1))",
    "len_of": "kept = queue(len_of=retry); daemon(lambda: kept.produce(1))",
    "an iterator": "kept = queue(consumer=nothing); daemon(lambda: kept.produce_many(iter(retry, 1)))",
    "a set queue's hash": "kept = SetQueue(); daemon(lambda: kept.put(having(__hash__=retry)()))",
    "an iterator for a set queue": "kept = SetQueue(); daemon(lambda: kept.put_many(iter(retry, 1)))",
    "an iterator for a sub-queue": """
        kept = MultiQueue().add_sub_queue("a")
        daemon(lambda: kept.put_many(iter(retry, 1)))""",
    "a sub-queue's key that is added": "kept = MultiQueue(); daemon(lambda: kept.add_sub_queue(having(__hash__=retry)()))",
    "a sub-queue's key that is looked up": "kept = MultiQueue(); daemon(lambda: kept[having(__hash__=retry)()])",
    "a sub-queue's key that is searched": "kept = MultiQueue(); daemon(lambda: having(__hash__=retry)() in kept)",
    "a sub-queue's key that is removed": """
        kept = MultiQueue()
        kept.add_sub_queue("a")
        daemon(lambda: kept.remove_sub_queue(having(__hash__=retry)()))""",
    "a sub-queue's key that is shown": """
        kept, key = MultiQueue(), having(__repr__=lambda: retry() or "x")()
        kept.add_sub_queue(key)
        daemon(lambda: kept.add_sub_queue(key))""",
    "a selection": """
        kept = MultiQueue(selection=having(select=retry)())
        kept.add_sub_queue("a").put(1)
        daemon(kept.get)""",
    "a predicate of remove_if": """
        kept = MultiQueue().add_sub_queue("a")
        kept.put(1)
        daemon(lambda: kept.remove_if(retry))""",
    "an event loop that is told": """
        import asyncio
        loop, kept = type("Loop", (asyncio.SelectorEventLoop,), {"call_soon_threadsafe": retry})(), MultiQueue()
        sub = kept.add_sub_queue("a")
        task = loop.create_task(kept.get_async())
        loop.run_until_complete(asyncio.sleep(0))
        daemon(lambda: sub.put(1))""",
    "an event loop that makes a future": """
        import asyncio
        loop, kept = type("Loop", (asyncio.SelectorEventLoop,), {"create_future": retry})(), MultiQueue()
        waiting = lambda: kept.get_async()
        daemon(lambda: loop.run_until_complete(loop.create_task(waiting())))""",
    "a clock of a set queue": """
        kept = SetQueue(in_flight="ttl", ttl=1, clock=having(now=lambda: retry() or 1)())
        daemon(lambda: kept.get(timeout=1))""",
    "a warning": """
        import warnings
        warnings.showwarning = retry
        warnings.simplefilter("always")
        daemon(lambda: queue(4, partitions=PartitionPolicy.fixed(1)))""",
    "the end of a drain thread": """
        kept = queue(consumer=nothing)
        threading.Thread.is_alive = retry
        daemon(kept.shutdown)""",
    "a blocked produce": """
        kept = queue(consumer=lambda batch: (entered.set(), threading.Event().wait()), buffer_size=1)
        daemon(lambda: [kept.produce(n) for n in range(9)])""",
    "a flush": """
        kept = queue(consumer=lambda batch: (entered.set(), threading.Event().wait()))
        kept.produce(1)
        daemon(kept.flush)""",
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_the_process_ends_well_while_a_thread_is_in(place):
    body = "\n".join(line.strip() for line in PLACES[place].splitlines())
    out = run(HEAD + body + "\nassert entered.wait(20)\nprint('left')\n")
    assert out == "left\n"


@starts_threads_at_exit
@pytest.mark.parametrize("earlier", [0, 1])
def test_queues_that_handlers_make_while_the_interpreter_exits_deliver_too(earlier):
    """Whether the queue whose handler makes one ends first or last."""
    out = run(
        f"""
        import os
        from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
        def show(batch):
            os.write(1, b"%d\\n" % len(batch))
        kept = []
        class First:
            def consume(self, batch):
                pass
            def on_close(self):
                kept.append(BatchQueue("second", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=show)))
                kept[0].produce_many(range(1_000))
        def made(name, consumer):
            return BatchQueue(name, BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=consumer))
        queues = [made("earlier", len) for _ in range({earlier})] + [made("first", First())]
        """
    )
    assert sum(map(int, out.split())) == 1_000


def test_the_end_of_a_process_waits_for_a_queue_for_its_shutdown_timeout_and_no_longer():
    ended = run("""
        import atexit, threading, time
        from drainq import BatchQueue
        atexit.register(lambda: print(f"waited {time.monotonic() - started:.3f}"))
        queue = BatchQueue("exit", consumer=lambda batch: threading.Event().wait(), shutdown_timeout=4.0)
        queue.produce(1)
        started = time.monotonic()
        """)
    assert 3.9 < float(ended.split("waited ")[1]) < 5.5, ended
