"""Mistakes that a type checker can find before the program runs. A line with an E has one; E16 is not found.

Not imported by any test: ``test_types.py`` has it checked.
"""

from dataclasses import dataclass

from drainq import BatchQueue, BatchQueueConfig, BatchQueueManager, MultiQueue, SetQueue, ThreadPolicy
from drainq.delayed import AckBatch, AckEnvelope, DelayedQueue, MsgspecCodec, ScheduledMessage, StrCodec
from drainq.workers import BatchWriter, MetricsAggregator, SendingWorker, Sink, TopN, WorkerOptions


@dataclass
class Hit:
    path: str


@dataclass
class Click:
    x: int


def on_hits(batch: list[Hit]) -> None: ...


def on_text(envelope: AckEnvelope[str]) -> None: ...
def on_batch(envelope: AckBatch[str]) -> None: ...


THREADS = ThreadPolicy.fixed(1)
plain = BatchQueue("plain", BatchQueueConfig(threads=THREADS))
hits: BatchQueue[Hit] = BatchQueue("hits", BatchQueueConfig(threads=THREADS))
mail = DelayedQueue.open("memory:", "mail", codec=MsgspecCodec(Hit))
envelope = mail.try_poll()
assert envelope
numbers: MultiQueue[int] = MultiQueue()
words: SetQueue[str] = SetQueue(3)

plain.add_handler(Click, on_hits)  # E1: the handler of another type
BatchQueueConfig(threads=THREADS, on_drop=lambda reason: None)  # E2: too few parameters
BatchQueueConfig()  # E3: neither threads nor a shared scheduler
BatchQueueConfig(threads=2.5)  # E4: a number is no policy
BatchQueueConfig(threads=THREADS).replace(bufer_size=3)  # E5: no such setting
mail.offer_or_update("key", Click(1), 0)  # E6: another payload
envelope.payload.nosuch  # E7: no such attribute  # noqa: B018
numbers.add_sub_queue("a").put("word")  # E8: another item
mail.offer_batch([ScheduledMessage("a", Click(1), 0)])  # E9: another payload
words.put(4)  # E10: another item
plain.produce_many(3)  # E11: not iterable
BatchWriter(url=3, table="t", columns=["a"])  # E12: no URL
hits.produce(Click(1))  # E13: another item


async def forgets_to_wait() -> None:
    numbers.get_async()  # E14: not awaited


@plain.handler(Click)  # E15: the handler of another type
def on_clicks(batch: list[Hit]) -> None: ...


logged = BatchQueue("logged", consumer=on_hits)
logged.produce(Click(1))  # E17: another item than the consumer's
BatchQueue("few", bufer_size=3)  # E18: no such setting
BatchQueueManager.get_or_create("few", threads="2")  # E19: no number
BatchQueue("listed", handlers=[on_hits])  # E20: no mapping
texts = DelayedQueue.open("memory:", "texts", codec=StrCodec())
texts.offer("key", 3)  # E41: another payload
texts.consume(on_text, batch_size=10)  # E42: a handler of one message
texts.consume(on_batch)  # E43: a handler of a batch
texts.consume(on_text, stop=True)  # E44: nothing that can be set
texts.try_poll_many(3).message_id.upper()  # E46: a batch has the keys of its messages
envelope.schedule_at + 5.0  # E47: a datetime, not seconds
envelope.ack_some(["key"])  # E48: one message has no parts
mail.peek()[0].due_at + 5.0  # E49: a datetime, not milliseconds


async def gives_numbers() -> None:
    await texts.offer_async("key", 3)  # E45: another payload


plain.add_handler("nonsense", on_hits)  # E16: no class, and the queue has no dispatch_key; not found


class Pages(Sink[Hit]):
    def send(self, items: list[Hit]) -> None: ...


rows: BatchWriter[tuple[int, str]] = BatchWriter(url="sqlite:///a.db", table="t", columns=["a", "b"])
with rows as entered:
    entered.nonsense(1, 2, 3)  # E31: no such method
    entered.produce((1, 2))  # E32: another row
    entered.flush(timeout="1s")  # E33: no seconds
BatchWriter(url="sqlite:///a.db", table="t", columns=["a"], bufer_size=3)  # E34: no such option
TopN(3, score=lambda hit: hit, sink=print, retry_for=3.0)  # E35: it gives nothing up
WorkerOptions(strategy="wait")  # E36: no strategy
pages = SendingWorker(Pages(), name="pages")
pages.produce(Click(1))  # E37: another item than the sink's
MetricsAggregator(key=len, merge=lambda a, b: a, sink=on_hits)  # E38: a sink of other items


async def forgets_a_twin() -> None:
    async with rows as writer:
        writer.produce_async((1, "a"))  # E39: not awaited
        await writer.produce_many_async([(1, 2)])  # E40: other rows
