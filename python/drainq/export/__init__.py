"""Exporters: what a queue holds, to another system over the network.

Each is a worker: it sends batches from a queue, waits while the other side fails, and accounts for every item.
What an exporter needs beyond drainq is imported when it is made, and named if it is missing.
"""

from drainq.export.kafka import KafkaExporter
from drainq.export.metric_point import Histogram, MetricPoint
from drainq.export.otlp import OtlpMetricsExporter
from drainq.export.remote.client import RemoteClient
from drainq.export.remote.server import RemoteServer, RemoteServerStats
from drainq.export.skywalking import SkyWalkingMetricsExporter

__all__ = [
    "Histogram",
    "KafkaExporter",
    "MetricPoint",
    "OtlpMetricsExporter",
    "RemoteClient",
    "RemoteServer",
    "RemoteServerStats",
    "SkyWalkingMetricsExporter",
]
