"""Columns, processed without the GIL: parsing of access logs, aggregates by key, percentiles of sketches.

Results are pyarrow objects. Arguments may be of any library with Arrow's PyCapsule interface.
"""

from __future__ import annotations

try:
    import pyarrow  # noqa: F401
except ImportError as missing:
    raise ImportError(f"drainq.columns needs pyarrow: pip install pyarrow ({missing})") from missing

from drainq.columns.access_log import parse_access_log
from drainq.columns.aggregate import percentiles
from drainq.columns.group_by import GroupBy
from drainq.errors import TooManyGroups

__all__ = ["GroupBy", "TooManyGroups", "parse_access_log", "percentiles"]
