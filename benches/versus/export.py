"""The exporters compared with the tools that they replace: OpenTelemetry's own exporter, and confluent-kafka by hand.

Run it:  python -m benches.versus.export [--quick] [--only WORD] [--rounds N] [--out DIR]

The collector is a process of its own that answers each request without reading it, so that the figure is the
exporter's. The Kafka cluster is librdkafka's mock in this process: both contestants share it.

What it needs: ``pip install --group bench`` and the test group.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from benches import protocol
from benches.protocol import Faster, Report, measure
from tests.export.kafka_mock import mock_cluster

from drainq.export import KafkaExporter, MetricPoint, OtlpMetricsExporter, RemoteClient, RemoteServer

SERIES = 1_500  # sets of attributes: the SDK's exporter gets a point for each at a time
COLLECTOR = """
import sys
from concurrent import futures
import grpc

class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")

server = grpc.server(futures.ThreadPoolExecutor(2))
server.add_generic_rpc_handlers([Handler()])
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
sys.stdin.read()
"""


@contextmanager
def collector() -> Iterator[str]:
    """Start a collector's endpoint that answers at once."""
    command = [sys.executable, "-c", COLLECTOR]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.kill()


def attributes(series: int) -> dict[str, Any]:
    """Return the attributes of a series, like those of a web server's metrics."""
    return {"page": f"/product/{series}", "method": "GET", "status": 200}


def otlp(report: Report, options: argparse.Namespace) -> None:
    """Points to a collector: ready ones, and ones that are recorded on the way."""
    times = 4 if options.quick else 20
    count = SERIES * times
    goals = [Faster("drainq", "OpenTelemetry SDK", 3.0)]
    with collector() as endpoint:
        ours = OtlpMetricsExporter(endpoint=endpoint, insecure=True)
        theirs, recorded, provider, counter = sdk(endpoint)
        ready = [MetricPoint("hits", series, attributes(series)) for series in range(SERIES)] * times

        def send_ready() -> None:
            ours.produce_many(ready)
            assert ours.flush(60)

        def send_ready_by_sdk() -> None:
            for _ in range(times):
                assert theirs.export(recorded).name == "SUCCESS"

        def record() -> None:
            for _ in range(times):
                for series in range(SERIES):
                    ours.produce(MetricPoint("hits", series, attributes(series)))
            assert ours.flush(60)

        def record_by_sdk() -> None:
            for _ in range(times):
                for series in range(SERIES):
                    counter.add(series, attributes(series))
                assert provider.force_flush()

        for name, mine, other in (
            ("points that are there", send_ready, send_ready_by_sdk),
            ("points that are recorded on the way", record, record_by_sdk),
        ):
            contestants = {
                "drainq": partial(cost, mine, count),
                "OpenTelemetry SDK": partial(cost, other, count),
            }
            report.add(
                measure(f"OTLP: {name}", "s/item", contestants, rounds=protocol.rounds(options, 11), goals=goals)
            )
        ours.close()
        provider.shutdown()


def sdk(endpoint: str) -> tuple[Any, Any, Any, Any]:
    """Make the SDK's exporter, a collection with one point for each series, and a provider with a counter."""
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader, PeriodicExportingMetricReader

    reader = InMemoryMetricReader()
    counter = MeterProvider([reader]).get_meter("bench").create_counter("hits")
    for series in range(SERIES):
        counter.add(series, attributes(series))
    exporting = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint, insecure=True), 1e9)
    provider = MeterProvider([exporting])
    own = OTLPMetricExporter(endpoint, insecure=True)
    return own, reader.get_metrics_data(), provider, provider.get_meter("bench").create_counter("hits")


def kafka(report: Report, options: argparse.Namespace) -> None:
    """Messages to a topic: each with a key, each acknowledged."""
    count = 10_000 if options.quick else 50_000
    values = [b"%06d" % number * 16 for number in range(count)]
    keys = [b"k%d" % (number % 100) for number in range(count)]
    pairs = list(zip(keys, values))
    with mock_cluster() as cluster:
        config = {"bootstrap.servers": cluster.address, "enable.idempotence": True, "log_level": 0}
        exporter = KafkaExporter(config=config, topic="drainq", key=lambda pair: pair[0], value=lambda pair: pair[1])

        def ours() -> None:
            exporter.produce_many(pairs)
            assert exporter.flush(120)

        works = {"drainq": ours}
        for name, identity in (("by hand", False), ("by hand, with an identity", True)):
            topic = name.replace(" ", "-").replace(",", "")
            works[f"confluent-kafka {name}"] = by_hand(config, topic, pairs, identity=identity)
        note = "drainq gives each message an identity in a header, and keeps it until its outcome is known."
        for figure, of, goals in (
            ("Kafka: messages with a key", cost, [Faster("drainq", "confluent-kafka by hand", 0.8)]),
            ("Kafka: what all threads of the process cost, the cluster's too", processor_cost, []),
        ):
            contestants = {name: partial(of, work, count) for name, work in works.items()}
            rounds = protocol.rounds(options, 11)
            report.add(measure(figure, "s/item", contestants, rounds=rounds, goals=goals, note=note))
        exporter.close()


def by_hand(config: dict[str, Any], topic: str, pairs: list[tuple[bytes, bytes]], *, identity: bool) -> Any:
    """Do the work of an exporter by hand: produce, serve reports, wait while the local queue is full."""
    from confluent_kafka import Producer

    producer = Producer(dict(config))
    delivered: list[object] = []

    def report(error: Any, message: Any) -> None:
        delivered.append(error)

    def work() -> None:
        delivered.clear()
        for number, (key, value) in enumerate(pairs):
            headers = [("id", f"0123456789abcdef-{number}")] if identity else None
            while True:
                try:
                    producer.produce(topic, value, key, headers=headers, on_delivery=report)
                    break
                except BufferError:
                    producer.poll(0.05)
            producer.poll(0)
        producer.flush(120)
        assert delivered == [None] * len(pairs)

    return work


def remote(report: Report, options: argparse.Namespace) -> None:
    """Measure the cost of a stream of items to a server in this process, without a rival."""
    count = 20_000 if options.quick else 100_000
    items = [{"page": f"/product/{number % 100}", "hits": number} for number in range(count)]
    seen: list[int] = []
    with RemoteServer(address="127.0.0.1:0", handler=lambda batch: seen.append(len(batch))) as server:
        with RemoteClient(address=server.address) as client:

            def send() -> None:
                client.produce_many(items)
                assert client.flush(60)

            contestants = {"drainq": partial(cost, send, count)}
            report.add(
                measure("remote: dicts, acknowledged", "s/item", contestants, rounds=protocol.rounds(options, 7))
            )


def cost(work: Any, count: int) -> float:
    """Measure the seconds for an item."""
    return protocol.seconds(work) / count


def processor_cost(work: Any, count: int) -> float:
    """Measure the processor seconds for an item of all threads of this process."""
    started = time.process_time()
    work()
    return (time.process_time() - started) / count


if __name__ == "__main__":
    sys.exit(protocol.run("export", otlp, kafka, remote))
