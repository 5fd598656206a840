"""A durable delayed queue in memory, SQLite or PostgreSQL: keyed messages for later, delivered at least once.

:class:`DelayedQueue` is the door; the modules behind it each hold one idea: ``storage`` what a back end promises,
``sql`` every statement, ``consume`` the loop, ``envelope`` what a consumer may say, ``migrate`` the schema's steps.

Source: funfix ``delayedqueue``.
"""

from drainq.delayed.aio import AsyncDelayedQueue
from drainq.delayed.codec import BytesCodec, Codec, JsonCodec, MsgspecCodec, StrCodec
from drainq.delayed.config import NO_RETRIES, RetryConfig, TimeConfig
from drainq.delayed.cron import CronService
from drainq.delayed.cron_handle import CronHandle
from drainq.delayed.cron_message import CronMessage
from drainq.delayed.envelope import AckEnvelope
from drainq.delayed.give_up import to_delayed_queue
from drainq.delayed.message import DeliveryType, OfferOutcome, ScheduledMessage
from drainq.delayed.queue import DelayedQueue
from drainq.delayed.retry import ResourceUnavailable
from drainq.delayed.schedule import CronDailySchedule
from drainq.delayed.storage import DeadLetter
from drainq.delayed.upkeep import DelayedQueueStats

__all__ = [
    "NO_RETRIES",
    "AckEnvelope",
    "AsyncDelayedQueue",
    "BytesCodec",
    "Codec",
    "CronDailySchedule",
    "CronHandle",
    "CronMessage",
    "CronService",
    "DeadLetter",
    "DelayedQueue",
    "DelayedQueueStats",
    "DeliveryType",
    "JsonCodec",
    "MsgspecCodec",
    "OfferOutcome",
    "ResourceUnavailable",
    "RetryConfig",
    "ScheduledMessage",
    "StrCodec",
    "TimeConfig",
    "to_delayed_queue",
]
