"""A program that is watched: two queues and a delayed queue, and an endpoint that answers while Python cannot.

Run it and look at http://127.0.0.1:9464/metrics while it works:

    python examples/monitored.py            # until Ctrl-C
    python examples/monitored.py --once     # one round, then the counters on the screen
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import dataclass
from urllib.request import urlopen

from drainq import BatchQueue, BatchQueueConfig, MultiQueue, ThreadPolicy
from drainq.delayed import DelayedQueue
from drainq.monitoring import MetricsServer, watch


@dataclass
class Hit:
    path: str
    milliseconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--once", action="store_true", help="one round, then print the counters")
    parser.add_argument(
        "--port", type=int, default=None, help="where the endpoint listens; 9464, or a free port with --once"
    )
    arguments = parser.parse_args()
    port = arguments.port if arguments.port is not None else 0 if arguments.once else 9464

    slow = DelayedQueue.open("memory:", "slow hits")
    alerts: MultiQueue[str] = MultiQueue()
    for number, key in enumerate(("page", "mail")):
        alerts.add_sub_queue(key, priority=number)

    def look_at(hits: list[Hit]) -> None:
        for hit in hits:
            if hit.milliseconds > 900:
                alerts["page" if hit.milliseconds > 990 else "mail"].put(hit.path)
                slow.offer(hit.path, str(hit.milliseconds), delay=60)

    config = BatchQueueConfig(threads=ThreadPolicy.fixed(1))
    with BatchQueue("hits", config) as queue, MetricsServer(port=port) as server:
        queue.add_handler(Hit, look_at)
        watch(alerts, "alerts")
        delayed = watch(slow, "slow hits")
        print(f"counters at {server.url}", flush=True)
        random.seed(1)
        try:
            while True:
                queue.produce_many([Hit(f"/page/{random.randrange(50)}", random.uniform(1, 1000)) for _ in range(1000)])
                queue.flush()
                if arguments.once:
                    break
                time.sleep(0.1)
        except KeyboardInterrupt:
            pass
        delayed.sample()
        if arguments.once:
            text = urlopen(server.url).read().decode()
            print(*(line for line in text.splitlines() if not line.startswith("#") and "bucket" not in line), sep="\n")
    slow.close()


if __name__ == "__main__":
    main()
