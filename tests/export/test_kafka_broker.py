"""The Kafka exporter against a real broker that crashes, freezes and comes back; run by ``make test-all``.

``DRAINQ_TEST_KAFKA=host:port`` names another broker for the tests that break nothing.
"""

from __future__ import annotations

import os
import threading
import uuid

import pytest

pytest.importorskip("confluent_kafka")

from drainq.delayed import DelayedQueue
from drainq.export import KafkaExporter
from drainq.export.kafka import HEADER
from drainq.testing import ManualClock

from .books import assert_books
from .kafka_broker import Broker
from .kafka_mock import consumed

pytestmark = [
    pytest.mark.usefixtures("own_limit"),
    pytest.mark.system,  # a real broker is fetched and started
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    broker = Broker(tmp_path_factory.mktemp("kafka"))
    yield broker
    broker.close()


@pytest.fixture
def topic():
    return f"t-{uuid.uuid4().hex[:8]}"


def exporter_to(address, topic, *, settings=(), **more):
    quick = {"retry.backoff.ms": 50, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200, "linger.ms": 2}
    config = {"bootstrap.servers": address, **quick, **dict(settings)}
    return KafkaExporter(**{"config": config, "topic": topic, "value": str, **more})


def numbers(messages):
    return sorted(int(message.value()) for message in messages)


@pytest.fixture
def any_broker(request):
    named = os.environ.get("DRAINQ_TEST_KAFKA")
    return named or request.getfixturevalue("broker").address


def test_every_item_is_in_the_topic_once(any_broker, topic):
    with exporter_to(any_broker, topic, key=lambda n: str(n % 10)) as exporter:
        exporter.produce_many(range(20_000))
        assert exporter.flush(120)
        assert_books(exporter, 20_000, sent=20_000)
    messages = consumed(any_broker, topic, 20_000)
    assert numbers(messages) == list(range(20_000))
    for key in {message.key() for message in messages}:
        own = [int(message.value()) for message in messages if message.key() == key]
        assert own == sorted(own)


def test_a_broker_that_is_killed_and_started_again_loses_and_doubles_nothing(broker, topic):
    exporter = exporter_to(broker.address, topic, retry_for=300.0)
    exporter([0])
    producing = threading.Thread(target=exporter.produce_many, args=(range(1, 20_000),))
    producing.start()
    broker.kill()
    broker.start()
    producing.join(300)
    assert exporter.flush(300)
    assert_books(exporter, 20_000, sent=20_000)
    assert exporter.close()
    assert numbers(consumed(broker.address, topic, 20_000)) == list(range(20_000))


def test_what_a_frozen_broker_did_not_answer_for_is_unknown_and_comes_again_with_the_same_identity(broker, topic):
    clock = ManualClock()
    with DelayedQueue.open("memory:", "messages", clock=clock) as delayed:
        short = {"request.timeout.ms": 1000, "socket.timeout.ms": 1000}
        exporter = exporter_to(broker.address, topic, retry_for=3.0, delayed=delayed, clock=clock, settings=short)
        exporter([0])
        broker.freeze()
        try:
            exporter(list(range(1, 500)))
        finally:
            broker.thaw()
        assert_books(exporter, 500, sent=1, dead_lettered=499)
        assert exporter.stats().unknown == 499
        exporter.close()
        broker.wait_until_ready()
        clock.advance(3_600.0)
        later = exporter_to(broker.address, topic, delayed=delayed, clock=clock, retry_for=120.0)
        assert later.flush(120)
        assert later.stats().resent == 499
        assert later.close()
    messages = consumed(broker.address, topic, 500)
    by_identity = {dict(message.headers())[HEADER]: int(message.value()) for message in messages}
    assert sorted(by_identity.values()) == list(range(500))  # a consumer that skips known identities sees each once


def test_a_message_that_the_topic_takes_not_is_refused_and_the_others_are_there(broker, topic):
    broker.create(topic, max_message_bytes="100000")
    settings = {"message.max.bytes": 2_000_000, "batch.num.messages": 1, "compression.type": "none"}
    exporter = exporter_to(broker.address, topic, value=lambda item: item, settings=settings)
    exporter([b"0", b"x" * 200_000, b"2"])
    assert_books(exporter, 3, sent=2, refused=1)
    assert sorted(message.value() for message in consumed(broker.address, topic, 2)) == [b"0", b"2"]


def test_a_broker_that_is_gone_costs_its_time_and_no_item(broker, topic):
    exporter = exporter_to(broker.address, topic, retry_for=2.0)
    exporter([0])
    broker.kill()
    try:
        with pytest.raises(Exception, match="_MSG_TIMED_OUT"):
            exporter([1, 2])
    finally:
        broker.start()
    assert_books(exporter, 3, sent=1, lost=2)
    exporter([3])
    assert_books(exporter, 4, sent=2, lost=2)
