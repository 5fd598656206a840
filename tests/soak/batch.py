"""A round of one batch queue: a random configuration, a random program, a random end, an exact account."""

from __future__ import annotations

import gc
import random
import sys
import sysconfig
import threading
import weakref
from typing import Any

from drainq import (
    BatchQueue,
    BatchQueueConfig,
    BatchQueueManager,
    BufferStrategy,
    DrainBalancer,
    PartitionPolicy,
    PartitionSelector,
    ThreadPolicy,
)
from drainq.errors import DrainqError
from tests.soak.hostile import DeadLetters, Handler, Item, Key, Orphan, Other, fresh_class, give_up_the_gil
from tests.soak.interrupt import QUIET, Interrupted, Signals
from tests.soak.ledger import PATIENCE, Ledger, Wrong, check_identity, wait_until
from tests.soak.program import Again, Producer

KEEPS_CLASSES = sysconfig.get_config_var("Py_GIL_DISABLED") == 1 and sys.version_info < (3, 14)
"""Whether this CPython frees no class."""
ENDS = ["shutdown", "shutdown", "race", "deadline", "drop", "cycle"]


class Round:
    """One queue's life, made from a seed."""

    def __init__(self, seed: int, *, pooled: bool = False) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        rng = self.rng
        self.end = rng.choice(ENDS)
        self.keys = rng.choice([0, 0, 1, 5, 40])
        self.hostile = rng.random() < 0.5
        self.consumer = rng.random() < 0.3
        self.selector = rng.choice(["type", "type", "type", "turns", "by", "own"])
        self.reentrant = rng.random() < 0.4
        self.idles = rng.random() < 0.3
        self.raises = rng.choice([0.0, 0.0, 0.02, 0.3])
        self.threads = rng.choice([1, 2, 2, 4])
        interrupts = rng.random() < 0.3 and self.end != "race"
        self.pooled = pooled
        self.ledger = Ledger(weighs=rng.random() < 0.3)
        self.held: list[BatchQueue] = []  # emptied before a queue is dropped
        self.signals = Signals(
            0.002 if interrupts else 0.0, Again(self.held, self.ledger, f"{seed} signal", 0 if self.keys else None)
        )
        self.handlers: list[Handler] = []
        self.classes: list[weakref.ref[type]] = []
        self.config = self._config()

    def __str__(self) -> str:
        shown = ("end", "keys", "hostile", "consumer", "selector", "reentrant", "idles", "raises", "threads",
                 "pooled")  # fmt: skip
        facts = {name: getattr(self, name) for name in shown}
        return f"seed {self.seed}: {facts}, signals {self.signals.interval}\n{self.config!r}"

    def _config(self) -> BatchQueueConfig:
        rng = self.rng
        settings: dict[str, Any] = {}
        if self.pooled:
            settings["shared_scheduler"] = (f"soak-{rng.randrange(2)}", ThreadPolicy.fixed(rng.choice([1, 2, 3])))
        else:
            settings["threads"] = ThreadPolicy.fixed(rng.choice([1, 2, 3]))
        settings["partitions"] = rng.choice(
            [
                PartitionPolicy.fixed(4),
                PartitionPolicy.fixed(7),
                PartitionPolicy.adaptive(),
                PartitionPolicy.thread_multiply(2),
            ]
        )
        if self.selector == "turns":
            settings["partition_selector"] = PartitionSelector.round_robin()
        elif self.selector == "by":
            settings["partition_selector"] = PartitionSelector.by(lambda item: item.number % 5)
        elif self.selector == "own":
            settings["partition_selector"] = _choose
        if self.keys:
            settings["dispatch_key"] = lambda item: item.key
        if self.ledger.weighs:
            settings["len_of"] = lambda item: item.weight
        if self.consumer:
            settings["consumer"] = self._handler("consumer", serial=False)
        if rng.random() < 0.5:
            settings["on_error"] = DeadLetters(f"{self.seed} errors")
        if rng.random() < 0.6:
            settings["balancer"] = rng.choice([DrainBalancer.throughput_weighted(), _Shuffle(self.seed)])
        drops = self.ledger.drops
        settings["on_drop"] = lambda reason, count: drops.append(
            (reason, count)
        )  # threads that flush call it side by side
        return BatchQueueConfig(
            buffer_size=rng.choice([1, 2, 3, 16, 100, 10_000]),
            strategy=rng.choice([BufferStrategy.BLOCKING, BufferStrategy.IF_POSSIBLE]),
            min_idle=rng.choice([0.0001, 0.001]),
            max_idle=rng.choice([0.001, 0.01, 30.0]),
            linger=0.0 if self.pooled else rng.choice([0.0, 0.0, 0.001]),
            max_batch=rng.choice([1, 3, 10_000]),
            rebalance_interval=rng.choice([0.001, 0.01]),
            **settings,
        )

    def _handler(self, name: str, *, serial: bool = True) -> Handler:
        again = Again(self.held, self.ledger, f"{self.seed} {name}", 0 if self.keys else None)
        handler = Handler(
            self.ledger, f"{self.seed} {name}", serial=serial, raises=self.raises,
            again=again if self.reentrant else None, idles=self.idles,
        )  # fmt: skip
        self.handlers.append(handler)
        return handler

    # -- the round --------------------------------------------------------------------------------

    def run(self) -> None:
        """Run it whole; raises Wrong if a promise was broken."""
        _warn_less()
        queue = self._open()
        self.held.append(queue)
        kinds = self._register(queue)
        producers = [
            Producer(
                queue, self.ledger, f"{self.seed} producer {n}", kinds=kinds, keys=self.keys, hostile=self.hostile,
                flushes=self.end != "deadline", signals=self.signals if n == 0 else QUIET,
            )
            for n in range(self.threads)
        ]  # fmt: skip
        calls = self.rng.choice([20, 100, 400])
        others = [threading.Thread(target=producer.run, args=(calls,), daemon=True) for producer in producers[1:]]
        others.append(threading.Thread(target=self._administer, args=(queue, kinds), daemon=True))
        if self.end == "race":
            others.append(threading.Thread(target=queue.shutdown, args=(PATIENCE,), daemon=True))
        for thread in others:
            thread.start()
        with self.signals:
            producers[0].run(calls)
        for thread in others:
            thread.join(PATIENCE)
            if thread.is_alive():
                raise Wrong(f"{thread.name} has not ended in {PATIENCE:.0f} s")
        routed = not (self.consumer or Orphan in kinds)
        del producers, others, thread, kinds, queue  # from here on `held` alone holds the queue
        inner = weakref.ref(self.held[0])
        self.finish(all_handled=routed or self.consumer)
        self._check_nothing_stays(inner)

    def _open(self) -> BatchQueue:
        if self.rng.random() < 0.2 and self.end not in ("drop", "cycle"):
            return BatchQueueManager.get_or_create(f"soak {self.seed}", self.config)
        return BatchQueue(f"soak {self.seed}", self.config)

    def _register(self, queue: BatchQueue) -> list[type[Item]]:
        kinds: list[type[Item]] = [Item, Other, *(fresh_class(f"Fresh{n}") for n in range(self.rng.choice([0, 1, 30])))]
        self.classes = [weakref.ref(kind) for kind in kinds[2:]]
        if not self.consumer:
            if self.keys:
                for value in range(self.keys):
                    key = Key(value) if self.hostile else value
                    queue.add_handler(key, self._handler(f"key {value}"))
                if self.hostile:
                    queue.add_handler(0, self._handler("the key of signals and handlers"))
            else:
                for kind in kinds:
                    queue.add_handler(kind, self._handler(kind.__name__), weight=self.rng.choice([0.1, 1.0, 3.0]))
        if not self.keys and self.end in ("shutdown", "deadline") and self.rng.random() < 0.3:
            kinds.append(Orphan)
        return kinds

    def _administer(self, queue: BatchQueue, kinds: list[type[Item]]) -> None:
        """Handlers and classes come and go while the others produce."""
        rng = random.Random(f"{self.seed} admin")
        try:
            for step in range(rng.choice([0, 5, 30])):
                if self.consumer or self.keys or not queue.running:
                    give_up_the_gil()
                elif rng.random() < 0.5:
                    kind = rng.choice([kind for kind in kinds if kind is not Orphan])
                    # The one before may still be in a call while this one is called for the first time.
                    queue.add_handler(kind, self._handler(f"again {step}", serial=self.selector == "type"))
                else:
                    self._pass_through(queue, step)
        except DrainqError as error:
            if queue.running:
                self.ledger.complain(f"administrator: {error!r}")
        except BaseException as error:
            self.ledger.complain(f"administrator: {error!r}")

    def _pass_through(self, queue: BatchQueue, step: int) -> None:
        """Add a class, produce some items of it, and remove it; its handler has had them all by then."""
        kind = fresh_class(f"Passing{step}")
        handler = self._handler(f"passing {step}")
        handler.raises, handler.again = 0.0, None
        queue.add_handler(kind, handler)
        mine = [kind(self.ledger, f"{self.seed} admin", None) for _ in range(7)]
        taken = [item for item in mine if queue.offer(item, timeout=0)]
        self.ledger.accepted.extend(taken)
        removed = queue.remove_handler(kind)
        if queue.running:
            seen = {item.number for item in self.ledger.seen}
            if not removed:
                self.ledger.complain("remove_handler found no handler")
            if lost := [item for item in taken if item.number not in seen]:
                self.ledger.complain(f"remove_handler returned before {len(lost)} of {len(taken)} items were handled")

    # -- the ends ---------------------------------------------------------------------------------

    def finish(self, *, all_handled: bool) -> None:
        """End the queue as the round says, and compare."""
        ledger, queue = self.ledger, self.held[0]
        if self.end in ("shutdown", "race", "deadline"):
            timeout = self.rng.choice([0.0, 0.0005, 0.005]) if self.end == "deadline" else PATIENCE
            clean = queue.shutdown(timeout)
            if self.end != "deadline" and not clean:
                raise Wrong(f"shutdown gave up: {queue.stats()}")
            stats = queue.stats()
            check_identity(stats)
            if clean and stats.abandoned:
                raise Wrong(f"shutdown said that nothing was abandoned: {stats}")
            if not clean:
                wait_until(
                    lambda: not any(handler.inside.locked() for handler in self.handlers), "the handlers' return"
                )
            ledger.check_stats(queue.stats())
            del queue
        else:
            if self.end == "cycle":
                for handler in self.handlers:
                    handler.queue = queue  # type: ignore[attr-defined]
            self.held.clear()
            if self.end == "cycle":
                self.handlers.clear()
                self.config = None  # type: ignore[assignment]
            del queue
            gc.collect()
            if all_handled:
                wait_until(lambda: not ledger.missing(), "a dropped queue's items")
        ledger.check_numbers()
        if all_handled and self.end in ("shutdown", "race") and ledger.missing():
            raise Wrong(f"{len(ledger.missing())} accepted items were never handled")
        if self.selector == "type" and not self.keys:
            ledger.check_order()

    def _check_nothing_stays(self, inner: weakref.ref[BatchQueue]) -> None:
        """Queue, items and classes go when nobody holds them."""
        self.held.clear()
        self.handlers.clear()
        self.config = None  # type: ignore[assignment]
        self.ledger, self.signals = Ledger(), QUIET

        def gone() -> bool:
            gc.collect()
            BatchQueueManager.get("any")  # forgets the queues that have ended
            return inner() is None and (KEEPS_CLASSES or not any(kind() for kind in self.classes))

        wait_until(gone, "the end of a queue and its classes")


class _Shuffle:
    """A balancer that moves everything about, or raises."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"{seed} balancer")

    def __call__(self, throughput: list[int], owners: list[int], threads: int) -> list[int] | None:
        if self.rng.random() < 0.05:
            raise ValueError("balancer on purpose")
        return [self.rng.randrange(threads) for _ in owners] if self.rng.random() < 0.8 else None


def _choose(item: Item, count: int) -> int:
    if item.number % 7 == 0:
        give_up_the_gil()
    return item.number % count


def _warn_less() -> None:
    import logging
    import warnings

    logging.getLogger("drainq").setLevel(logging.CRITICAL + 1)
    warnings.simplefilter("ignore")


def run(seed: int) -> None:
    """Run one round. On failure its configuration is part of the error."""
    round = Round(seed)
    said = str(round)
    try:
        round.run()
    except Interrupted:
        raise Wrong(f"the signal was raised where no call expected it\n{said}") from None
    except BaseException as error:
        raise Wrong(f"{error}\n{said}") from error
