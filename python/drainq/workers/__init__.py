"""Workers that aggregate, rank, or write to a database.

Each is a handler of a batch queue: its own, or a shared one (``queue=``). :class:`SendingWorker` sends to any
:class:`Sink`.
"""

from drainq.delivery.accounting import WorkerStats
from drainq.delivery.options import WorkerOptions
from drainq.delivery.sending_worker import SendingWorker
from drainq.delivery.sink_contract import DeliveryError, DeliveryStopped, Refused, Sink, Unavailable
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
    "Refused",
    "SendingWorker",
    "Sink",
    "TopN",
    "Unavailable",
    "Value",
    "WorkerOptions",
    "WorkerStats",
]
