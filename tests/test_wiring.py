"""Each argument of a constructor arrives where it is used, and one that is left out has the documented default."""

from __future__ import annotations

import inspect
import itertools
import time
from functools import reduce

import pytest

from drainq import Backoff, BatchQueueConfig
from drainq.batch_config import partitioning
from drainq.clock import MonotonicClock, SystemClock
from drainq.delivery import delivering_worker, worker
from drainq.delivery.dead_letters import DeadLetters
from drainq.delivery.delivery import Delivery
from drainq.delivery.item_bytes import UNITS
from drainq.delivery.outage import Outage
from drainq.sources import Fair, ItemTracker, PrefetchSource, SourceScheduler
from drainq.sources.tracker.store import MemoryStore
from drainq.sql import Database, Merge
from drainq.testing import ManualClock
from drainq.timer import Timer
from drainq.workers import (
    BatchWriter,
    DeclaredMetrics,
    MetricsAggregator,
    MetricsPersister,
    SendingWorker,
    Sink,
    TopN,
)
from tests.workers.test_options import HITS

CLOCK = ManualClock()


class Took(Sink):
    def send(self, items):
        """Take them."""


class Kept:
    """Stands for a delayed queue, or an executor."""

    def peek(self, count):
        return []

    def try_poll(self, *_):
        return None

    submit = offer_if_not_exists = offer_or_update = read = drop_message = try_poll


def of(*_):
    return 0.0


def named(*_):
    return "key"


class Unchanged:
    """Is equal to a function that returns its argument."""

    def __eq__(self, other):
        return other(SINK) is SINK


SINK, OLDER, KEPT, BACKOFF, SAME = Took(), Took(), Kept(), Backoff(0.25, 7.0), Unchanged()
UPSERT = "_delivery.sink.upsert"
# parameter: the given value, the attributes that lead to it, the value there by default. ``...``: no default.
TIMED = {"time": (of, "_time", None), "expire_after": (9, "_expire_after", None)}
OUTAGE = {"name": ("n", "_name", ...), "retry_for": (7.0, "_retry_for", ...), "backoff": (BACKOFF, "_backoff", ...),
          "clock": (CLOCK, "_clock", ...), "log_values": (True, "_log_values", ...)}  # fmt: skip
LETTERS = {"delayed": (KEPT, "_delayed", ...), "label": ("l", "_label", ...), "books": (of, "_books", ...),
           "clock": (CLOCK, "_clock", ...), "key_of": (named, "_key_of", None), "size": (of, "_size", len),
           "older_sink": (OLDER, "_older_sink", None), "log_values": (True, "_log_values", False)}  # fmt: skip
TABLE = {
    MetricsAggregator: {
        "key": (named, "_key", ...), "merge": (max, "_merge", ...), "sink": (print, "_sink", ...),
        "flush_interval": (3, "_interval", 0.5), **TIMED,
    },
    TopN: {
        "n": (3, "_n", ...), "score": (of, "_score", ...), "group": (named, "_group", None),
        "sink": (print, "_sink", ...), "flush_interval": (3, "_interval", None),
    },
    BatchWriter: {
        "url": ("", "_delivery.sink.url", ...), "table": ("t", f"{UPSERT}.table", ...),
        "columns": (["k", "n"], f"{UPSERT}.columns", ...), "key": (["k"], f"{UPSERT}.key", []),
        "threads": (3, "_threads", 1),
    },
    MetricsPersister: {
        "url": ("", "_table_sink.url", ...), "table": ("t", "_upsert.table", ...),
        "columns": (["k", "n"], "_upsert.columns", ...), "key": (["k"], "_upsert.key", ...),
        "merge": ({"n": Merge.SUM}, "_upsert.merge", ...), "flush_interval": (3, "_interval", 5.0),
        "max_rows": (7, "_max_rows", 200_000), **TIMED,
    },
    DeclaredMetrics: {
        "url": ("", "_tables.url", ...), "metrics": ([HITS], None, ...), "create": (True, None, True),
        "flush_interval": (3, "_interval", 5.0), "max_rows": (7, "_max_rows", 200_000),
    },
    SendingWorker: {
        "sink": (SINK, "_delivery.sink", ...), "default_name": ("n", "_name", "sending-worker/Took"),
        "threads": (3, "_threads", 1), "key_of": (named, "_dead_letters._key_of", None),
        "pack_item": (of, "_dead_letters._pack_item", SAME), "unpack_item": (max, "_dead_letters._unpack_item", SAME),
    },
    Outage: OUTAGE,
    DeadLetters: {**LETTERS, "pack_item": (of, "_pack_item", SAME), "unpack_item": (max, "_unpack_item", SAME)},
    Delivery: {
        "sink": (SINK, "sink", ...), "books": (of, "_books", ...), "name": ("n", "_outage._name", ...),
        "retry_for": (7.0, "_outage._retry_for", 60.0), "dead_letters": (KEPT, "_dead_letters", None),
        "size": (of, "_size", len), "keep_when_stopped": (True, "_keep_when_stopped", False),
        "backoff": (BACKOFF, "_outage._backoff", SINK.backoff), "clock": (CLOCK, "_outage._clock", MonotonicClock),
        "log_values": (True, "_outage._log_values", False), "wait": (of, "_wait", None),
    },
    PrefetchSource: {
        "source": (named, "_ask", ...), "capacity": (7, "_size.capacity", ...),
        "replenish_threshold": (3, "_size.threshold", ...), "key": (named, "_options.key", None),
        "in_flight": ("ttl", "_options.in_flight", "forget"), "ttl": (9, "_options.ttl", None),
        "on_error": (of, "_reports._on_error", "log"), "backoff": (BACKOFF, "_schedule._tries._backoff", Backoff()),
        "eager": (True, None, False), "name": ("n", "_reports._name", "named"),
        "executor": (KEPT, "_executor", None), "min_interval": (2, "_schedule._min_interval", 0.0),
        "max_capacity": (9, "_size._largest", 7), "clock": (CLOCK, "_clock._clock", MonotonicClock), "loop": (None, None, None),
    },
    SourceScheduler: {
        "sources": ({"x": named}, None, ...), "target": (max, "_delivery._target", ...),
        "strategy": (Fair("x"), "strategy", ...), "batch_size": (7, "_batch_size", 100),
        "backlog": (of, "_backlog._ask", None), "max_backlog": (9, "_backlog._maximum", None),
        "resume_backlog": (5, "_backlog._resume", None), "tracker": (ItemTracker.open(), "_delivery._tracker", None),
        "item_key": (named, "_delivery._item_key", str), "on_error": (max, "_on_error", None),
        "idle": (BACKOFF, "_idle", Backoff(0.001, 0.25, 2.0)), "name": ("moves", "name", "drainq-scheduler"),
    },
    Timer: {"most": (3, "_most", 32), "linger": (7.0, "_linger", 10.0), "now": (of, "_now", time.monotonic)},
    ManualClock: {"start": (5.0, "_now", 1_700_000_000.0)},
    ItemTracker: {"store": (MemoryStore(), "_store", ...), "clock": (CLOCK, "_clock", SystemClock)},
}  # fmt: skip


def at(made, way):
    """Return the value at the end of a path of attributes; a tuple as a list, a clock of the machine as its class."""
    found = reduce(getattr, way.split("."), made)
    machines = isinstance(found, (MonotonicClock, SystemClock))
    return list(found) if isinstance(found, tuple) else type(found) if machines else found


@pytest.fixture
def url(tmp_path):
    with Database(f"sqlite:///{tmp_path}/wiring.db") as database:
        database.execute("CREATE TABLE t (k TEXT PRIMARY KEY, n INTEGER, last INTEGER)")
        return database.url


def test_an_argument_arrives_and_one_that_is_left_out_is_its_default(url):
    wrong = []
    for kind, rows in TABLE.items():
        parameters = dict(inspect.signature(kind).parameters)
        parameters.pop("settings", None)
        assert parameters.keys() == rows.keys(), kind
        aside = {name: default for name, (_, way, default) in rows.items() if way is None and default is not ...}
        assert {name: parameters[name].default for name in aside} == aside, kind
        given = {name: url if name == "url" else value for name, (value, *_) in rows.items()}
        needed = {name: given[name] for name, (*_, default) in rows.items() if default is ...}
        keeps = {"delayed": KEPT} if kind is SendingWorker else {}
        never = {"flush_interval": None} if "flush_interval" in rows else {}
        for settings in (given, needed, needed | never):
            made = kind(**settings, **keeps)
            wanted = {name: settings.get(name, default) for name, (_, way, default) in rows.items() if way is not None}
            found = {name: at(made, rows[name][1]) for name in wanted}
            wrong += [(kind.__name__, name, found[name], wanted[name]) for name in wanted
                      if found[name] != wanted[name]]  # fmt: skip
            getattr(made, "close", int)()
    assert wrong == []


SETTINGS = {
    "name": "n",
    "linger": 0.5,
    "max_batch": 3,
    "log_values": True,
    "clock": CLOCK,
    "on_error": of,
    "strategy": "if_possible",
}
QUEUE = {"strategy": "if_possible", "linger": 0.5, "max_batch": 3, "on_error": worker._has_been_told}
ITEMS = [(4, 1, 4), (5, 2, 5)]
MADE = {  # the selector of the queue's partitions; what ITEMS count for, the key of the first, how older rows are merged
    MetricsAggregator: (None, None, None, None),
    TopN: (None, None, None, None),
    SendingWorker: ("PartitionSelector.round_robin", 2, "key", None),
    BatchWriter: ("PartitionSelector.by", 2, (4,), None),
    MetricsPersister: (None, 9, (4,), {"n": Merge.SUM, "last": Merge.FIRST}),
    DeclaredMetrics: (None, 9, None, None),
}


def test_a_worker_makes_its_queue_its_delivery_and_its_dead_letters_as_it_was_told(url, monkeypatch):
    def noting(module, name):
        make = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *of, **named: noted.update({name: (of, named)}) or make(*of, **named))

    noted = {}
    for module, name in ((worker, "BatchQueue"), (delivering_worker, "Delivery"), (delivering_worker, "DeadLetters")):
        noting(module, name)
    for (kind, (selector, size, key, older)), in_bytes in itertools.product(MADE.items(), (False, True)):
        given = {name: url if name == "url" else value for name, (value, *_) in TABLE[kind].items()}
        given |= {"columns": ["k", "n", "last"]} if older else {}
        given |= {"buffer_size": 7, "max_batch_bytes": 1000 if in_bytes else None}
        given |= {"delayed": KEPT, "retry_for": 9} if size else {}
        made = kind(**given, **SETTINGS)
        made.close()
        assert not in_bytes or (made._bytes.bound, made._bytes.weight(0)) == (1000, -(-UNITS // 7))
        room = {"buffer_size": UNITS, "len_of": made._bytes.weight} if in_bytes else {"buffer_size": 7}
        queue = {**QUEUE, **room, "capacity": room["buffer_size"], "threads": 3 if selector else 1}
        of, settings = noted.pop("BatchQueue")
        assert settings.pop("consumer")._worker is made
        if selector:
            _, chosen = partitioning(BatchQueueConfig(consumer=print, **settings))
            assert str(chosen).startswith(f"{selector}(") and settings.pop("partition_selector", chosen) is chosen
        assert (kind, of, settings, made._clock) == (kind, ("n",), queue, CLOCK)
        if size:
            common = {"books": made._books, "log_values": True}
            (of, named), (kept, letters) = noted.pop("Delivery"), noted.pop("DeadLetters")
            sizes, more = [part.pop("size")(ITEMS) for part in (named, letters)], {"keep_when_stopped": size == 9}
            assert (of, sizes) == ((made._delivery.sink,), [size, size])
            assert named == {**common, **more, "name": "n", "retry_for": 9.0, "dead_letters": made._dead_letters}
            found = [letters.pop(name) for name in ("key_of", "older_sink")]
            assert (found[0] and found[0](ITEMS[0])) == key and (found[1] and found[1]._upsert.merge) == older
            packs = {name: given.get(name) for name in ("pack_item", "unpack_item")}
            assert (kept, letters) == ((KEPT,), {**common, **packs, "label": "n", "clock": CLOCK})
            assert made._delivery.on_stop == made._when_stopped and made._delivery.tell == made._tell
            assert made._dead_letters.on_sent == made._delivery.works_again
