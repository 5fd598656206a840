"""A program that produces and consumes on one queue, next to other processes. Run by test_faults.py.

Prints what it took, one a line, when the queue stays empty.
"""

from __future__ import annotations

import sys

from drainq.delayed import DelayedQueue, RetryConfig

url, table, name, count = sys.argv[1:]
queue = DelayedQueue.open(url, "mail", table=table, retry=RetryConfig(max_retries=None, total_timeout=60))
created = 0
for n in range(int(count)):
    created += queue.offer_if_not_exists(f"shared/{n}", n, 0).value == "created"
    queue.offer_or_update(f"{name}/{n}", n, 0)
print("created", created)
print("offered", flush=True)
sys.stdin.readline()
while (batch := queue.try_poll_many(7)).payload:
    for key in batch.message_id:
        print("took", key)
    assert batch.ack()
queue.close()
