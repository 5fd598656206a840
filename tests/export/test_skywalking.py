"""The SkyWalking exporter against a server of its service: wanted points arrive, and every point is accounted for."""

from __future__ import annotations

import threading
from concurrent import futures

import pytest

pytest.importorskip("grpc")
pytest.importorskip("google.protobuf")

import grpc

from drainq.delivery import Unavailable
from drainq.export import Histogram, MetricPoint, SkyWalkingMetricsExporter
from drainq.export.skywalking_messages import INCREMENT, TOTAL, messages
from drainq.testing import ManualClock

from .books import assert_books

PROTOCOL = messages()


class Server(grpc.GenericRpcHandler):
    """Answers with a list of wanted metrics, and keeps the streams that it took; ``fail`` holds codes to answer with."""

    def __init__(self, wanted=(), port=0):
        self.wanted, self.streams, self.asked, self.fail = list(wanted), [], 0, []  # wanted=None: the question fails
        self.gate = threading.Event()
        self.gate.set()
        self._server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers([self])
        self.endpoint = f"localhost:{self._server.add_insecure_port(f'127.0.0.1:{port}')}"
        self._server.start()

    def service(self, details):
        if details.method == "/MetricExportService/export":
            return grpc.stream_unary_rpc_method_handler(self._export)
        assert details.method == "/MetricExportService/subscription"
        return grpc.unary_unary_rpc_method_handler(self._subscription)

    def _subscription(self, request, context):
        PROTOCOL.SubscriptionReq.FromString(request)
        self.asked += 1
        if self.wanted is None:
            context.abort(grpc.StatusCode.UNAVAILABLE, "scripted")
        answer = PROTOCOL.SubscriptionsResp()
        for name, event in self.wanted:
            answer.metrics.add(metricName=name, eventType=event)
        return answer.SerializeToString()

    def _export(self, requests, context):
        self.gate.wait(60)
        values = [PROTOCOL.ExportMetricValue.FromString(request) for request in requests]
        if self.fail:
            context.abort(self.fail.pop(0), "scripted")
        self.streams.append(values)
        return PROTOCOL.ExportResponse().SerializeToString()

    def values(self):
        return [(value.metricName, value.longValue) for stream in self.streams for value in stream]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.stop(0).wait()


def exporter_to(server, **more):
    return SkyWalkingMetricsExporter(**{"endpoint": server.endpoint, "insecure": True, "retry_for": 30.0, **more})


def point(name, value, **more):
    return MetricPoint(name, value, {"entity": "shop"}, **more)


def test_a_point_arrives_with_entity_time_bucket_and_value():
    with Server() as server, exporter_to(server, time_zone="Europe/Bucharest") as exporter:
        exporter(
            [point("service_cpm", 7, time=1_700_000_000.0), MetricPoint("m", 2.0, {"entity": "e", "entity_id": "x"})]
        )
        [first, second] = server.streams[0]
        assert (first.metricName, first.entityName, first.entityId) == ("service_cpm", "shop", "c2hvcA==.1")
        assert (first.timeBucket, first.type, first.longValue) == (202311150013, 0, 7)
        assert (second.entityId, second.longValue) == ("x", 2)
        assert_books(exporter, 2, sent=2)


@pytest.mark.parametrize(("bucket", "expected"), [("minute", 202311142213), ("hour", 2023111422), ("day", 20231114)])
def test_the_time_bucket_is_as_wide_as_asked(bucket, expected):
    with Server() as server, exporter_to(server, bucket=bucket) as exporter:
        exporter([point("m", 1, time=1_700_000_000.0)])
        assert server.streams[0][0].timeBucket == expected


def test_an_empty_list_is_every_increment():
    with Server() as server:
        exporter = exporter_to(server)
        exporter([point("a", 1), point("b", 2, kind="gauge"), point("c", 3, cumulative=True), point("d", 4)])
        assert server.values() == [("a", 1), ("d", 4)]
        assert_books(exporter, 4, sent=2, refused=2)


def test_only_what_the_server_wants_is_sent_and_it_is_asked_again():
    clock = ManualClock()
    with Server([("a", INCREMENT), ("b", TOTAL)]) as server:
        exporter = exporter_to(server, clock=clock)
        everything = [point("a", 1), point("a", 2, kind="gauge"), point("b", 3), point("b", 4, kind="gauge")]
        exporter(list(everything))
        assert server.values() == [("a", 1), ("b", 4)]
        server.wanted = [("b", INCREMENT)]
        exporter(list(everything))
        assert server.asked == 1
        clock.advance(31.0)
        exporter(list(everything))
        assert server.asked == 2 and server.values()[4:] == [("b", 3)]
        server.wanted = None
        clock.advance(31.0)
        for _ in range(2):  # the last list is used, and the server is left alone until the next time
            exporter(list(everything))
        assert server.asked == 3 and server.values()[5:] == [("b", 3)] * 2
        assert_books(exporter, 20, sent=7, refused=13)


@pytest.mark.parametrize(
    "odd",
    [
        MetricPoint("m", 1),
        MetricPoint("m", 1, {"entity": ""}),
        MetricPoint("m", 1.5, {"entity": "e"}),
        MetricPoint("m", 1e30, {"entity": "e"}),
        MetricPoint("m", 1, {"entity": "e", "page": "/"}),
        MetricPoint("m", Histogram([], [1], sum=1.0), {"entity": "e"}, "histogram"),
        "no point",
    ],
)
def test_what_the_service_cannot_express_is_refused_alone(odd):
    with Server() as server:
        exporter = exporter_to(server)
        exporter([point("m", 1), odd, point("m", 2)])
        assert server.values() == [("m", 1), ("m", 2)]
        assert_books(exporter, 3, sent=2, refused=1)


def test_a_server_that_did_not_answer_the_first_question_is_asked_again_by_the_next_try():
    with Server() as server, exporter_to(server, clock=ManualClock()) as exporter:
        sink, gauge, server.wanted = exporter._delivery.sink, point("a", 2, kind="gauge"), None
        with pytest.raises(Unavailable):
            sink.send([gauge])
        server.wanted = [("a", TOTAL)]
        assert not sink.send([gauge]) and server.values() == [("a", 2)] and server.asked == 2


def test_a_stream_that_fails_is_sent_again_as_a_whole():
    with Server() as server, exporter_to(server) as exporter:
        server.fail = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAVAILABLE]
        exporter([point("m", n) for n in range(1_000)])
        assert server.values() == [("m", n) for n in range(1_000)]
        assert_books(exporter, 1_000, sent=1_000)


def test_another_versions_messages_are_filled_by_their_field_names():
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="newer.proto", syntax="proto3", package="newer")
    label = file.message_type.add(name="KeyValue")
    label.field.add(name="key", number=1, type=9, label=1)
    label.field.add(name="value", number=2, type=9, label=1)
    value = file.message_type.add(name="MetricValue")
    value.field.add(name="labels", number=1, type=11, type_name=".newer.KeyValue", label=3)
    value.field.add(name="longValue", number=2, type=3, label=1)
    export = file.message_type.add(name="ExportMetricValue")
    for number, name in enumerate(("metricName", "entityName", "entityId"), start=1):
        export.field.add(name=name, number=number, type=9, label=1)
    export.field.add(name="metricValues", number=4, type=11, type_name=".newer.MetricValue", label=3)
    export.field.add(name="timeBucket", number=5, type=3, label=1)
    export.field.add(name="eventType", number=6, type=5, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)

    class Newer:
        ExportMetricValue = message_factory.GetMessageClass(pool.FindMessageTypeByName("newer.ExportMetricValue"))
        SubscriptionsResp, ExportResponse = PROTOCOL.SubscriptionsResp, PROTOCOL.ExportResponse

    with Server([("m", TOTAL)]) as server, exporter_to(server, protocol=Newer) as exporter:
        decoded = []
        server._export = lambda requests, context: decoded.extend(requests) or b""
        exporter([MetricPoint("m", 5, {"entity": "e", "page": "/", "code": 200, "entity_id": "i"}, "gauge")])
        message = Newer.ExportMetricValue.FromString(decoded[0])
        assert (message.metricName, message.eventType, message.metricValues[0].longValue) == ("m", TOTAL, 5)
        assert [(label.key, label.value) for label in message.metricValues[0].labels] == [
            ("page", "/"),
            ("code", "200"),
        ]
        assert (message.entityName, message.entityId) == ("e", "i")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"endpoint": "x"}, ValueError, "endpoint must be 'host:port'"),
        ({"bucket": "second"}, ValueError, "bucket must be one of 'minute', 'hour', 'day', got 'second'"),
        ({"time_zone": "../UTC"}, ValueError, "time_zone must be an IANA name.*got '../UTC'"),
        ({"time_zone": 5}, ValueError, "time_zone must be an IANA name.*got 5"),
        ({"time_zone": "Nowhere"}, ValueError, "time_zone must be an IANA name.*got 'Nowhere'"),
        ({"ask_every": 0}, ValueError, "ask_every must be more than 0 seconds and finite, got 0"),
        ({"protocol": 1}, TypeError, "protocol must be a module generated from metric-exporter.proto, got 1"),
    ],
)
def test_an_argument_that_is_not_understood_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        SkyWalkingMetricsExporter(**{"endpoint": "localhost:1", "insecure": True, **arguments})
