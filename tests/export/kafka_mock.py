"""A Kafka cluster inside the test's process: librdkafka's mock, driven by ctypes on the library in the wheel.

Any client joins it by its address. It injects errors, delays and dead brokers; it keeps nothing over a restart, and its
interface is marked experimental by its makers. Where the wheel has no such library the tests are skipped.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PRODUCE = 0  # Kafka's number of the Produce request
NOT_LEADER, REQUEST_TIMED_OUT, TOO_LARGE, NOT_ENOUGH_REPLICAS = 6, 7, 10, 19
TOPIC_AUTHORIZATION_FAILED, OUT_OF_ORDER, INVALID_RECORD = 29, 45, 87


def library() -> ctypes.CDLL:
    """librdkafka as the installed wheel carries it."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    packages = Path(confluent_kafka.__file__).parent.parent
    found = sorted(packages.glob("confluent_kafka.libs/librdkafka*.so*"))
    if not found:
        pytest.skip("this wheel of confluent-kafka has no librdkafka of its own")
    loaded = ctypes.CDLL(str(found[0]))
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, arguments in (
        ("rd_kafka_new", pointer, [ctypes.c_int, pointer, text, ctypes.c_size_t]),
        ("rd_kafka_conf_new", pointer, []),
        ("rd_kafka_conf_set", ctypes.c_int, [pointer, text, text, text, ctypes.c_size_t]),
        ("rd_kafka_destroy", None, [pointer]),
        ("rd_kafka_mock_cluster_new", pointer, [pointer, ctypes.c_int]),
        ("rd_kafka_mock_cluster_destroy", None, [pointer]),
        ("rd_kafka_mock_cluster_bootstraps", text, [pointer]),
        ("rd_kafka_mock_broker_set_down", ctypes.c_int, [pointer, ctypes.c_int32]),
        ("rd_kafka_mock_broker_set_up", ctypes.c_int, [pointer, ctypes.c_int32]),
        ("rd_kafka_mock_broker_set_rtt", ctypes.c_int, [pointer, ctypes.c_int32, ctypes.c_int]),
        ("rd_kafka_mock_topic_create", ctypes.c_int, [pointer, text, ctypes.c_int, ctypes.c_int]),
        (
            "rd_kafka_mock_push_request_errors_array",
            None,
            [pointer, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int)],
        ),
    ):
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


class MockCluster:
    """One broker on a port of its own; topics come into being when they are first used."""

    def __init__(self) -> None:
        self._library = library()
        text = ctypes.create_string_buffer(512)
        conf = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set(conf, b"log_level", b"0", text, 512)
        self._client = self._library.rd_kafka_new(0, conf, text, 512)
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, 1)
        self.address = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def close(self) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)

    def fail(self, *codes: int) -> None:
        """Have the next requests that carry messages answered with these errors, one each."""
        array = (ctypes.c_int * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, PRODUCE, len(codes), array)

    def down(self) -> None:
        """Drop connections, and accept no new ones."""
        self._library.rd_kafka_mock_broker_set_down(self._cluster, 1)

    def up(self) -> None:
        self._library.rd_kafka_mock_broker_set_up(self._cluster, 1)

    def round_trip(self, milliseconds: int) -> None:
        """Answer each request so much later."""
        self._library.rd_kafka_mock_broker_set_rtt(self._cluster, 1, milliseconds)

    def messages(self, topic: str, count: int) -> list[Any]:
        """Return what the topic holds; waits until it is that many."""
        return consumed(self.address, topic, count)


def consumed(address: str, topic: str, count: int, patience: float = 60.0) -> list[Any]:
    """Return all messages of a topic, read without a group from every partition until ``count`` are there."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "test", "enable.auto.commit": False, "log_level": 0})
    with contextlib.closing(consumer):
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found: list[Any] = []
        until = time.monotonic() + patience
        while len(found) < count and time.monotonic() < until:
            found += [message for message in consumer.consume(10_000, 0.2) if message.error() is None]
        found += [message for message in consumer.consume(10_000, 0.2) if message.error() is None]  # one too many?
    return found


@contextlib.contextmanager
def mock_cluster() -> Iterator[MockCluster]:
    cluster = MockCluster()
    try:
        yield cluster
    finally:
        cluster.close()
