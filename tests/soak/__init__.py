"""The soak: whole queues on real threads, in random programs, with an account of every item.

Where a model explores one mechanism completely, this runs everything at once and for long: what nobody thought of.
`python -m tests.soak --seconds 600` runs it; `make soak` does that beside the core's own. A round is a program made
from one seed; a round that fails prints its seed and the stacks of all threads, and
`python -m tests.soak --room batch --seed 1234 --rounds 20` runs the same programs again. The threads of course
take turns as they like, so a seed may have to be tried a few times.

| file | what it holds |
| --- | --- |
| `__main__.py` | the driver: starts rooms as processes, watches them, prints what was wrong |
| `room.py` | the inside of such a process: one round after the other, and the heartbeat |
| `ledger.py` | the account of a batch queue's items |
| `hostile.py` | items, keys and handlers that give up the GIL, raise, come back into the queue |
| `batch.py` | rounds of one batch queue; `program.py` is what its producers do |
| `pools.py` | rounds on shared schedulers |
"""
