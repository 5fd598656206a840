"""The inside of a room's process: one round after the other, and a heartbeat on standard output.

Standard output has one line per round, `round SEED`, before it begins. The driver reads it: a room without a heartbeat stalls.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import importlib
import random
import sys
import threading
import time
import traceback

ROOMS = ("batch", "pools")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--same", action="store_true", help="the same seed in each round")
    parser.add_argument("--seconds", type=float, required=True)
    asked = parser.parse_args()
    faulthandler.enable()
    module = importlib.import_module(f"tests.soak.{asked.room}")
    threads = threading.active_count()
    end, number = time.monotonic() + asked.seconds, 0
    while number < asked.rounds and time.monotonic() < end:
        seed = asked.seed if asked.same else asked.seed + number
        print(f"round {seed}", flush=True)
        rng = random.Random(f"{seed} interpreter")
        sys.setswitchinterval(rng.choice([1e-6, 1e-5, 1e-4, 5e-3]))
        gc.set_threshold(*rng.choice([(1, 1, 1), (5, 2, 2), (700, 10, 10)]))
        try:
            module.run(seed)
        except BaseException:
            traceback.print_exc()
            faulthandler.dump_traceback()
            sys.stderr.flush()
            return 3
        number += 1
    print(f"over {number}, threads {threading.active_count() - threads}", flush=True)
    return 0


if __name__ == "__main__":
    import os

    status = main()
    sys.stdout.flush()
    if status:
        os._exit(status)  # its threads may hang
