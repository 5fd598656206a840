"""A consumer that polls, reports this, and waits to be killed. Run by test_faults.py."""

from __future__ import annotations

import sys

from drainq.delayed import DelayedQueue, TimeConfig

url, table, lease = sys.argv[1:]
queue = DelayedQueue.open(url, "mail", table=table, time=TimeConfig(acquire_timeout=float(lease)))
batch = queue.try_poll_many(int(sys.stdin.readline()))
print(len(batch.payload), flush=True)
sys.stdin.readline()  # the end never comes: this process is killed here
