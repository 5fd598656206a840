"""Interpreters that end in the middle of it: exit code 0, no word on standard error, no accepted item lost or doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from tests.soak.cores import is_pythons_own, keep_cores, stack_of
from tests.soak.ledger import PATIENCE, Wrong

PROGRAM = """
    import faulthandler, gc, logging, os, random, signal, sys, threading, warnings
    faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
    signal.alarm({patience})
    sys.setswitchinterval({switch})
    gc.set_threshold({gc})
    warnings.simplefilter("ignore")
    logging.getLogger("drainq").setLevel(100)
    from concurrent.futures import ThreadPoolExecutor
    from drainq import *
    rng = random.Random({seed})
    raises = {raises}
    accepted = []  # of the threads that are waited for
    executor = ThreadPoolExecutor(2)
    def handler(batch):
        os.write(1, b"".join(b"h%d\\n" % item for item in batch))
        if {submits}:
            executor.submit(len, batch).result()
        if rng.random() < raises:
            raise SystemExit(3)
    queues = []
    for n in range({queues}):
        settings = dict({pool})
        queue = BatchQueue(f"exit {{n}}", BatchQueueConfig(
            partitions=PartitionPolicy.fixed(3), buffer_size=rng.choice([1, 10, 1000]), max_idle=rng.choice([0.001, 30.0]),
            partition_selector=rng.choice([PartitionSelector.type_hash(), PartitionSelector.round_robin()]),
            strategy=BufferStrategy.BLOCKING, rebalance_interval=0.001, max_batch=rng.choice([1, 1000]),
            balancer=DrainBalancer.throughput_weighted(), **settings))
        queue.add_handler(int, handler)
        queues.append(queue)
    number = iter(range(10**9))
    class Item(int):
        pass
    def produce(calls, sure):
        for _ in range(calls):
            item = next(number)
            if queues[item % len(queues)].produce(item) and sure:
                os.write(1, b"a%d\\n" % item)
            elif sure:
                os.write(1, b"r%d\\n" % item)
            else:
                os.write(1, b"o%d\\n" % item)
    class Finaliser:
        def __del__(self):
            if queues and sys.meta_path is not None:
                queues[0].offer(next(number), timeout=0)
    cycle = [Finaliser()]
    cycle.append(cycle)
    others = [threading.Thread(target=produce, args=({calls}, True)) for _ in range({waited})]
    others += [threading.Thread(target=produce, args=(10**9, False), daemon=True) for _ in range({daemons})]
    for other in others:
        other.start()
    if {waiter}:
        threading.Thread(target=lambda: queues[0].flush(), daemon=True).start()
    produce({calls}, True)
    if {forks}:
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    if {drops}:
        del queues[1:]
    {end}
"""

ENDS = ["pass", "pass", "sys.exit(0)", "BatchQueueManager.shutdown_all()", "[queue.shutdown() for queue in queues]",
        "raise SystemExit(0)"]  # fmt: skip


def run(seed: int) -> None:
    """One interpreter's life."""
    rng = random.Random(seed)
    daemons = rng.choice([0, 0, 1, 2])
    chosen = {
        "seed": seed, "patience": int(PATIENCE), "switch": rng.choice([1e-6, 1e-4, 5e-3]), "gc": rng.choice([1, 50, 700]),
        "raises": rng.choice([0, 0, 0.05]), "submits": rng.random() < 0.2, "queues": rng.choice([1, 2, 5]),
        "pool": rng.choice(["threads=ThreadPolicy.fixed(2)", 'shared_scheduler=("exit", ThreadPolicy.fixed(2))']),
        "calls": rng.choice([0, 1, 50, 500]), "waited": rng.choice([0, 1, 3]), "daemons": daemons,
        "waiter": rng.random() < 0.2, "forks": rng.random() < 0.2, "drops": rng.random() < 0.2 and not daemons,
        "end": rng.choice(ENDS),
    }  # fmt: skip
    if chosen["drops"]:
        chosen["waited"] = 0
    program = textwrap.dedent(PROGRAM).format(**chosen)
    keep_cores()
    with tempfile.TemporaryDirectory() as directory:
        try:
            done = subprocess.run(
                [sys.executable, "-c", program],
                cwd=directory,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=2 * PATIENCE,
            )
        except subprocess.TimeoutExpired as late:
            raise Wrong(f"an interpreter did not end\n{chosen}\n{late.stderr!r}") from late
        stack = stack_of(sys.executable, Path(directory)) if done.returncode == -signal.SIGSEGV else []
    said = f"{chosen}\n{done.stderr[-4000:]}"
    if daemons and is_pythons_own(stack):
        print(f"known {seed} CPython ended by itself, in {' < '.join(stack[:4])}", flush=True)
    elif done.returncode != 0:
        raise Wrong(f"an interpreter ended with {done.returncode}; its stack: {stack or 'no core, or no gdb'}\n{said}")
    if "Fatal" in done.stderr or "Traceback" in done.stderr:
        raise Wrong(f"an interpreter complained at its end\n{said}")
    lines = done.stdout.split()
    handled = [line[1:] for line in lines if line[0] == "h"]
    accepted = {line[1:] for line in lines if line[0] == "a"}
    if len(set(handled)) != len(handled):
        raise Wrong(f"{len(handled) - len(set(handled))} items were handled twice\n{said}")
    late = accepted - set(handled)
    if late and not chosen["drops"]:
        raise Wrong(f"{len(late)} of {len(accepted)} accepted items were never handled, such as {min(late)}\n{said}")
