"""What drainq counts, for a monitoring system: an HTTP endpoint that needs no GIL, applications for the program's own
web server, and OpenTelemetry.

Batch queues are read under their own names. Everything else is read once it has one: :func:`watch`.
"""

from drainq._native import MetricsServer
from drainq.monitoring.opentelemetry import instrument
from drainq.monitoring.watch import WatchedObject, watch
from drainq.monitoring.web import asgi_app, collector, prometheus_text, wsgi_app

__all__ = [
    "MetricsServer",
    "WatchedObject",
    "asgi_app",
    "collector",
    "instrument",
    "prometheus_text",
    "watch",
    "wsgi_app",
]
