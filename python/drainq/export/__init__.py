"""Exporters: workers that send a queue's items to another system over the network.

An exporter sends batches from a queue, waits while the other system fails, and accounts for every item. Its constructor
imports the optional packages. If one is missing, the error names the extra to install.
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
