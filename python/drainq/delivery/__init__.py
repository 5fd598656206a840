"""Sends batches to sinks: the code that all workers and exporters share.

| module | what it does |
| --- | --- |
| ``accounting`` | counts each item in exactly one place |
| ``sink_answer`` | sorts a sink's answer for a batch |
| ``sink_contract`` | defines a sink, and the meaning of its errors |
| ``parcel`` | a batch that is being sent |
| ``delivery`` | sends a batch until each item is accounted for; gives up at the deadline |
| ``outage`` | decides how long to wait for the end of an outage, with which pauses |
| ``isolate_poison`` | halves a refused batch until each poison item stands alone |
| ``dead_letter_offer`` | puts messages into a delayed queue |
| ``payload`` | converts typed values to JSON and back |
| ``dead_letters`` | keeps items that could not be sent in a delayed queue, and sends them again |
| ``dead_letter_resend`` | sends dead letters again, on a timer and at a flush |
| ``options`` | the settings that all workers share |
| ``item_bytes`` | weighs items, for a bound in bytes |
| ``producing`` | the producer's side: produce and offer, as calls and as coroutines |
| ``worker`` | the queue in front: the handler, flush, close, stats |
| ``delivering_worker`` | a worker with a sink, and with a delayed queue for what it gives up |
| ``type_owners`` | decides which worker of a shared queue owns which type |
| ``sending_worker`` | a worker that hands each batch to a sink at once |
"""

from drainq.delivery.accounting import Books, Outcome, WorkerStats
from drainq.delivery.dead_letter_resend import Resender
from drainq.delivery.dead_letters import DeadLetters
from drainq.delivery.delivery import Delivery
from drainq.delivery.options import WorkerOptions
from drainq.delivery.sending_worker import SendingWorker
from drainq.delivery.sink_contract import (
    DeliveryError,
    DeliveryStopped,
    Failure,
    Refused,
    Rest,
    Sink,
    Unavailable,
    Undelivered,
)
from drainq.delivery.worker import Worker

__all__ = [
    "Books",
    "DeadLetters",
    "Delivery",
    "DeliveryError",
    "DeliveryStopped",
    "Failure",
    "Outcome",
    "Refused",
    "Resender",
    "Rest",
    "SendingWorker",
    "Sink",
    "Unavailable",
    "Undelivered",
    "Worker",
    "WorkerOptions",
    "WorkerStats",
]
