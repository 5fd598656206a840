"""Monitoring: an HTTP endpoint that needs no GIL, applications for the program's own web server, and OpenTelemetry.

A batch queue is published under its own name. :func:`watch` publishes other objects under a name.
"""

from drainq._native import MetricsServer
from drainq.monitoring.opentelemetry import instrument
from drainq.monitoring.target import metrics_target
from drainq.monitoring.watch import WatchedObject, watch
from drainq.monitoring.web import asgi_app, collector, prometheus_text, wsgi_app

__all__ = [
    "MetricsServer",
    "WatchedObject",
    "asgi_app",
    "collector",
    "instrument",
    "metrics_target",
    "prometheus_text",
    "watch",
    "wsgi_app",
]
