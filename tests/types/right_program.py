"""A program without a mistake, in as many forms as possible: a type checker must report nothing.

Not imported by any test: ``test_types.py`` has it checked.
"""

import asyncio
import enum
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from drainq import (
    BatchQueue,
    BatchQueueConfig,
    BatchQueueManager,
    MultiQueue,
    PartitionPolicy,
    SetQueue,
    ThreadPolicy,
)
from drainq.delayed import AckBatch, AckEnvelope, Clock, DelayedQueue, JsonCodec, MsgspecCodec, StrCodec
from drainq.sources import PrefetchSource
from drainq.workers import BatchWriter, MetricsAggregator, SendingWorker, Sink, TopN, WorkerOptions


@dataclass
class Hit:
    path: str


@dataclass
class Click:
    x: int


class Level(enum.Enum):
    LOW = 0


class Counts:
    def __init__(self) -> None:
        self.hits = 0

    def consume(self, batch: list[Hit]) -> None:
        self.hits += len(batch)


class OwnCodec:
    type_name = "own"

    def encode(self, payload: Any) -> bytes:
        return repr(payload).encode()

    def decode(self, data: bytes) -> Any:
        return data.decode()


def on_hits(batch: list[Hit]) -> None: ...
def on_any(batch: list[Any]) -> int:
    return len(batch)


def on_sequence(batch: Sequence[Hit]) -> None: ...


threads = ThreadPolicy.fixed(1)
config: BatchQueueConfig = BatchQueueConfig(threads=threads, partitions=PartitionPolicy.fixed(2), consumer=on_any)
config = BatchQueueConfig(shared_scheduler=("IO", threads), dispatch_key=lambda row: row["kind"])
config = config.replace(buffer_size=3, linger=0.1)
queue: BatchQueue[Hit | Click] = BatchQueue("typed", BatchQueueConfig(threads=threads))
queue.produce(Hit("/"))
queue.produce_many([Click(1), Hit("/")])
queue.add_handler(Hit, on_hits)
queue.add_handler(Hit, on_any, weight=2.0)
queue.add_handler(Hit, on_sequence)
queue.add_handler(Hit, Counts())
queue.add_handler(Click, lambda batch: print(batch[0].x))
untyped = BatchQueue("untyped", config)
untyped.produce({"kind": "a"})
for key in ("a", 1, (1, "a"), Level.LOW, None):
    untyped.add_handler(key, on_any)
managed = BatchQueueManager.get_or_create("managed", config)
managed.produce(3)
BatchQueueManager.get_or_create("managed", threads=2, handlers={Hit: on_hits})
begun = BatchQueue("begun", consumer=on_hits, threads=2)
begun.produce(Hit("/"))
lines: list[str] = []
BatchQueue("lines", config, consumer=lines.extend).produce("line")
BatchQueue("counted", consumer=len, strategy="if_possible").produce(3)
both: BatchQueue[Hit | Click] = BatchQueue("both", handlers={Hit: on_hits, Click: Counts()}, consumer=None)
both.produce(Click(1))


@queue.handler(Hit)
def decorated(batch: list[Hit]) -> int:
    return len(batch)


count: int = decorated([Hit("/")])

typed: DelayedQueue[Hit] = DelayedQueue.open("memory:", "mail", codec=MsgspecCodec(Hit))
typed.offer_or_update("key", Hit("/"), 0)
envelope: AckEnvelope[Hit] | None = typed.try_poll()
if envelope is not None:
    path: str = envelope.payload.path
    named: tuple[str, datetime, int] = (envelope.message_id, envelope.schedule_at, envelope.attempt)
anything = DelayedQueue.open("memory:", "mail")
anything.offer_or_update("key", {"a": [1, 2.5, None]}, 0)
lists = DelayedQueue.open("memory:", "lists", codec=MsgspecCodec(list[int]))
lists.offer_or_update("key", [1, 2], 0)
texts = DelayedQueue.open("memory:", "texts", codec=StrCodec())
texts.offer_or_update("key", "text", 0)
keys: list[str] = texts.try_poll_many(3).message_id
due: datetime = texts.peek()[0].due_at


def on_text(envelope: AckEnvelope[str]) -> None: ...
def on_batch(envelope: AckBatch[str]) -> None: ...
async def on_text_later(envelope: AckEnvelope[str]) -> None: ...


typed_texts: DelayedQueue[str] = texts
typed_texts.consume(on_text, stop=threading.Event())
typed_texts.consume(on_batch, batch_size=10)
clock: Clock = texts.clock


async def consumes() -> int:
    async with typed_texts as opened:
        await opened.offer_async("key", "text", delay=3)
        return await opened.consume_async(on_text_later, stop=asyncio.Event())


for codec in (JsonCodec(), OwnCodec(), MsgspecCodec()):
    DelayedQueue.open("memory:", "other", codec=codec).offer_or_update("key", 3, 0)

multi: MultiQueue[str] = MultiQueue()
unique: SetQueue[str] = SetQueue(3)


async def gets() -> str:
    await multi["a"].put_async("x")
    async for item in multi.stream_async():
        return item
    return await multi.get_async()


class Pages(Sink[Hit]):
    def send(self, items: list[Hit]) -> list[tuple[int, str]]:
        return [(place, "empty") for place, item in enumerate(items) if not item.path]


def on_failure(items: Sequence[Any], error: BaseException) -> None: ...


common = WorkerOptions(buffer_size=100, strategy="if_possible", linger=0.1, on_error=on_failure)
with BatchWriter(url="sqlite:///a.db", table="t", columns=["a"], options=common, name="rows") as writer:
    writer.produce((1,))
rows: BatchWriter[tuple[int, str]] = BatchWriter(url="sqlite:///a.db", table="t", columns=["a", "b"], retry_for=1)
with rows as entered:
    queued: bool = entered.produce((1, "a"))
    written: int = entered.stats().sent
pages = SendingWorker(Pages(), max_batch_bytes=1_000_000)
pages.produce_many([Hit("/")])
best: TopN[Hit] = TopN(3, score=lambda hit: hit.path, sink=on_hits)
best.produce(Hit("/"))
sums = MetricsAggregator(key=lambda pair: pair[0], merge=lambda a, b: (a[0], a[1] + b[1]), sink=print, queue=None)
sums.produce(("a", 1))


async def produces() -> bool:
    async with pages as entered:
        return await entered.produce_async(Hit("/")) and await entered.flush_async(timeout=1.0)


class AsyncHits:
    async def get_next_batch(self, batch_size: int) -> list[Hit] | None:
        return [Hit("/")] * batch_size


async def numbers(batch_size: int) -> list[int]:
    return [batch_size]


async def prefetches() -> Hit:
    plain: PrefetchSource[int] = PrefetchSource(lambda n: [n], 4, 1)
    async with PrefetchSource(numbers, 4, 1, key=lambda number: number + 1) as asked, plain:
        first: int = asked.get_next_batch(1)[0] + plain.get_next_batch(1)[0]
    hits: PrefetchSource[Hit] = PrefetchSource(AsyncHits(), first, 1, loop=asyncio.get_running_loop())
    return hits.get_next_batch(1)[0] if await hits.close_async(1) else await anext(aiter(hits))
