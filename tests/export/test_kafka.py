"""The Kafka exporter against librdkafka's mock cluster with injected faults: every message is accounted for."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("confluent_kafka")

import confluent_kafka

from drainq.delayed import DelayedQueue
from drainq.delivery import DeliveryError, DeliveryStopped, Refused, Unavailable, Undelivered
from drainq.export import KafkaExporter, kafka, kafka_errors, kafka_settings
from drainq.export.kafka import HEADER, KafkaSink
from drainq.testing import ManualClock
from tests.sources.by_hand import Raises

from . import kafka_mock
from .books import assert_books
from .kafka_mock import mock_cluster

OPEN = []


@pytest.fixture
def cluster():
    with mock_cluster() as cluster:
        yield cluster
        while OPEN:
            OPEN.pop().close(0)


def exporter_to(cluster, *, settings=(), **more):
    quick = {"retry.backoff.ms": 20, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 50, "linger.ms": 1}
    config = {"bootstrap.servers": cluster.address, **quick, **dict(settings)}
    OPEN.append(KafkaExporter(**{"config": config, "topic": "t", **more}))
    return OPEN[-1]


# The messages of one call are one request, however late the thread comes to the second: only a flush ends the wait.
ONE_REQUEST = {"linger.ms": 5_000}


def values(messages):
    return sorted(int(message.value()) for message in messages)


def identities(messages):
    return [dict(message.headers())[HEADER].decode() for message in messages]


def test_every_item_arrives_once_with_its_key_and_an_identity(cluster):
    with exporter_to(cluster, key=lambda n: f"k{n % 5}", value=lambda n: str(n)) as exporter:
        assert exporter.produce_many(range(10_000)) == 10_000
        assert exporter.flush(60)
        assert_books(exporter, 10_000, sent=10_000)
    messages = cluster.messages("t", 10_000)
    assert values(messages) == list(range(10_000))
    by_key = {}
    for message in messages:
        by_key.setdefault(message.key(), []).append(int(message.value()))
    assert by_key == {f"k{k}".encode(): list(range(k, 10_000, 5)) for k in range(5)}  # in order
    assert len(set(identities(messages))) == 10_000


def test_without_a_value_function_bytes_and_text_go_as_they_are_and_others_as_json(cluster):
    with exporter_to(cluster) as exporter:
        exporter([b"\0\xff", "text", {"a": [1, None]}, 7])
    found = {message.value() for message in cluster.messages("t", 4)}
    assert found == {b"\0\xff", b"text", json.dumps({"a": [1, None]}, separators=(",", ":")).encode(), b"7"}


@pytest.mark.parametrize(
    "codes", [[kafka_mock.NOT_LEADER], [kafka_mock.REQUEST_TIMED_OUT] * 2, [kafka_mock.NOT_ENOUGH_REPLICAS] * 3]
)
def test_an_error_that_passes_is_tried_again_by_librdkafka(cluster, codes):
    exporter = exporter_to(cluster)
    cluster.fail(*codes)
    exporter(list(range(100)))
    assert_books(exporter, 100, sent=100)
    assert values(cluster.messages("t", 100)) == list(range(100))
    assert exporter.close()


@pytest.mark.parametrize("code", [kafka_mock.TOO_LARGE, kafka_mock.INVALID_RECORD])
def test_what_the_broker_refuses_for_what_it_is_counts_as_refused(cluster, code):
    exporter = exporter_to(cluster, settings=ONE_REQUEST)
    exporter([b"0"])
    for item in (b"1", b"2"):
        cluster.fail(code)
        exporter([item])
    exporter([b"3"])
    assert_books(exporter, 4, sent=2, refused=2)
    assert exporter.stats().unknown == 0
    assert not exporter.close()


def test_messages_that_are_too_large_together_are_split_and_one_that_is_too_large_alone_is_refused(cluster):
    exporter = exporter_to(cluster, settings=ONE_REQUEST)
    exporter([b"before"])
    cluster.fail(*[kafka_mock.TOO_LARGE] * 3)  # of eight, of the first four, of the first two
    exporter([str(n) for n in range(8)])
    assert_books(exporter, 9, sent=9)
    cluster.fail(*[kafka_mock.TOO_LARGE] * 3)  # of four, of the first two, of the first
    exporter([str(n) for n in range(8, 12)])
    assert_books(exporter, 13, sent=12, refused=1)
    arrived = sorted(message.value() for message in cluster.messages("t", 12))
    assert arrived == sorted([b"before", *(str(n).encode() for n in range(12) if n != 8)])


def test_a_refused_login_stops_the_exporter_at_once(cluster):
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "a"}
    exporter = exporter_to(cluster, settings={**login, "sasl.password": "X7"}, retry_for=3_600.0)
    for _ in range(2):  # each time by a new producer, which tries to log in
        with pytest.raises(DeliveryError, match="DeliveryStopped: _AUTHENTICATION: .*SASL") as stopped:
            exporter([b"1", b"2"])
        assert "X7" not in str(stopped.value)
    assert_books(exporter, 4, lost=4)


def test_after_a_fatal_error_the_next_messages_go_through_a_new_producer(cluster):
    exporter = exporter_to(cluster)
    assert exporter.produce("before") and exporter.flush(60)
    cluster.fail(kafka_mock.OUT_OF_ORDER)
    assert exporter.produce("in doubt") and exporter.flush(60) is False
    assert exporter.produce_many(["after", "then"]) == 2 and exporter.flush(60)
    assert sorted(message.value() for message in cluster.messages("t", 3)) == [b"after", b"before", b"then"]
    assert (exporter.stats().sent, exporter.stats().lost, exporter.stats().refused) == (3, 1, 0)


def test_an_item_of_which_no_message_can_be_made_is_refused_alone(cluster):
    exporter = exporter_to(cluster, key=lambda item: item["key"], value=lambda item: item["value"])
    exporter([{"key": "a", "value": b"1"}, {"value": b"2"}, {"key": 3, "value": b"3"}, {"key": None, "value": b"4"}])
    assert_books(exporter, 4, sent=2, refused=2)
    assert values(cluster.messages("t", 2)) == [1, 4]


def test_a_missing_right_stops_the_exporter_until_it_is_there(cluster):
    exporter = exporter_to(cluster, settings=ONE_REQUEST)
    exporter([b"0"])
    cluster.fail(kafka_mock.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(Exception, match="TOPIC_AUTHORIZATION_FAILED"):
        exporter([b"1", b"2", b"3"])
    with pytest.raises(DeliveryStopped, match="TOPIC_AUTHORIZATION_FAILED"):
        exporter.produce(b"x")
    assert_books(exporter, 4, sent=1, lost=3)
    assert exporter.stats().unknown == 0  # the broker has said that it did not take them
    exporter([b"4"])
    assert_books(exporter, 5, sent=2, lost=3)


def test_what_finds_no_room_after_the_cancel_is_reported_as_not_sent():
    sink = KafkaSink({"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.messages": 1}, "t", patience=600.0)
    sink.cancel()
    reported = dict(sink.send([("id-1", None, b"0"), ("id-2", None, b"1")]))
    assert [(type(reported[place]), reported[place].unknown) for place in (0, 1)] == [(Undelivered, False)] * 2
    sink.close()


FULL, SIZE, FATAL, TIME = BufferError(), "MSG_SIZE_TOO_LARGE", "_FATAL", "_MSG_TIMED_OUT"
RIGHT, TOPIC = "TOPIC_AUTHORIZATION_FAILED", "_UNKNOWN_TOPIC"


class Producer:
    """Does what a script says at each call of ``produce``: takes the message, reports an error of it, or raises one."""

    def __init__(self, *script):
        self.script, self.taken, self.reports, self.purges, self.polls = list(script), [], [], [], 0

    def produce(self, topic, value, key, *more, on_delivery=None, headers=None):
        _, report, *_, named = more or (None, on_delivery, headers)
        step = self.script.pop(0)
        if step is FULL:
            raise step
        error = step and confluent_kafka.KafkaError(getattr(confluent_kafka.KafkaError, step.lstrip("!")))
        if step and step[0] == "!":
            raise confluent_kafka.KafkaException(error)
        self.taken.append((topic, key, value, named))
        if error:
            self.reports.append((report, error))

    def poll(self, seconds):
        self.polls += 1
        while self.reports:
            report, error = self.reports.pop()  # in no order of theirs
            report(error, None)
        return 0

    flush = poll

    def purge(self, **what):
        self.purges.append(what)


@pytest.mark.parametrize(
    ("script", "taken", "refused", "unsent", "error"),
    [
        ([None, FULL, FULL, None, None], [0, 1, 2], {}, [], None),
        ([FULL, f"!{SIZE}", f"!{SIZE}", FULL, TIME], [2], {0: SIZE, 1: SIZE, 2: TIME}, [], None),
        ([f"!{SIZE}", None, f"!{FATAL}"], [1], {0: SIZE}, [2], Unavailable),
        ([FULL, f"!{FATAL}"], [], {}, [0, 1, 2], Unavailable),
        ([None, f"!{TOPIC}"], [0], {}, [1, 2], DeliveryStopped),
        ([TIME, f"!{TOPIC}"], [0], {}, [0, 1, 2], DeliveryStopped),
        ([SIZE, RIGHT, TIME], [0, 1, 2], {0: SIZE}, [1, 2], DeliveryStopped),
        ([TIME, None, RIGHT], [0, 1, 2], {}, [0, 2], DeliveryStopped),
        ([SIZE, None, SIZE], [0, 1, 2], {}, [0, 2], Refused),
        ([SIZE, TIME, SIZE], [0, 1, 2], {1: TIME}, [0, 2], Refused),
        ([SIZE, RIGHT, SIZE], [0, 1, 2], {}, [0, 1, 2], DeliveryStopped),
        ([SIZE, SIZE, f"!{FATAL}"], [0, 1], {}, [0, 1, 2], Unavailable),
    ],
)
def test_each_message_of_a_batch_is_taken_refused_or_among_the_rest(script, taken, refused, unsent, error, monkeypatch):
    producers = [Producer(*script), Producer()]
    monkeypatch.setattr(kafka, "opened", lambda kafka, settings: producers.pop(0))
    sink = KafkaSink({}, "t", patience=1.0)
    first, rest, why = sink._producer, [], None
    try:
        told = sink.send([(f"id-{n}", f"k{n}", f"v{n}") for n in range(3)])
    except DeliveryError as raised:
        told, rest, why = raised.refusals, raised.rest, raised
    assert (type(why) if why else None, [*getattr(rest, "places", [])]) == (error, unsent)
    assert [item[0] for item in rest] == [f"id-{n}" for n in unsent]
    assert {place: str(reason).partition(":")[0] for place, reason in told} == refused
    assert first.taken == [("t", f"k{n}", f"v{n}", [(HEADER, f"id-{n}")]) for n in taken] and first.script == []
    assert (sink._producer_now() is first) == (error in (None, Refused))
    sink.cancel()
    assert sink._producer.purges == [{"in_queue": True, "in_flight": True}]
    sink.close()
    assert sink._producer is None


def test_a_wrong_certificate_stops_once_no_broker_is_left_and_a_connection_that_ends_does_not(monkeypatch):
    wrong, ended = "error:0A000086: certificate verify failed: broker certificate", "Disconnected"
    told, opened = [], []

    class Cut(Producer):
        def poll(self, seconds):
            for error in errors if self.reports else ():
                opened[-1]["error_cb"](error)
            return super().poll(seconds) or bool(self.purges) < stops

        flush = poll

    monkeypatch.setattr(kafka, "opened", lambda kafka, given: opened.append(given) or Cut("_PURGE_QUEUE"))
    for text, count, stops in ((wrong, 2, True), (wrong, 1, False), (ended, 2, False)):
        names = (("_SSL", text), ("_ALL_BROKERS_DOWN", None))[:count]
        codes = confluent_kafka.KafkaError
        errors = [codes(getattr(codes, name), reason) for name, reason in names]
        sink = KafkaSink({"error_cb": told.append}, "t", patience=1.0)
        if stops:
            with pytest.raises(DeliveryStopped, match="_SSL: .*certificate verify failed"):
                sink.send([("id", None, b"v")])
        else:
            assert "_PURGE_QUEUE" in str(dict(sink.send([("id", None, b"v")]))[0])
            assert sink._producer.purges == []
        assert told[-count:] == errors
    for error in (codes(codes._SSL, wrong), codes(codes._ALL_BROKERS_DOWN)):  # told while it is idle
        opened[-1]["error_cb"](error)
    errors, before = [], len(opened)
    assert "_PURGE_QUEUE" in str(dict(sink.send([("id", None, b"v")]))[0]) and len(opened) == before + 1
    for name, text in (("_SSL", wrong), (None, None), ("_ALL_BROKERS_DOWN", None)):  # a batch went through in between
        opened[-1]["error_cb"](codes(getattr(codes, name), text)) if name else sink.send([])
    assert not sink._is_cut_off


def test_one_batch_is_sent_at_a_time_and_an_idle_exporter_serves_callbacks(monkeypatch):
    found, told = [], []
    monkeypatch.setattr(kafka, "opened", lambda kafka, settings: told.append(settings) or Producer())
    exporter = KafkaExporter(config={"acks": 1}, topic="t", retry_for=7)
    sink = exporter._kafka_sink

    class Turn(threading.Condition):
        def wait_for(self, free, timeout=None):
            found.append(free())
            return True

        def notify(self, n=1):
            found.append("next")

    sink._turn, sink._sending = Turn(), True
    assert sink.send([]) == [] and found == [False, "next"] and not sink._sending
    unfit = kafka._Unfit(5, ValueError("no value"))
    assert sink.send([unfit]) == [(0, unfit.error)] and sink.described(unfit) == "a int"
    for fatal in (True, False):
        error = confluent_kafka.KafkaException(confluent_kafka.KafkaError(-1, "down", fatal))
        with contextlib.nullcontext() if fatal else pytest.raises(confluent_kafka.KafkaException):
            assert sink._served(Raises(error, 1), 0) == 1
    polls = sink._producer.polls
    exporter._when_idle()
    producer = sink._producer
    sink.close()  # which serves the last callbacks
    sink._producer = producer
    assert producer.polls == polls + 2 and told[0]["delivery.timeout.ms"] == 7_000
    assert exporter._queue_settings()["max_batch"] == kafka.BATCH
    exporter.close(0)
    origin = exporter._origin
    exporter._forget()  # in a child, whose messages are others
    assert exporter._origin != origin


REFUSED = """MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_RECORD INVALID_MSG INVALID_TIMESTAMP POLICY_VIOLATION
    _INVALID_ARG _BAD_MSG"""
CANNOT_PASS = """TOPIC_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    SASL_AUTHENTICATION_FAILED _AUTHENTICATION TOPIC_EXCEPTION UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION
    UNSUPPORTED_VERSION UNSUPPORTED_FOR_MESSAGE_FORMAT _UNSUPPORTED_FEATURE"""


def test_what_each_error_of_librdkafka_says_about_its_message():
    codes = {name: code for name, code in vars(confluent_kafka.KafkaError).items() if isinstance(code, int)}
    errors = {name: confluent_kafka.KafkaError(code, "certificate?") for name, code in codes.items()}
    errors = {name: error for name, error in errors.items() if error.name() == name}

    def named(says):
        return {name for name, error in errors.items() if says(error)}

    def undelivered(error, unknown):
        reason = kafka_errors.reason(error)
        return isinstance(reason, Undelivered) and reason.unknown is unknown

    refused, never = set(REFUSED.split()), set(CANNOT_PASS.split())
    assert named(lambda error: kafka_errors.reason(error) == f"{error.name()}: certificate?") == refused
    assert named(kafka_errors.passes_never) == never
    assert named(lambda error: undelivered(error, False)) == never | {"_PURGE_QUEUE"}
    assert named(lambda error: undelivered(error, True)) == errors.keys() - refused - never - {"_PURGE_QUEUE"}
    assert {"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"} == kafka_errors.TOO_LARGE
    assert named(kafka_errors.is_fatal) == {"_FATAL"} and not kafka_errors.is_fatal(None)
    assert named(kafka_errors.connects_never) == {"_AUTHENTICATION"}
    for words, is_never in (("Certificate Verify failed", True), ("ssl: WRONG version number", True), ("reset", False)):
        assert kafka_errors.connects_never(confluent_kafka.KafkaError(codes["_SSL"], words)) is is_never


def test_no_value_that_may_be_a_secret_is_in_an_error():
    secrets = "ssl.key.password a.secret ssl.key.pem token sasl.jaas sasl.oauthbearer.config credentials".split()
    settings = {name: f"s{number}" for number, name in enumerate(secrets)} | {"client.id": "shown", "token.on": True}

    def refuse(given):
        raise ValueError(f"{[*given.values()]} True")

    with pytest.raises(ValueError, match="^config is not what librdkafka takes: ") as error:
        kafka_settings.opened(SimpleNamespace(Producer=refuse, KafkaException=KeyError), settings)
    assert str(error.value).partition(": ")[2] == f"{['...'] * 7 + ['shown', True]} True"
    assert error.value.__context__ is None, "librdkafka's own error, with the secrets, would be in a traceback"


def test_the_configuration_overrules_what_drainq_sets():
    def found(config, patience=2.5):
        settings = kafka_settings.settings_of(config, patience)
        assert settings.pop("delivery.report.only.error") is True
        return settings

    logger = logging.getLogger("drainq.kafka")
    usual = {"delivery.timeout.ms": 2500, "enable.idempotence": True, "logger": logger}
    assert found({}) == usual and found({}, 0) == {**usual, "delivery.timeout.ms": 1000}
    assert found({"delivery.report.only.error": False}) == usual
    timeout, exactly, logs = "delivery.timeout.ms", "enable.idempotence", "logger"
    for name, replaced in {
        timeout: timeout, "message.timeout.ms": timeout, exactly: exactly, "acks": exactly,
        "request.required.acks": exactly, logs: logs,
    }.items():  # fmt: skip
        assert found({name: 1}) == {**{key: value for key, value in usual.items() if key != replaced}, name: 1}


@pytest.mark.system
@pytest.mark.parametrize("room", [10, 100_000])
def test_close_returns_by_its_deadline_with_an_exact_account(cluster, room, caplog):
    exporter = exporter_to(cluster, retry_for=600.0, settings={"queue.buffering.max.messages": room}, value=str)
    exporter([0])
    cluster.down()
    exporter.produce_many(range(1, 500))
    assert not exporter.close(0.4)
    assert_books(exporter, 500, sent=1, lost=499)
    for _ in range(1_000):
        if "_PURGE_QUEUE" in caplog.text:
            break
        threading.Event().wait(0.01)
    assert "_PURGE_QUEUE" in caplog.text
    assert_books(exporter, 500, sent=1, lost=499)
    cluster.up()
    exporter_to(cluster)([b"500"])
    assert values(cluster.messages("t", 2)) == [0, 500]  # what counts as lost does not arrive later


@pytest.mark.system
def test_what_a_dead_broker_does_not_get_is_kept_and_sent_later_with_the_same_identity(cluster):
    clock = ManualClock()
    with DelayedQueue.open("memory:", "messages", clock=clock) as delayed:
        exporter = exporter_to(cluster, retry_for=1.0, delayed=delayed, clock=clock, key=lambda item: item[:1])
        cluster.down()
        exporter([b"\0a", b"\xffb", b"c"])
        assert_books(exporter, 3, dead_lettered=3)
        assert exporter.stats().unknown == 3
        exporter.close()
        cluster.up()
        clock.advance(3_600.0)
        later = exporter_to(cluster, retry_for=60.0, delayed=delayed, clock=clock)
        assert later.flush(60)
        assert_books(later, 0)
        assert later.stats().resent == 3
    messages = cluster.messages("t", 3)
    assert sorted((m.key(), m.value()) for m in messages) == [(b"\0", b"\0a"), (b"c", b"c"), (b"\xff", b"\xffb")]
    assert [identity.rpartition("-")[2] for identity in sorted(identities(messages))] == ["1", "2", "3"]


def test_a_refused_message_is_kept_alone_and_what_no_message_can_be_made_of_is_refused(cluster):
    with DelayedQueue.open("memory:", "messages") as delayed:
        exporter = exporter_to(cluster, delayed=delayed, value=lambda item: item)
        exporter([b"0", b"x" * 2_000_000, b"2", object()])
        assert_books(exporter, 4, sent=2, dead_lettered=1, refused=1)
        assert not exporter.close()


@pytest.mark.system
def test_at_the_deadline_of_close_what_is_left_goes_to_the_delayed_queue(cluster, gives_up_early):
    with DelayedQueue.open("memory:", "messages") as delayed:
        exporter = exporter_to(cluster, retry_for=600.0, delayed=delayed, value=str)
        exporter([0])
        cluster.down()
        exporter.produce_many(range(1, 100))
        exporter.close(10.0)
        stats = exporter.stats()
        assert stats.dead_lettered + stats.lost == 99 and stats.dead_lettered > 0
        assert_books(exporter, 100, sent=1, dead_lettered=stats.dead_lettered, lost=stats.lost)


@pytest.mark.system
def test_librdkafka_speaks_through_the_logger(cluster, capfd, caplog):
    with caplog.at_level(logging.DEBUG, "drainq.kafka"):
        exporter = exporter_to(cluster, retry_for=1.0)
        cluster.down()
        with pytest.raises(Exception, match="_MSG_TIMED_OUT"):
            exporter([b"1"])
        exporter.on_idle()
    assert capfd.readouterr().err == ""
    assert "drainq.kafka" in {record.name for record in caplog.records}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"config": None}, TypeError, "config must be a mapping of librdkafka's settings, got a NoneType"),
        ({"config": {"nope": 1}}, ValueError, 'No such configuration property: "nope"'),
        ({"topic": ""}, ValueError, "topic must be a str that is not empty, got ''"),
        ({"topic": 1}, ValueError, "topic must be a str"),
        ({"key": "k"}, TypeError, "key must be a callable"),
        ({"value": lambda: 1}, TypeError, "value is called with 1 positional argument"),
        ({"retry_for": "1"}, TypeError, "retry_for must be a number of seconds, or a datetime.timedelta, got '1'"),
        ({"delayed": 1}, TypeError, "delayed must be"),
    ],
)
def test_an_argument_that_is_not_understood_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        KafkaExporter(**{"config": {"bootstrap.servers": "127.0.0.1:1"}, "topic": "t", **arguments})
