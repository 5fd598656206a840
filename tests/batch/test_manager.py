"""`BatchQueueManager`: queues by name."""

import gc
import threading
import warnings
import weakref

import pytest

from drainq import (
    BatchQueueConfig,
    BatchQueueManager,
    BufferStrategy,
    DrainBalancer,
    DrainqError,
    DrainqWarning,
    DuplicateName,
    ModeConflict,
    PartitionPolicy,
    PartitionSelector,
    ThreadPolicy,
    WouldDeadlock,
)
from tests.batch.conftest import PATIENCE, Gate, accounts

pytestmark = pytest.mark.usefixtures("clean_manager")


def config(**settings):
    return BatchQueueConfig(threads=ThreadPolicy.fixed(1), **settings)


def test_a_queue_is_found_by_its_name():
    queue = BatchQueueManager.create("a", config())
    assert BatchQueueManager.get("a") is queue
    assert BatchQueueManager.get("b") is None
    assert BatchQueueManager.names() == ["a"]
    assert (queue.name, queue.running) == ("a", True)
    consumed = BatchQueueManager.create("c", config(consumer=print))
    assert BatchQueueManager.get_or_create("c") is consumed


def test_a_name_can_be_created_once():
    BatchQueueManager.create("a", config())
    with pytest.raises(DuplicateName, match="'a'") as refusal:
        BatchQueueManager.create("a", config())
    assert isinstance(refusal.value, DrainqError)
    assert isinstance(refusal.value, RuntimeError)


def test_the_first_settings_win_and_others_are_warned_of():
    first = BatchQueueManager.get_or_create("a", config(buffer_size=10))
    with pytest.warns(DrainqWarning, match="buffer_size=10.*buffer_size=20"):
        assert BatchQueueManager.get_or_create("a", config(buffer_size=20)) is first
    assert first.stats().buffer_size == 10


def test_the_other_mode_is_refused():
    BatchQueueManager.get_or_create("handlers", config())
    BatchQueueManager.get_or_create("consumer", config(consumer=Gate()))
    with pytest.raises(
        ModeConflict, match="^queue 'handlers' has handlers by type, but was asked for with one consumer"
    ):
        BatchQueueManager.get_or_create("handlers", config(consumer=Gate()))
    with pytest.raises(
        ModeConflict, match="^queue 'consumer' has one consumer for everything, but was asked for with handlers"
    ):
        BatchQueueManager.get_or_create("consumer", config())


def test_many_threads_that_ask_at_once_get_one_queue():
    barrier, queues = threading.Barrier(8), []

    def ask():
        barrier.wait(PATIENCE)
        queues.append(BatchQueueManager.get_or_create("a", config()))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(queues) == 8
    assert len(set(map(id, queues))) == 1


def test_shutdown_drains_and_frees_the_name():
    gate = Gate()
    queue = BatchQueueManager.create("a", config(consumer=gate))
    queue.produce_many(range(100))
    assert BatchQueueManager.shutdown("a", PATIENCE) is True
    assert sorted(gate.items) == list(range(100))
    assert BatchQueueManager.get("a") is None
    assert queue.running is False
    assert BatchQueueManager.create("a", config()) is not queue


def test_shutdown_of_a_name_that_no_queue_has_is_refused():
    BatchQueueManager.create("a", config())
    with pytest.raises(KeyError, match=r"name must be .*got 'nobody'; running are \['a'\]; missing_ok=True"):
        BatchQueueManager.shutdown("nobody")
    assert BatchQueueManager.names() == ["a"]
    assert BatchQueueManager.shutdown("nobody", missing_ok=True) is True


def test_a_second_shutdown_has_nothing_to_do_if_that_is_allowed():
    BatchQueueManager.create("a", config())
    assert BatchQueueManager.shutdown("a", PATIENCE, missing_ok=True) is True
    assert BatchQueueManager.shutdown("a", PATIENCE, missing_ok=True) is True
    with pytest.raises(KeyError, match=r"got 'a'; running are \[\]"):
        BatchQueueManager.shutdown("a", PATIENCE)


def test_a_queue_that_was_shut_down_by_hand_can_be_forgotten_by_its_name():
    queue = BatchQueueManager.create("a", config())
    assert queue.shutdown(PATIENCE) and BatchQueueManager.names() == []
    assert BatchQueueManager.shutdown("a", PATIENCE) is True
    with pytest.raises(KeyError, match=r"got 'a'; running are \[\]"):
        BatchQueueManager.shutdown("a", PATIENCE)


def test_shutdown_all_drains_every_queue():
    gates = [Gate() for _ in range(3)]
    queues = [BatchQueueManager.create(f"q{n}", config(consumer=gate)) for n, gate in enumerate(gates)]
    for queue in queues:
        queue.produce_many(range(50))
    assert BatchQueueManager.shutdown_all(PATIENCE) is True
    for queue, gate in zip(queues, gates):
        assert len(gate.items) == 50
        accounts(queue.stats())
    assert BatchQueueManager.names() == []


@pytest.mark.parametrize("hangs", [0, 1])
def test_shutdown_all_is_not_clean_where_one_queue_abandons_something(hangs):
    gates = [Gate(is_open=number != hangs) for number in range(2)]
    queues = [
        BatchQueueManager.create(
            f"q{number}", config(consumer=gate, shutdown_timeout=0.05 if number == hangs else None)
        )
        for number, gate in enumerate(gates)
    ]
    for queue, gate in zip(queues, gates):
        queue.produce(1)
        gate.wait_entered()
    assert BatchQueueManager.shutdown_all() is False
    gates[hangs].open()
    assert [queue.stats().abandoned for queue in queues] == [1 - hangs, hangs]


def test_the_timeout_of_shutdown_all_is_for_all_queues_together():
    """A hundred and fifty queues behind a handler that hangs: with the whole time for each it took half a minute."""
    hanging, pool = Gate(is_open=False), {"shared_scheduler": ("all together", ThreadPolicy.fixed(1))}
    BatchQueueManager.create("hanging", BatchQueueConfig(consumer=hanging, **pool)).produce(0)
    hanging.wait_entered()
    for n in range(150):
        BatchQueueManager.create(f"behind-{n}", BatchQueueConfig(consumer=hanging, **pool)).produce(n)
    clean = []
    shutdown = threading.Thread(target=lambda: clean.append(BatchQueueManager.shutdown_all(0.2)))
    shutdown.start()
    shutdown.join(PATIENCE / 3)
    hanging.open()
    assert clean == [False]


def test_a_handler_that_shuts_all_down_is_refused_and_all_queues_stay():
    raised = []

    def handler(batch):
        try:
            BatchQueueManager.shutdown_all(0)
        except WouldDeadlock as refusal:
            raised.append(str(refusal))

    other = Gate()
    BatchQueueManager.create("other", config(consumer=other))
    BatchQueueManager.create("asking", config(consumer=handler)).produce(1)
    assert BatchQueueManager.get("asking").flush(PATIENCE)
    assert raised == ['shutdown_all was called from a handler of queue "asking", which it would wait for']
    assert BatchQueueManager.names() == ["other", "asking"]
    assert BatchQueueManager.get("other").produce(2)
    assert BatchQueueManager.shutdown_all(PATIENCE) is True
    assert other.items == [2]


def test_a_handler_that_shuts_its_own_queue_down_is_refused_and_the_queue_keeps_its_name():
    raised = []

    def handler(batch):
        try:
            BatchQueueManager.shutdown("asking", 0)
        except WouldDeadlock as refusal:
            raised.append(refusal)

    asking = BatchQueueManager.create("asking", config(consumer=handler))
    assert asking.produce(1) and asking.flush(PATIENCE) and len(raised) == 1
    assert BatchQueueManager.get("asking") is asking and asking.running
    assert BatchQueueManager.shutdown("asking", PATIENCE) is True


def test_a_queue_that_takes_the_name_during_a_shutdown_is_kept():
    class Successor:
        def consume(self, batch):
            """Do nothing."""

        def on_close(self):
            BatchQueueManager.create("a", config(consumer=len))

    BatchQueueManager.create("a", config(consumer=Successor()))
    assert BatchQueueManager.shutdown("a", PATIENCE) is True
    assert BatchQueueManager.names() == ["a"]
    assert BatchQueueManager.get("a").running


@pytest.mark.parametrize("asked", ["get", "shutdown"])
@pytest.mark.parametrize("stopped", [True, False])
def test_a_queue_that_takes_the_name_while_another_is_made_has_it_as_long_as_it_runs(monkeypatch, stopped, asked):
    """Making a queue with more threads than partitions warns, which runs Python code: one that is refused has threads
    by then, which end."""
    made, before = [], set(threading.enumerate())

    def take_the_name(*_args, **_kwargs):
        if not made:
            made.append(BatchQueueManager.create("a", config()))
            if stopped:
                made[0].shutdown(PATIENCE)

    warns = BatchQueueConfig(threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.fixed(1))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", take_the_name)
        if stopped:
            queue = BatchQueueManager.create("a", warns)
        else:
            with pytest.raises(DuplicateName, match="'a'"):
                BatchQueueManager.create("a", warns)
            (queue,) = made
            new = [each for each in set(threading.enumerate()) - before if each.name.startswith("drainq-a-")]
            assert len(new) == queue.thread_count == 1
    assert len(made) == 1 and queue.running
    assert BatchQueueManager.names() == ["a"]
    if asked == "get":
        assert BatchQueueManager.get("a") is queue
    else:
        assert BatchQueueManager.shutdown("a") and not queue.running


def test_who_asks_for_a_name_that_another_takes_meanwhile_gets_the_queue_that_has_it(monkeypatch):
    """Making a queue with more threads than partitions warns, which runs Python code."""
    settings = BatchQueueConfig(threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.fixed(1))
    made = []

    def take_the_name(*_args, **_kwargs):
        monkeypatch.undo()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made.append(BatchQueueManager.get_or_create("a", settings))

    monkeypatch.setattr(warnings, "warn", take_the_name)
    assert BatchQueueManager.get_or_create("a", settings) is made[0]
    assert BatchQueueManager.names() == ["a"]


def test_queues_of_their_own_are_not_registered(make_queue):
    make_queue()
    assert BatchQueueManager.names() == []


@pytest.mark.parametrize(
    "other",
    [
        {"threads": ThreadPolicy.fixed(2), "partitions": PartitionPolicy.fixed(2)},
        {"threads": None, "shared_scheduler": ("other", ThreadPolicy.fixed(1))},
        {"partitions": PartitionPolicy.fixed(3)},
        {"partition_selector": PartitionSelector.round_robin()},
        {"buffer_size": 77},
        {"strategy": BufferStrategy.IF_POSSIBLE},
        {"min_idle": 0.002},
        {"max_idle": 0.3},
        {"linger": 0.5},
        {"len_of": lambda item: 1},
        {"max_batch": 77},
        {"shutdown_timeout": 3.0},
        {"balancer": DrainBalancer.throughput_weighted()},
        {"rebalance_interval": 77.0},
    ],
    ids=lambda settings: next(iter(settings)) if len(settings) == 1 else "-".join(settings),
)
def test_each_setting_that_the_second_caller_does_not_get_is_warned_of(other):
    first = BatchQueueManager.create("a", config())
    with pytest.warns(DrainqWarning, match="queue 'a' exists with other settings, which stay: .*asked for: "):
        assert BatchQueueManager.get_or_create("a", config().replace(**other)) is first


def test_callables_of_the_second_caller_are_no_other_settings():
    consumers = [Gate(), Gate()]
    first = BatchQueueManager.create("a", config(consumer=consumers[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = config(consumer=consumers[1], on_drop=lambda reason, count: None, on_error=lambda batch, _: None)
        assert BatchQueueManager.get_or_create("a", second) is first
    assert first.produce(1) and first.flush(PATIENCE)
    assert [gate.items for gate in consumers] == [[1], []]


@pytest.mark.parametrize("how", ["its argument", "its configuration"])
def test_shutdown_by_name_waits_no_longer_than_its_timeout(how):
    gate, answers = Gate(is_open=False), []
    settings = {} if how == "its argument" else {"shutdown_timeout": 0.0}
    queue = BatchQueueManager.create("a", config(consumer=gate, **settings))
    assert queue.produce_many([1, 2, 3]) == 3
    gate.wait_entered()
    timeout = 0 if how == "its argument" else None
    end = threading.Thread(target=lambda: answers.append(BatchQueueManager.shutdown("a", timeout)), daemon=True)
    end.start()
    end.join(PATIENCE)
    assert answers == [False]
    stats = queue.stats()
    assert (stats.accepted, stats.abandoned, stats.handled) == (3, 3, 0)
    assert BatchQueueManager.get("a") is None and BatchQueueManager.names() == []
    gate.open()


@pytest.mark.parametrize("how", ["shutdown", "shutdown_all", "by hand"])
def test_a_queue_that_has_ended_is_kept_by_nobody(how):
    queue = BatchQueueManager.create("a", config(consumer=Gate()))
    assert queue.produce(1)
    gone = weakref.ref(queue)
    if how == "shutdown":
        assert BatchQueueManager.shutdown("a", PATIENCE) is True
    elif how == "shutdown_all":
        assert BatchQueueManager.shutdown_all(PATIENCE) is True
    else:
        assert queue.shutdown(PATIENCE) is True
        assert BatchQueueManager.get("a") is None
    del queue
    gc.collect()
    assert gone() is None


def test_a_queue_is_asked_for_by_its_settings():
    """Without a configuration only the settings are compared. Handlers are added to a queue that exists, too."""
    words, numbers = Gate(), Gate()
    first = BatchQueueManager.get_or_create("a", buffer_size=7, threads=1, handlers={str: words})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert BatchQueueManager.get_or_create("a") is first
        assert BatchQueueManager.get_or_create("a", buffer_size=7, handlers={int: numbers}) is first
    with pytest.warns(DrainqWarning, match="buffer_size=7.*buffer_size=8"):
        BatchQueueManager.get_or_create("a", buffer_size=8)
    assert first.produce_many(["a", 1]) == 2 and first.flush(PATIENCE)
    assert (words.items, numbers.items) == (["a"], [1])
    BatchQueueManager.create("b", consumer=words)
    for name, asked in (("a", {"consumer": len}), ("b", {"handlers": {str: len}})):
        with pytest.raises(ModeConflict, match=f"queue '{name}' has "):
            BatchQueueManager.get_or_create(name, **asked)
