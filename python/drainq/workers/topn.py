from __future__ import annotations
import heapq
from collections.abc import Callable, Hashable, Iterable
from typing import Any


class TopN:
    def __init__(self, n: int, *, score: Callable[[Any], Any], group=None, sink: Callable[[list[Any]], object], flush_interval=None) -> None:
        if n < 1:
            raise ValueError(f"n must be >= 1, got {n}")
        self._n, self._score, self._sink = n, score, sink
        self._heap = []; self._seen = 0
    def __call__(self, batch):
        for item in batch:
            self._seen += 1
            e = (self._score(item), -self._seen, item)
            if len(self._heap) < self._n: heapq.heappush(self._heap, e)
            elif e[:2] > self._heap[0][:2]: heapq.heapreplace(self._heap, e)
    def flush(self):
        self._sink([i for *_, i in sorted(self._heap, key=lambda e: e[:2], reverse=True)]); self._heap = []
