"""Workers that aggregate, rank, or write to a database.

Each is a handler of a batch queue: its own, opened at the first ``produce``, or a shared one (``queue=``).
"""

from drainq.delivery.accounting import WorkerStats
from drainq.delivery.sink_contract import DeliveryError, DeliveryStopped
from drainq.workers.aggregator import MetricsAggregator
from drainq.workers.declared import DeclaredMetrics
from drainq.workers.metric import Metric, Value
from drainq.workers.persister import MetricsPersister
from drainq.workers.topn import TopN
from drainq.workers.writer import BatchWriter

__all__ = [
    "BatchWriter",
    "DeclaredMetrics",
    "DeliveryError",
    "DeliveryStopped",
    "Metric",
    "MetricsAggregator",
    "MetricsPersister",
    "TopN",
    "Value",
    "WorkerStats",
]
