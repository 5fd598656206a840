"""Rounds on shared schedulers: whole queues as in `batch.py`, and single items on an idle pool.

An item on an idle pool is what a lost wake-up swallows: it lies there until something else is produced. So each
item is waited for before the next one comes.
"""

from __future__ import annotations

import os
import random
import threading

from drainq import BatchQueue, BatchQueueConfig, BatchQueueManager, PartitionPolicy, ThreadPolicy
from tests.soak import batch
from tests.soak.ledger import PATIENCE, Wrong, wait_until


def run(seed: int) -> None:
    """Run one round of either kind."""
    rng = random.Random(seed)
    if rng.random() < 0.4:
        round = batch.Round(seed, pooled=True)
        said = str(round)
        try:
            round.run()
        except BaseException as error:
            raise Wrong(f"{error}\n{said}") from error
    else:
        _trickle(seed, rng)
    if rng.random() < 0.2:
        before = _pool_threads()
        BatchQueueManager.shutdown_all(PATIENCE)
        wait_until(lambda: not any(thread.is_alive() for thread in before), "the end of the pools' threads")


def _pool_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("drainq-pool-soak")]


def _trickle(seed: int, rng: random.Random) -> None:
    """Single items, with pauses of about the time that a thread takes to fall asleep."""
    pool = f"soak-trickle-{rng.randrange(2)}"
    threads, producers = rng.choice([1, 2, 2, 3]), rng.choice([1, 2])
    queues, counts = [], [0] * producers
    arrived = [threading.Semaphore(0) for _ in range(producers)]

    def consumer(n: int):  # type: ignore[no-untyped-def]
        def consume(batch: list[object]) -> None:
            arrived[n].release(len(batch))

        return consume

    for n in range(producers + rng.choice([0, 1, 1])):
        config = BatchQueueConfig(
            shared_scheduler=(pool, ThreadPolicy.fixed(threads)),
            partitions=PartitionPolicy.fixed(rng.choice([1, 2, 4])),
            partition_selector=lambda item, count: item % count if item % 3 else 0,
            consumer=consumer(n) if n < producers else len,
            min_idle=rng.choice([0.0001, 0.001]),
            max_idle=rng.choice([0.002, 30.0]),
        )
        queues.append(BatchQueue(f"trickle {seed} {n}", config))
    wrong: list[str] = []

    def produce(n: int) -> None:
        mine = random.Random(f"{seed} {n}")
        for item in range(mine.choice([100, 1000])):
            for _ in range(mine.choice([0, 1, 10, 100, 300])):
                os.getpid()  # a pause of microseconds
            queues[n].produce(item)
            if mine.random() < 0.9 or item % 50 == 0:
                while counts[n] <= item:
                    if not arrived[n].acquire(timeout=PATIENCE):
                        wrong.append(f"item {item} lay in an idle pool for {PATIENCE:.0f} s: {queues[n].stats()}")
                        return
                    counts[n] += 1

    others = [threading.Thread(target=produce, args=(n,), daemon=True) for n in range(producers)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join(3 * PATIENCE)
    said = f"seed {seed}: trickle on {threads} threads, {producers} producers, {len(queues)} queues"
    if wrong or any(thread.is_alive() for thread in others):
        raise Wrong(f"{wrong or 'a producer hangs'}\n{said}")
    for queue in queues:
        if not queue.shutdown(PATIENCE):
            raise Wrong(f"a queue on a pool gave up: {queue.stats()}\n{said}")
