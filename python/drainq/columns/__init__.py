"""Work on columns without the GIL: access logs to columns, aggregates by key, percentiles of sketches.

Everything that comes out is pyarrow's; what goes in may be of any library with Arrow's PyCapsule interface.
"""

from __future__ import annotations

try:
    import pyarrow  # noqa: F401
except ImportError as missing:
    raise ImportError(f"drainq.columns needs pyarrow: pip install pyarrow ({missing})") from missing

from drainq.columns.access_log import parse_access_log
from drainq.columns.group_by import GroupBy
from drainq.columns.percentile import percentiles
from drainq.errors import TooManyGroups

__all__ = ["GroupBy", "TooManyGroups", "parse_access_log", "percentiles"]
