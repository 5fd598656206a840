"""A queue that only its own handlers hold: it delivers, calls `on_close`, ends its threads, and is collected."""

import gc
import threading
import weakref

import pytest

from drainq import BatchQueue, BatchQueueConfig, BatchQueueManager, PartitionPolicy, ThreadPolicy
from tests.batch.conftest import PATIENCE, Gate
from tests.batch.test_lifecycle import run
from tests.batch.test_shutdown import drain_threads, ended


def config(n=1, **settings):
    return BatchQueueConfig(threads=ThreadPolicy.fixed(n), partitions=PartitionPolicy.fixed(n), **settings)


class Watcher:
    """A handler that holds its queue, and hears of everything."""

    def __init__(self, seen, closed):
        self.seen, self.closed, self.whole = seen, closed, "whole"

    def open(self, name, settings):
        self.queue = BatchQueue(name, settings)
        self.queue.add_handler(int, self)
        return self

    def consume(self, batch):
        self.seen.extend(batch)

    def on_idle(self):
        assert self.whole and self.queue

    def on_close(self):
        assert self.whole and not self.queue.running
        self.closed.release()


POOL = {"shared_scheduler": ("collection", ThreadPolicy.fixed(2))}


@pytest.fixture(params=["own", "pool"])
def settings(request):
    yield config(2) if request.param == "own" else BatchQueueConfig(**POOL)
    if request.param == "pool":
        BatchQueueManager.shutdown_all(PATIENCE)


def test_a_cycle_with_a_watching_handler_delivers_hears_of_its_end_and_is_collected(settings):
    seen, closed = [], threading.Semaphore(0)
    watcher = Watcher(seen, closed).open("cycle", settings)
    watcher.queue.produce_many(range(100))
    gone, threads = weakref.ref(watcher), drain_threads("cycle-")
    watcher.cycle = watcher
    del watcher
    while gone() is not None:
        gc.collect()
    assert closed.acquire(timeout=PATIENCE)
    ended(threads)
    gc.collect()
    assert not closed.acquire(blocking=False), "on_close is called once"
    assert seen == list(range(100))
    assert not [thing for thing in gc.get_objects() if type(thing) is Watcher]


@pytest.mark.parametrize("threshold", [None, 1], ids=["collected by hand", "collected at every allocation"])
def test_no_callable_is_called_after_the_collector_emptied_it(threshold):
    out = run(
        f"""
        import gc, threading, weakref
        from drainq import BatchQueue, BatchQueueConfig, PartitionPolicy, ThreadPolicy
        emptied, idle, ends = [], threading.Semaphore(0), []
        threading.excepthook = lambda info: emptied.append(info)
        class Handler:
            def __init__(self):
                self.whole = True
            def consume(self, batch):
                self.look("consume")
            def on_idle(self):
                self.look("on_idle")
                idle.release()
            def on_close(self):
                self.look("on_close")
                ends.append(1)
            def look(self, when):
                if not getattr(self, "whole", False) or not hasattr(self, "queue"):
                    emptied.append(when)
            def assign(self, throughput, owners, threads):
                self.look("assign")
        def make(n):
            handler = Handler.__new__(Handler)
            handler.whole = handler.queue = True
            handler.queue = BatchQueue(f"q{{n}}", BatchQueueConfig(
                threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.fixed(2), consumer=handler, balancer=handler,
                rebalance_interval=0.0005, min_idle=0.0, max_idle=0.0001))
            handler.queue.produce(n)
        if {threshold}:
            gc.set_threshold({threshold})
        else:
            gc.disable()
        for n in range(60):
            make(n)
            for _ in range(4):
                idle.acquire()
            gc.collect()
        while threading.active_count() > 1:
            gc.collect()
        gc.collect()
        left = [thing for thing in gc.get_objects() if type(thing) is Handler]
        print(len(ends), emptied, len(left), threading.active_count())
        """
    )
    assert out == "60 [] 0 1\n"


def test_on_close_comes_once_after_the_last_batch_and_before_shutdown_returns(settings):
    events = []

    class Handler:
        def __init__(self, name):
            self.name = name

        def consume(self, batch):
            events.append((self.name, len(batch)))

        def on_close(self):
            events.append((self.name, "closed"))

    queue = BatchQueue("close", settings)
    queue.add_handler(int, Handler("int"))
    queue.add_handler(str, Handler("str"))
    queue.produce_many(range(1_000))
    assert queue.shutdown(PATIENCE) is True
    assert sum(count for _, count in events[:-2]) == 1_000
    assert sorted(events[-2:]) == [("int", "closed"), ("str", "closed")]
    queue.shutdown(PATIENCE)
    assert len([event for event in events if event[1] == "closed"]) == 2


def test_a_second_shutdown_waits_for_an_on_close_that_the_first_calls(settings):
    closing, leave, order = threading.Event(), threading.Event(), []

    class Closing:
        def consume(self, batch):
            """Do nothing."""

        def on_close(self):
            closing.set()
            assert leave.wait(PATIENCE)
            order.append("closed")

    queue = BatchQueue("closing", settings.replace(consumer=Closing()))
    queue.produce(1)
    calls = [threading.Thread(target=lambda: order.append(queue.shutdown(PATIENCE))) for _ in range(2)]
    for call in calls:
        call.start()
        assert closing.wait(PATIENCE)
    calls[1].join(0.2)  # one that does not wait for on_close has returned by then
    leave.set()
    for call in calls:
        call.join(PATIENCE)
    assert order == ["closed", True, True]


def test_a_consumer_hears_of_the_end_and_may_not_wait_for_it_there(settings):
    from drainq import WouldDeadlock

    class Consumer:
        def __init__(self):
            self.raised, self.threads = [], []

        def __call__(self, batch):
            pass

        def on_close(self):
            for wait in (queue.flush, queue.shutdown):
                for limit in ((), (0,), (0.0,), (PATIENCE,), (None,)):
                    with pytest.raises(WouldDeadlock):
                        wait(*limit)
                self.raised.append(wait.__name__)

    consumer = Consumer()
    queue = BatchQueue("wait", settings.replace(consumer=consumer))
    queue.produce(1)
    assert queue.shutdown(PATIENCE) is True
    assert consumer.raised == ["flush", "shutdown"]


def test_an_on_close_that_raises_is_logged_and_the_others_are_called(make_queue, caplog):
    closed = []

    class Handler:
        def __init__(self, name):
            self.name = name

        def consume(self, batch):
            pass

        def on_close(self):
            closed.append(self.name)
            raise RuntimeError(self.name)

    queue = make_queue()
    for kind in (int, str, bytes):
        queue.add_handler(kind, Handler(kind.__name__))
    assert queue.shutdown(PATIENCE) is True
    assert sorted(closed) == ["bytes", "int", "str"]
    assert [record.message for record in caplog.records] == ["on_close raised"] * 3
    assert {str(record.exc_info[1]) for record in caplog.records} == set(closed)


def test_a_handler_that_is_busy_when_its_queue_is_found_finishes_whole():
    gate = Gate(is_open=False)

    class Busy:
        whole = None

        def consume(self, batch):
            gate(batch)

        def on_idle(self):
            pass

        def on_close(self):
            ends.append(self.whole)

    ends = []
    busy = Busy()
    busy.whole = "whole"
    busy.queue = BatchQueue("busy", config(consumer=busy))
    busy.queue.produce(1)
    gate.wait_entered()
    threads = drain_threads("busy")
    del busy
    gc.collect()
    gate.open()
    while any(thread.is_alive() for thread in threads):
        gc.collect()
    assert (gate.items, ends) == ([1], ["whole"])


def test_a_queue_with_items_stays_open_for_what_their_handler_produces_though_the_collector_looks():
    hold, seen, done = Gate(is_open=False), [], threading.Event()

    class Chain:
        def __call__(self, batch):
            seen.extend(batch)
            if not (seen[-1] < 5 and self.queue.produce(seen[-1] + 1)):
                done.set()

    chain = Chain()
    chain.queue = queue = BatchQueue("chain", config())
    queue.add_handler(str, hold), queue.add_handler(int, chain)
    queue.produce("hold")
    hold.wait_entered()
    queue.produce(1)
    threads = drain_threads("chain")
    del chain, queue
    gc.collect()
    hold.open()
    assert done.wait(PATIENCE) and seen == [1, 2, 3, 4, 5]
    while any(thread.is_alive() for thread in threads):
        gc.collect()


def test_what_a_queue_still_holds_when_the_collector_finds_it_is_handled(settings):
    """Its handler is no part of the cycle: others hold it."""
    gate, closed = Gate(is_open=False), threading.Event()
    gate.on_close = closed.set
    queue = BatchQueue("holds", settings)
    queue.add_handler(int, gate)
    queue.produce(0)
    gate.wait_entered()
    assert queue.produce_many(range(1, 10)) == 9
    cycle = [queue]
    cycle.append(cycle)
    gone = weakref.ref(queue)
    del queue, cycle
    gc.collect()
    assert gone() is None
    gate.open()
    assert closed.wait(PATIENCE)
    assert gate.items == list(range(10))


def test_a_queue_that_was_open_at_exit_calls_on_close():
    out = run(
        """
        from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
        class Sink:
            total = 0
            def consume(self, batch):
                self.total += len(batch)
            def on_close(self):
                print("closed", self.total, flush=True)
        queue = BatchQueue("exit", BatchQueueConfig(threads=ThreadPolicy.fixed(2), consumer=Sink()))
        queue.produce_many(range(100_000))
        """
    )
    assert out == "closed 100000\n"


def test_on_drop_stays_whole_until_the_last_refusals_are_told():
    told, all_told = [], threading.Semaphore(0)

    class Told:
        def __init__(self):
            self.whole = "whole"
            self.queue = BatchQueue("told", config(consumer=len, on_drop=self))

        def __call__(self, reason, count):
            told.append((self.whole, self.queue.name, reason, count))
            all_told.release()

    owner = Told()
    assert owner.queue.shutdown(PATIENCE)
    assert not any(owner.queue.produce(n) for n in range(3))  # one is told at once, two in a second
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    for _ in range(2):
        assert all_told.acquire(timeout=PATIENCE)
    assert told == [("whole", "told", "closed", 1), ("whole", "told", "closed", 2)]
    while gone() is not None:
        gc.collect()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_queue_that_could_not_be_made_tells_its_consumer_once_of_the_end(monkeypatch, threads):
    """Its only thread could not be started; or only the second could not."""
    start, left = threading.Thread.start, [None] * (threads - 1)

    def start_some(thread):
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    class Consumer:
        def consume(self, batch):
            raise AssertionError(batch)

        def on_close(self):
            closed.release()

    closed = threading.Semaphore(0)
    monkeypatch.setattr(threading.Thread, "start", start_some)
    policies = {"threads": ThreadPolicy.fixed(threads), "partitions": PartitionPolicy.fixed(threads)}
    with pytest.raises(RuntimeError, match="can't start new thread") as kept:
        BatchQueue("unmade", BatchQueueConfig(consumer=Consumer(), **policies))
    monkeypatch.undo()
    assert closed.acquire(timeout=PATIENCE)
    ended(drain_threads("unmade"))
    assert not closed.acquire(blocking=False)
    del kept  # the error leads to the thread that could not start, which holds nothing of the queue
