"""A forked exporter starts empty and works with connections of its own; the parent keeps its items."""

from __future__ import annotations

import pytest

from drainq.export import RemoteServer
from tests.forked import needs_fork, output_of

pytest.importorskip("grpc")
pytest.importorskip("confluent_kafka")
pytestmark = needs_fork

PROGRAM = """
from drainq.export import KafkaExporter, MetricPoint, OtlpMetricsExporter, RemoteClient

exporter, items = {make}, {items}
assert exporter.produce(items[0]) and exporter.flush(30)

def child():
    stats = exporter.stats()
    assert (stats.accepted, stats.sent, stats.pending) == (0, 0, 0), stats
    assert exporter.produce(items[1]) and exporter.flush(30), exporter.stats()
    assert exporter.close(10) and exporter.stats().sent == 1

fork(child)
assert exporter.produce(items[2]) and exporter.flush(30)
assert exporter.stats().sent == 2 and exporter.close(10)
"""


def run(make: str, items: str) -> None:
    output_of(PROGRAM.format(make=make, items=items), silent=False)  # gRPC tells of forks


def test_points_of_parent_and_child_arrive_once():
    from .otlp_server import OtlpServer

    with OtlpServer() as server:
        run(
            f'OtlpMetricsExporter(endpoint="{server.endpoint}", insecure=True, retry_for=20.0)',
            '[MetricPoint("m", n) for n in range(3)]',
        )
        assert sorted(server.values()) == [0, 1, 2]


def test_messages_of_parent_and_child_arrive_once():
    from .kafka_mock import mock_cluster

    with mock_cluster() as cluster:
        run(f'KafkaExporter(config={{"bootstrap.servers": "{cluster.address}"}}, topic="t")', '[b"0", b"1", b"2"]')
        assert sorted(message.value() for message in cluster.messages("t", 3)) == [b"0", b"1", b"2"]


def test_items_of_parent_and_child_arrive_once():
    got = []
    with RemoteServer(address="127.0.0.1:0", handler=got.extend) as server:
        run(f'RemoteClient(address="{server.address}", retry_for=20.0)', "[0, 1, 2]")
        assert sorted(got) == [0, 1, 2]
