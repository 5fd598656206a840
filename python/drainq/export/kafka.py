"""KafkaExporter: sends items to a topic of Kafka.

1. librdkafka sends, and tries again, for ``retry_for`` seconds. It keeps the order and avoids duplicates
   (``enable.idempotence``), unless the configuration changes that.
2. A batch ends when librdkafka has delivered each message or reported why not. So the counters are exact whenever the
   drain thread is idle. One batch is sent at a time, so librdkafka holds only messages of that batch.
3. If librdkafka's local queue is full, the sink runs the delivery callbacks until there is room.
4. A message has an identity in the header ``drainq-id``. The identity stays the same when the message is sent again
   from a delayed queue, so a consumer can recognise a duplicate. A message that timed out may be in the topic, so it
   also counts as ``unknown``.
5. When the time of ``close`` ends, the local queue is purged, which reports each remaining message.

Source: ``KafkaTraceExporter`` and ``KafkaLogExporter`` in SkyWalking, which drop messages without room, uncounted.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from drainq.arguments import helpful
from drainq.callables import check_callable
from drainq.delivery import DeliveryError, DeliveryStopped, Refused, Rest, SendingWorker, Sink, Unavailable, Undelivered
from drainq.delivery.options import options_of
from drainq.delivery.producing import Item
from drainq.delivery.sink_contract import Refusals, error_text
from drainq.errors import UnfitItem
from drainq.export import kafka_errors
from drainq.export.kafka_language import why_never
from drainq.export.kafka_settings import opened, settings_of
from drainq.export.optional_packages import extra
from drainq.fork import leave_to_parent
from drainq.threads import start_aside

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import Unpack

    from drainq.delivery.options import SendingSettings

log = logging.getLogger("drainq")

HEADER = "drainq-id"
BATCH = 4096  # messages; larger batches do not fit the processor's caches, and librdkafka idles between them
ANY_PARTITION, NOW = -1, 0  # constants of librdkafka
POLL = 0.05  # the most seconds of a wait for reports before the next check for a cancellation
ASK_AFTER = 10  # polls without an arrived message, before the servers are asked for their protocol


Message = tuple[str, "bytes | str | None", "bytes | str | None"]
"""The sent message, which a dead letter stores too: identity, key, value. A plain tuple is the cheapest."""


class _Unfit(NamedTuple):
    """An item that cannot be made a message, with the reason."""

    item: object
    error: Exception


class KafkaSink(Sink):
    """Hands messages to librdkafka and waits for its reports.

    Args:
        config: the configuration of librdkafka.
        topic: where the messages go.
        patience: seconds after which librdkafka gives up a message, unless ``config`` sets that time.
    """

    def __init__(self, config: Mapping[str, Any], topic: str, *, patience: float) -> None:
        [self._kafka] = extra("kafka", "confluent_kafka")
        settings = settings_of(config, patience)
        self._told = settings.get("error_cb")
        settings["error_cb"] = self._connection_failed
        kafka = self._kafka
        self._servers = str(settings.get("bootstrap.servers") or settings.get("metadata.broker.list") or "")
        self._protocol = str(settings.get("security.protocol", "plaintext"))

        def open_producer() -> Any:  # a closure: the password is in no attribute
            return opened(kafka, settings)

        self._open, self._topic = open_producer, topic
        self._producer: Any = None
        self.forget()
        self._producer_now()

    def forget(self) -> None:
        """Leave librdkafka to the parent, because its threads do not exist in a child."""
        leave_to_parent(self._producer)
        self._producer = None
        self._lock = threading.Lock()
        self._turn = threading.Condition()
        self._sending = self._over = False
        self._no_login: Any = None  # the error of a broker that this producer can never use
        self._is_cut_off = False  # no broker can be reached, and one of them never will be
        self._has_sent = False  # a message arrived
        self._asked: Future[str] | None = None  # why no server can ever be used
        self._failed: list[tuple[int, Any]] = []  # of the batch that is being sent: place, error
        # The callback for the message at each place, made once: making one costs as much as a message.
        self._reports: list[functools.partial[None]] = []

    def _producer_now(self) -> Any:
        with self._lock:
            if self._producer is None:
                self._is_cut_off = False
                self._producer = self._open()
            return self._producer

    def send(self, items: list[Any]) -> Refusals:
        """Send messages, and wait until librdkafka has reported each."""
        with self._turn:
            self._turn.wait_for(lambda: not self._sending)
            self._sending = True
        try:
            if self._is_cut_off:  # since the last batch
                self._discard()
            self._no_login = None
            return self._send(self._producer_now(), items)
        finally:
            with self._turn:
                self._sending = False
                self._turn.notify()

    def _send(self, producer: Any, items: list[Any]) -> Refusals:
        """Send messages through a producer that no other call uses."""
        failed = self._failed = list[tuple[int, Any]]()  # librdkafka reports only what was not delivered
        not_taken: dict[int, object] = {}  # place -> why
        wrong, unsent = None, len(items)  # the place of the first item that this producer no longer takes
        produce, topic = producer.produce, self._topic
        for place in range(len(self._reports), len(items)):
            self._reports.append(functools.partial(self._report, place))
        for item, report in zip(items, self._reports):
            try:
                identity, key, value = item
                # By position: names cost a third more. The arguments are value, key, partition, callback, its other
                # name, timestamp and headers.
                produce(topic, value, key, ANY_PARTITION, report, None, NOW, [(HEADER, identity)])
                continue
            except BufferError:
                error = self._produce_waiting(producer, item, report)
            except self._kafka.KafkaException as refusal:
                error = refusal.args[0]
            except (TypeError, ValueError):  # there is no message, or the key or the value is neither bytes nor str
                error = item.error if type(item) is _Unfit else _wrong_types(key, value)
            place = report.args[0]
            if not isinstance(error, Exception) and kafka_errors.is_fatal(error):
                unsent = place
                break
            if isinstance(error, Exception):
                not_taken[place] = error
            elif error is not None:
                not_taken[place] = kafka_errors.reason(error)
                if kafka_errors.passes_never(error):
                    wrong = error
                    never = kafka_errors.reason(error)
                    not_taken.update((later, never) for later in range(place + 1, len(items)))
                    break
        polls = 0
        while self._served(producer.flush, POLL):  # sends at once, without waiting for more messages
            polls += 1
            self._ask(polls)
            if self._over or self._is_cut_off:
                _purge(producer)  # also messages produced after cancel() had purged
        self._has_sent |= not failed
        why, too_large = "", []
        for place, error in failed:
            not_taken[place] = kafka_errors.reason(error)
            wrong = wrong or (error if kafka_errors.passes_never(error) else None)
            if kafka_errors.name(error) in kafka_errors.TOO_LARGE:
                too_large.append(place)
        left = list(range(unsent, len(items)))
        if len(too_large) > 1:  # perhaps only together
            left = sorted(too_large) + left
            why = str(not_taken[too_large[0]])
            for place in too_large:
                del not_taken[place]
        if self._is_cut_off and any(isinstance(each, Undelivered) for each in not_taken.values()):
            wrong = wrong or self._no_login
        failure: type[DeliveryError] = Refused
        if unsent < len(items):
            failure, why = Unavailable, "a new producer is needed after a fatal error"
        elif wrong is not None:
            failure, why = DeliveryStopped, f"{kafka_errors.name(wrong)}: {wrong.str()}"
            left = sorted([*left, *(place for place, each in not_taken.items() if isinstance(each, Undelivered))])
            not_taken = {place: each for place, each in not_taken.items() if not isinstance(each, Undelivered)}
        elif not left:
            return list(not_taken.items())
        if failure is not Refused:
            self._discard()
        raise failure(why, rest=Rest([items[place] for place in left], left), refusals=list(not_taken.items()))

    def _ask(self, polls: int) -> None:
        """Ask the servers for their protocol if nothing arrived for a while. Note the answer if no server is usable."""
        if polls == ASK_AFTER and not self._has_sent and self._servers:
            with contextlib.suppress(RuntimeError):  # no more threads can be started
                self._asked = start_aside(why_never, self._servers, self._protocol)
        if self._asked is not None and self._asked.done() and not self._has_sent:
            if why := self._asked.result():
                self._no_login = self._kafka.KafkaError(self._kafka.KafkaError._TRANSPORT, why)
                self._is_cut_off = True
            self._asked = None

    def _connection_failed(self, error: Any) -> None:
        """Note the failure of a connection. Called by librdkafka."""
        if kafka_errors.connects_never(error):
            self._no_login = error
        self._is_cut_off |= self._no_login is not None and kafka_errors.name(error) == "_ALL_BROKERS_DOWN"
        if self._told is not None:
            self._told(error)

    def _report(self, place: int, error: Any, _: Any) -> None:
        """Note that a message of the batch was not delivered. Called by librdkafka."""
        self._failed.append((place, error))

    def _produce_waiting(self, producer: Any, message: Message, report: Callable[[Any, Any], None]) -> Any:
        """Put a message into the local queue once there is room. Return the error if it is refused."""
        identity, key, value = message
        while not self._over:
            self._served(producer.poll, POLL)
            try:
                producer.produce(self._topic, value, key, on_delivery=report, headers=[(HEADER, identity)])
            except BufferError:
                continue
            except self._kafka.KafkaException as refusal:
                return refusal.args[0]
            return None
        return self._kafka.KafkaError(self._kafka.KafkaError._PURGE_QUEUE)

    def described(self, item: Any) -> str:
        """Return the type of an item that could not be made a message."""
        return f"a {type(item.item).__name__}" if isinstance(item, _Unfit) else "a message"

    def _served(self, call: Callable[[float], int], seconds: float) -> int:
        """Run librdkafka's callbacks. A fatal error raised here recurs at the next message."""
        try:
            return call(seconds)
        except self._kafka.KafkaException as error:
            if not error.args[0].fatal():
                raise
            return 1

    def _discard(self) -> None:
        """Drop the producer, so that the next batch opens another. After a fatal error a producer accepts nothing."""
        with self._lock:
            self._producer = None

    def serve(self) -> None:
        """Run the callbacks for librdkafka's log lines, and those in the configuration."""
        with self._lock:
            producer = self._producer
        if producer is not None:
            self._served(producer.poll, 0)

    def cancel(self) -> None:
        """Make librdkafka report all remaining messages at once."""
        with self._lock:
            self._over, producer = True, self._producer
        if producer is not None:
            _purge(producer)

    def close(self) -> None:
        """Let librdkafka's threads end."""
        self.serve()
        self._discard()


class KafkaExporter(SendingWorker[Item]):
    """Send each item as a message to a topic of Kafka.

    Args:
        config: the configuration of librdkafka, such as ``{"bootstrap.servers": "host:9092"}``; no log line and no
            ``repr`` shows it. By default all replicas acknowledge a message, retries make no duplicates
            (``enable.idempotence``), and librdkafka's log lines go to the logger ``drainq.kafka``.
        topic: the topic's name.
        key: maps an item to the message's key (bytes, str or None), which decides its partition; None: no keys.
        value: maps an item to the message's value (bytes, str or None); None: bytes and str as they are, others as
            JSON. When ``key`` or ``value`` raises for one item, both are called again for all items of its batch.
        settings: ``queue``, ``weight``, ``options``, and the fields of :class:`~drainq.workers.WorkerOptions`.
            ``retry_for`` is the time for which librdkafka tries to send a message. After that the message may be in
            the topic, so it also counts as ``unknown``. From ``delayed`` it is sent with the same ``drainq-id``.
            ``on_error`` gets messages: identity, key, value. By default a batch has at most 4,096 messages.
    Raises:
        ImportError: the extra ``kafka`` is not installed.
        TypeError, ValueError: an argument is invalid; for ``config`` the text is librdkafka's.

    Example:
        >>> exporter = KafkaExporter(config={"bootstrap.servers": "127.0.0.1:9092"}, topic="hits", retry_for=0)
        >>> exporter.close()
        True

    Source: ``KafkaTraceExporter`` in SkyWalking.
    """

    @helpful
    def __init__(
        self,
        *,
        config: Mapping[str, Any],
        topic: str,
        key: Callable[[Item], bytes | str | None] | None = None,
        value: Callable[[Item], bytes | str | None] | None = None,
        **settings: Unpack[SendingSettings],
    ) -> None:
        if not isinstance(config, Mapping):
            raise TypeError(f"config must be a mapping of librdkafka's settings, got a {type(config).__name__}")
        if not isinstance(topic, str) or not topic:
            raise ValueError(f"topic must be a str that is not empty, got {topic!r}")
        for parameter, function in (("key", key), ("value", value)):
            if function is not None:
                check_callable(parameter, function, "item")
        self._key, self._value = key, as_value if value is None else value
        self._renew_identity()
        self._kafka_sink = KafkaSink(config, topic, patience=options_of(self, settings).patience)
        super().__init__(
            self._kafka_sink,
            default_name=f"kafka/{topic}",
            pack_item=_packed,
            **settings,
        )

    def _renew_identity(self) -> None:
        self._origin, self._numbers = uuid.uuid4().hex, itertools.count(1)

    def _queue_settings(self) -> dict[str, Any]:
        return {**super()._queue_settings(), "buffer_size": BATCH, "max_batch": BATCH}

    def _take(self, batch: list[Any]) -> None:
        key_of, value_of, prefix, numbers = self._key, self._value, self._origin + "-", self._numbers
        messages: list[Message | _Unfit]
        try:
            if key_of is None:
                messages = [(f"{prefix}{number}", None, value_of(item)) for item, number in zip(batch, numbers)]
            else:
                messages = [(f"{prefix}{number}", key_of(item), value_of(item)) for item, number in zip(batch, numbers)]
        except Exception:  # at least one item is unfit; the items are tried one by one
            messages = [self._message(item) for item in batch]
        super()._take(messages)

    def _message(self, item: Any) -> Message | _Unfit:
        try:
            key = None if self._key is None else self._key(item)
            return f"{self._origin}-{next(self._numbers)}", key, self._value(item)
        except Exception as error:
            return _Unfit(item, error)

    def _when_idle(self) -> None:
        self._kafka_sink.serve()

    def _forget(self) -> None:
        self._renew_identity()
        super()._forget()


def _purge(producer: Any) -> None:
    """Give up every message that librdkafka holds. Each is reported."""
    producer.purge(in_queue=True, in_flight=True)


def _wrong_types(key: object, value: object) -> UnfitItem:
    got = f"got a {type(key).__name__} and a {type(value).__name__}"
    return UnfitItem(f"the key and the value of a message must be bytes, str or None, {got}")


def as_value(item: Any) -> bytes | str:
    """Return an item as the value of a message: bytes and str unchanged, other types as JSON."""
    return item if isinstance(item, (bytes, str)) else msgspec.json.encode(item)


def _packed(message: Message | _Unfit) -> Message:
    """Return a message in a form that a delayed queue can store.

    Raises:
        TypeError: the item could not be made a message, so there is nothing to send later.
    """
    if isinstance(message, _Unfit):
        raise UnfitItem(f"no message could be made of a {type(message.item).__name__}: {error_text(message.error)}")
    return message
