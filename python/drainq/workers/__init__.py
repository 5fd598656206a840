"""What sits behind a queue: aggregation, ranking, and writing to a database.

Each is a handler on a batch queue that it opens at its first ``produce``, or on one that is shared (``queue=``).
"""

from drainq.workers.topn import TopN

__all__ = ["TopN"]
