"""A durable delayed queue in memory, SQLite or PostgreSQL: keyed messages for later, delivered at least once.

| module | what it holds |
| --- | --- |
| ``queue``, ``admin``, ``aio``, ``cli`` | what a program, an operator, asyncio and a shell call |
| ``offer``, ``poll`` | the methods for producers and for consumers |
| ``storage_session`` | one open queue's way to its storage, shared by all of these |
| ``message``, ``encode``, ``codec`` | a message on its way in |
| ``envelope``, ``consume``, ``lease`` | a message on loan, the consuming loop, the lease's extension |
| ``config``, ``database_retry``, ``deadline``, ``errors`` | times and limits; trying again; what a caller runs into |
| ``wake`` | ending a wait |
| ``dead_letters_bury``, ``dead_letters_redrive`` | which messages are given up on; how an operator brings them back |
| ``failed_batches`` | a batch queue's failed batches, kept here |
| ``storage`` | the back ends |
| ``cron`` | schedules |

Source: funfix ``delayedqueue``.
"""

from drainq.delayed.admin import DelayedQueueStats, QueueInfo
from drainq.delayed.aio import AsyncDelayedQueue
from drainq.delayed.codec import BytesCodec, Codec, JsonCodec, MsgspecCodec, StrCodec
from drainq.delayed.config import NO_RETRIES, RetryConfig, TimeConfig
from drainq.delayed.cron.cron_message import CronMessage
from drainq.delayed.cron.daily_schedule import CronDailySchedule
from drainq.delayed.cron.installed_schedule import InstalledSchedule
from drainq.delayed.cron.schedule_handle import CronHandle
from drainq.delayed.cron.service import CronService
from drainq.delayed.envelope import AckEnvelope
from drainq.delayed.errors import QueueBroken, QueueUnavailable
from drainq.delayed.failed_batches import to_delayed_queue
from drainq.delayed.message import DeliveryType, OfferOutcome, ScheduledMessage
from drainq.delayed.queue import DelayedQueue
from drainq.delayed.storage.records import DeadLetter, FinishedMessage

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
    "FinishedMessage",
    "InstalledSchedule",
    "JsonCodec",
    "MsgspecCodec",
    "OfferOutcome",
    "QueueBroken",
    "QueueInfo",
    "QueueUnavailable",
    "RetryConfig",
    "ScheduledMessage",
    "StrCodec",
    "TimeConfig",
    "to_delayed_queue",
]
