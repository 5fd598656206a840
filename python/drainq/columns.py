"""Work on columns in native code, over any library's Arrow data: access logs to columns, aggregates by key,
percentiles of sketches.

The arithmetic runs without the GIL, so handlers of a queue that call these use all cores.
"""

from __future__ import annotations

from drainq._native import GroupBy, RecordBatch, parse_access_log, percentiles
from drainq.errors import TooManyGroups

__all__ = ["GroupBy", "RecordBatch", "TooManyGroups", "parse_access_log", "percentiles"]
