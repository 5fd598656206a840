"""The delayed queue: durable messages with a key and a due time, delivered at least once.

| module | what it holds |
| --- | --- |
| ``queue``, ``admin``, ``cli`` | the interfaces for a program, an operator and a shell |
| ``offer``, ``poll`` | the methods for producers and for consumers |
| ``coroutines`` | the twins of the methods, which end in ``_async`` |
| ``storage_session`` | the access of one open queue to its storage, shared by all interfaces |
| ``message``, ``encode``, ``codec`` | offered messages, and their encoding |
| ``envelope``, ``consume``, ``consume_loop``, ``lease`` | a leased message, the consuming loops, the lease |
| ``connection_pool`` | the connections that queues share |
| ``config``, ``database_retry``, ``deadline``, ``errors`` | times and limits; retries; exceptions |
| ``wake`` | wakes waiting consumers |
| ``activity`` | the counters of this process |
| ``dead_letters_bury``, ``dead_letters_redrive`` | decide which messages become dead letters; redrive them |
| ``failed_batches`` | stores a batch queue's failed batches in a delayed queue |
| ``storage`` | the back ends |
| ``cron`` | schedules |

Messages are stored in memory, SQLite or PostgreSQL. Source: funfix ``delayedqueue``.
"""

from drainq.clock import Clock
from drainq.delayed.activity import DelayedQueueActivity, TimeHistogram
from drainq.delayed.admin import DelayedQueueStats
from drainq.delayed.codec import BytesCodec, Codec, JsonCodec, MsgspecCodec, StrCodec
from drainq.delayed.config import NO_RETRIES, RetryConfig, TimeConfig
from drainq.delayed.connection_pool import ConnectionPool
from drainq.delayed.cron.admin import InstalledSchedule
from drainq.delayed.cron.cron_message import CronMessage
from drainq.delayed.cron.daily_schedule import CronDailySchedule
from drainq.delayed.cron.schedule_handle import CronHandle
from drainq.delayed.cron.service import CronService
from drainq.delayed.envelope import AckBatch, AckEnvelope
from drainq.delayed.errors import QueueBroken, QueueUnavailable
from drainq.delayed.failed_batches import to_delayed_queue
from drainq.delayed.message import DeliveryType, OfferOutcome, ScheduledMessage
from drainq.delayed.queue import DelayedQueue
from drainq.delayed.storage.records import DeadLetter, FinishedAttempt, QueueInfo, StoredMessage

__all__ = [
    "NO_RETRIES",
    "AckBatch",
    "AckEnvelope",
    "BytesCodec",
    "Clock",
    "Codec",
    "ConnectionPool",
    "CronDailySchedule",
    "CronHandle",
    "CronMessage",
    "CronService",
    "DeadLetter",
    "DelayedQueue",
    "DelayedQueueActivity",
    "DelayedQueueStats",
    "DeliveryType",
    "FinishedAttempt",
    "InstalledSchedule",
    "JsonCodec",
    "MsgspecCodec",
    "OfferOutcome",
    "QueueBroken",
    "QueueInfo",
    "QueueUnavailable",
    "RetryConfig",
    "ScheduledMessage",
    "StoredMessage",
    "StrCodec",
    "TimeConfig",
    "TimeHistogram",
    "to_delayed_queue",
]
