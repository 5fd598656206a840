"""No refusal and no failure of a delayed queue or a source shows a key or a payload: no error, log line, repr, metric."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import dataclass

from drainq import Backoff
from drainq.delayed import CronMessage, DelayedQueue, RetryConfig, ScheduledMessage, to_delayed_queue
from drainq.delayed.codec import BytesCodec, JsonCodec, MsgspecCodec, StrCodec
from drainq.monitoring import watch
from drainq.sources import Fair, ItemTracker, PrefetchSource, SourceScheduler
from tests.passwords import everything_of
from tests.sources.by_hand import HandExecutor

SECRET = "ann@example.org"


class Unfit:
    def __repr__(self):
        return SECRET


class NoRepr:
    def __repr__(self):
        raise RuntimeError(SECRET)


@dataclass
class Order:
    number: int


def fails(*_):
    raise ValueError(f"no such customer: {SECRET}")


def open_queue(**options):
    return DelayedQueue.open("memory:", "mail", retry=RetryConfig(Backoff(0), max_retries=0), **options)


def consume_and_fail(**options):
    with open_queue(**options) as queue:
        queue.offer_or_update(SECRET, {"to": SECRET}, 0)
        stop = threading.Event()

        def handle(envelope):
            stop.set()
            fails()

        queue.consume(handle, stop=stop, max_attempts=1)
        return [repr(queue.stats()), repr(queue)]


def undecodable():
    with open_queue(codec=MsgspecCodec(Order)) as queue:
        kind = queue._session.kind
        from drainq.delayed.storage.records import Offer

        queue._session.storage.offer(kind, [Offer(SECRET, f'{{"number": "{SECRET}"}}'.encode(), 0, True, 0)], 0)
        queue.read(SECRET)


class Fussy(StrCodec):
    """A codec whose error shows the payload."""

    def decode(self, data):
        raise ValueError(data)


def unreadable():
    with open_queue(codec=Fussy()) as queue:
        queue.offer_or_update("key", SECRET, 0)
        try:
            queue.read("key")
        finally:
            queue.try_poll()


def lost_lease():
    with open_queue() as queue:
        queue.offer_or_update(SECRET, SECRET, 0)
        stop = threading.Event()

        def handle(envelope):
            queue.offer_or_update(SECRET, "newer", 0)
            queue._session.wakeup.wake()
            keeper._extend(envelope)
            stop.set()

        from drainq.delayed.lease import LeaseKeeper

        keeper = LeaseKeeper(queue._session)
        queue.consume(handle, stop=stop)


def broken_extend():
    with open_queue() as queue:
        queue.offer_or_update(SECRET, SECRET, 0)
        from drainq.delayed.lease import LeaseKeeper

        envelope = queue.try_poll()
        queue._session.storage.extend = fails
        LeaseKeeper(queue._session)._extend(envelope)
        return [repr(envelope)]


def failing_schedule():
    with open_queue() as queue, queue.cron.install_periodic_tick("sweep", 60, fails) as handle:
        handle.look()


def failing_schedule_in_the_background():
    with open_queue() as queue, queue.cron.install_periodic_tick("sweep", 60, fails) as handle:
        assert handle._checked.wait(30)


def refused_batch():
    with open_queue() as queue:
        queue.offer_batch([ScheduledMessage(f"{n}", SECRET if n != 7 else Unfit(), 0) for n in range(20)])


def prefetching(source, **options):
    background = HandExecutor()
    with PrefetchSource(source, 4, 1, name="inbox", executor=background, **options) as made:
        made.get_next_batch(1)
        assert background.run() == 1
        made.get_next_batch(1)
        return [repr(made), repr(made.stats())]


def scheduling(on_error=None):
    scheduler = SourceScheduler({"inbox": lambda n: [SECRET]}, fails, Fair("inbox"), on_error=on_error)
    scheduler.step()
    return [repr(scheduler), repr(scheduler.stats())]


def metrics():
    with open_queue() as queue:
        queue.offer_or_update(SECRET, SECRET, 0)
        watched = watch(queue, "mail")
        watched.sample()
        watched.close()


def call(name, *arguments, **options):
    def made():
        with open_queue(**options) as queue:
            getattr(queue, name)(*arguments)

    return made


def poll_and(use):
    def made():
        with open_queue() as queue:
            queue.offer_or_update(SECRET, SECRET, 0)
            return use(queue.try_poll())

    return made


async def aio_poll():
    with open_queue() as queue:
        await queue.offer_or_update_async(SECRET, SECRET, 0)
        return [repr(await queue.poll_async())]


REFUSALS = {
    "a payload that is no JSON": call("offer_or_update", "a", Unfit(), 0),
    "a payload without a repr": call("offer_or_update", "a", NoRepr(), 0),
    "bytes for JSON": call("offer_or_update", "a", SECRET.encode(), 0),
    "a set for JSON": call("offer_or_update", "a", {SECRET}, 0),
    "an object for json.dumps": call("offer_or_update", "a", Unfit(), 0, codec=JsonCodec()),
    "text for bytes": call("offer_or_update", "a", SECRET, 0, codec=BytesCodec()),
    "bytes for text": call("offer_or_update", "a", SECRET.encode(), 0, codec=StrCodec()),
    "a surrogate in text": call("offer_or_update", "a", SECRET + "\ud800", 0, codec=StrCodec()),
    "a batch with one that is unfit": refused_batch,
    "a batch of no messages": call("offer_batch", [SECRET]),
    "a key that is bytes": call("offer_or_update", SECRET.encode(), 1, 0),
    "a key that is too long": call("offer_or_update", SECRET * 20, 1, 0),
    "a key with a NUL": call("offer_or_update", SECRET + "\0", 1, 0),
    "a key with a surrogate": call("offer_or_update", SECRET + "\ud800", 1, 0),
    "a key of a batch": call("offer_batch", [ScheduledMessage(SECRET + "\0", 1, 0)] * 20),
    "keys that are one text": call("redrive", SECRET),
    "keys that are a number": call("drop_dead_letters", Unfit()),
    "keys and a prefix": lambda: open_queue().redrive([SECRET], prefix=SECRET),
    "a prefix that is none": lambda: open_queue().redrive(prefix=Unfit()),
    "a message of a schedule that is none": lambda: open_queue().cron.install_tick("h", "p", [SECRET]),
    "a payload of a schedule": lambda: open_queue().cron.install_tick("h", "p", [CronMessage(Unfit(), 0)]),
    "keys that are not in an envelope": lambda: open_queue().try_poll_many(1).ack_some([SECRET + "!"]),
    "an envelope": poll_and(lambda envelope: [repr(envelope), f"{envelope}"]),
    "an envelope of asyncio": lambda: asyncio.run(aio_poll()),
    "a payload that cannot be decoded": undecodable,
    "a payload that a codec of one's own cannot decode": unreadable,
    "a handler that fails": consume_and_fail,
    "a lease that was lost": lost_lease,
    "a lease that cannot be extended": broken_extend,
    "a schedule that fails when it is looked at": failing_schedule,
    "a schedule that fails": failing_schedule_in_the_background,
    "failed batches": lambda: [repr(to_delayed_queue(open_queue())([SECRET], ValueError(SECRET)))],
    "a source that fails": lambda: prefetching(fails),
    "a source that answers with text": lambda: prefetching(lambda n: SECRET),
    "a key function that fails": lambda: prefetching(lambda n: [SECRET], key=fails),
    "an on_error that fails": lambda: prefetching(fails, on_error=fails),
    "a target that fails": scheduling,
    "an on_error of a scheduler that fails": lambda: scheduling(fails),
    "a tracker's key that is bytes": lambda: ItemTracker.open("memory:").mark("s", [SECRET.encode()], "done"),
    "a tracker's key with a NUL": lambda: ItemTracker.open("memory:").state("s", SECRET + "\0"),
    "a tracker's key with a surrogate": lambda: ItemTracker.open("memory:").state("s", SECRET + "\ud800"),
    "a tracker's keys that are one text": lambda: ItemTracker.open("memory:").mark("s", SECRET, "done"),
    "metrics": metrics,
}
OURS = {"a schedule that fails when it is looked at"}
"""What raises the user's own error, as it is."""


def test_no_key_and_no_payload_is_shown(caplog, capfd):
    caplog.set_level(logging.DEBUG)
    told = {}
    for what, refuse in REFUSALS.items():
        caplog.clear()
        try:
            seen = " ".join(refuse() or [])
        except (TypeError, ValueError, KeyError) as error:  # any other is a fault of the table
            assert "positional argument" not in str(error), what
            seen = "" if what in OURS else everything_of(error)
        seen += caplog.text + "".join(capfd.readouterr())
        if SECRET in seen or "example.org" in seen:
            told[what] = seen
    assert told == {}


def test_values_are_shown_to_those_who_ask(caplog):
    consume_and_fail(log_values=True)
    assert f"the handler of delayed queue 'mail' failed on message {SECRET!r}" in caplog.text
    with open_queue(log_values=True) as queue:
        queue.cron.install("h", "p", 60, fails)._turn()
    assert caplog.text.count(f"ValueError: no such customer: {SECRET}") >= 2
