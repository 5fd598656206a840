"""From a batch to a sink and back: what all workers and exporters share.

| module | what it alone does |
| --- | --- |
| ``accounting`` | counts each item in exactly one place |
| ``sink_answer`` | sorts what a sink has answered for a batch |
| ``sink_contract`` | says what a sink is, and what its errors mean |
| ``delivery`` | sends a batch until each item is accounted for; gives up at the deadline |
| ``outage`` | says how long an outage is waited out, and with what pauses |
| ``isolate_poison`` | halves what is refused until the poison stands alone |
| ``given_up_keeper`` | says what a delivery hands the items to that it gives up on |
| ``dead_letter_offer`` | puts messages into a delayed queue |
| ``payload`` | makes typed values fit for a codec, and takes them back |
| ``dead_letters`` | keeps what was given up on in a delayed queue, and sends it again |
| ``dead_letter_resend`` | sends dead letters again, by itself and at a flush |
| ``worker`` | the queue in front: produce, flush, close, stats |
| ``type_owners`` | which worker of a shared queue owns which type |
| ``sending_worker`` | a worker that hands each batch to a sink at once |
"""

from drainq.delivery.accounting import Books, Outcome, WorkerStats
from drainq.delivery.dead_letter_resend import Resender
from drainq.delivery.dead_letters import DeadLetters
from drainq.delivery.delivery import Delivery
from drainq.delivery.sending_worker import Sender
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
    "Sender",
    "Sink",
    "Unavailable",
    "Undelivered",
    "Worker",
    "WorkerStats",
]
