"""What drainq counts, for a monitoring system: an HTTP endpoint that needs no GIL, and OpenTelemetry.

Batch queues are read under their own names. Everything else is read once it has one: :func:`watch`.
"""

from drainq._native import MetricsServer
from drainq.monitoring.opentelemetry import instrument
from drainq.monitoring.watch import WatchedObject, watch

__all__ = ["MetricsServer", "WatchedObject", "instrument", "watch"]
