"""What an exporter is told reaches its connection, its sink and its worker, and gRPC and librdkafka what is meant."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("grpc")
pytest.importorskip("google.rpc")

import grpc
import msgspec
from google.rpc import error_details_pb2, status_pb2

from drainq import DrainqWarning
from drainq.delivery import DeliveryStopped, Refused, SendingWorker, Unavailable
from drainq.export import (
    KafkaExporter,
    MetricPoint,
    OtlpMetricsExporter,
    RemoteClient,
    RemoteServer,
    SkyWalkingMetricsExporter,
    grpc_channel,
    kafka,
    otlp,
    skywalking,
)
from drainq.export.grpc_channel import Connection
from drainq.export.metric_point import pack_point, unpack_point
from drainq.export.optional_packages import extra
from drainq.export.remote import client, server
from drainq.export.remote.client import Kept
from drainq.export.remote.peer import Peer
from drainq.export.skywalking_messages import EXPORT, SUBSCRIPTION, messages
from drainq.testing import ManualClock

PEM = b"-----BEGIN CERTIFICATE-----"
TLS = {"certificate": PEM + b"a", "client_certificate": PEM + b"c", "client_key": PEM + b"k"}


class Made:
    """Stands for a class, or a module, and notes the calls: name, positional and named arguments."""

    def __init__(self, noted, name="", **attributes):
        self._noted, self._name = noted, name
        self.__dict__.update(attributes)

    def __call__(self, *of, **named):
        self._noted.append((self._name, of, named))
        return self

    def __getattr__(self, name):
        return Made(self._noted, f"{self._name}.{name}".strip("."))


@pytest.fixture
def noted(monkeypatch):
    """Has connections, sinks of Kafka and workers note what they were made with."""
    noted = []
    for module in (otlp, skywalking, client):
        monkeypatch.setattr(module, "Connection", Made(noted, "connection", target="there"))
    monkeypatch.setattr(kafka, "KafkaSink", Made(noted, "sink"))
    monkeypatch.setattr(
        SendingWorker, "__init__", lambda self, sink, **named: noted.append(("worker", (sink,), named)) or None
    )
    return noted


def connected(noted):
    """Return the one connection that was noted: its endpoint and its options."""
    [(endpoint, options)] = [(of[0], named) for name, of, named in noted if name == "connection"]
    return {"endpoint": endpoint, **options}


def sink_and_worker(noted):
    """Return the worker's sink and its options."""
    [(sink, options)] = [(of[0], named) for name, of, named in noted if name == "worker"]
    noted.clear()
    return sink, options


def over_and_anew(sink):
    """Cancel and close a sink, and have a forked child renew it; return the calls of its connection."""
    sink._connection._noted.clear()
    before = sink._calls
    sink.cancel()
    sink.close()
    sink.forget()
    assert before._over and not sink._calls._over
    return sink._connection._noted[:]


def test_an_exporter_hands_on_what_it_was_given(noted):
    own = {"endpoint": "there:1", "insecure": False, "headers": {"a": "b"}, "certificate": TLS["certificate"]}
    settings = {"retry_for": 4, "log_values": True, "clock": ManualClock()}
    points = {"pack_item": pack_point, "unpack_item": unpack_point}

    OtlpMetricsExporter(**TLS | own, timeout=3, resource={"service.name": "s"}, **settings)
    assert connected(noted) == {"needs": "otlp", **TLS, **own}
    sink, options = sink_and_worker(noted)
    assert options == {"default_name": "otlp-metrics/there", **points, **settings}
    assert (sink._timeout, sink._limit, sink._log_values) == (3.0, 4 * 1024 * 1024, True)
    assert over_and_anew(sink) == [("connection.close", (), {})]
    assert sink._encoder._resource == {"service.name": "s"} and sink._encoder._scope == ("drainq", "")

    noted.clear()
    SkyWalkingMetricsExporter(**own, timeout=3, bucket="day", time_zone="Europe/Bucharest", ask_every=5, **settings)
    assert connected(noted) == {"needs": "grpc", **own}
    sink, options = sink_and_worker(noted)
    assert options == {"default_name": "skywalking-metrics/there", **points, **settings}
    assert (sink._timeout, sink._ask_every, sink._clock, sink._log_values) == (3.0, 5.0, settings["clock"], True)
    sink._wanted, sink._asked_at = frozenset({("m", 0)}), 1.0
    assert over_and_anew(sink) == [("connection.close", (), {})]
    assert (sink._wanted, sink._asked_at) == (frozenset(), None)
    assert (sink._format, sink._zone) == ("%Y%m%d", ZoneInfo("Europe/Bucharest"))

    noted.clear()
    KafkaExporter(config={"a": 1}, topic="t", **settings)
    assert noted[0] == ("sink", ({"a": 1}, "t"), {"patience": 4.0})
    _, options = sink_and_worker(noted)
    assert options == {"default_name": "kafka/t", "pack_item": kafka._packed, **settings}

    far = RemoteClient(address=["a:1", "b:1"], key=len, window=2, timeout=3, batch_size=4, insecure=True, **settings)
    far.set_addresses("c:1")
    assert far.addresses == ("c:1",) and noted.pop()[1] == ("c:1",)
    noted[:], connections = noted[-1:], noted[:-1]
    sink, options = sink_and_worker(noted)
    pack, unpack = options.pop("pack_item"), options.pop("unpack_item")
    assert options == {"default_name": "remote/a:1,b:1", **settings}
    assert [(of, named["insecure"]) for _, of, named in connections] == [(("a:1",), True), (("b:1",), True)]
    assert (sink._window, sink._timeout, sink._batch_items, sink._router._rule) == (2, 3.0, 4, "hash")
    assert client._packed_item("abc", lambda item: UUID(int=7))["key"] == str(UUID(int=7))  # a queue can keep it
    kept = Kept(msgspec.Raw(msgspec.msgpack.encode("abc")), 3)
    assert (
        unpack(pack("abc")) == unpack(pack(kept)) == kept and sink._router._key(kept) == sink._router._key("abc") == 3
    )


@pytest.mark.parametrize(
    ("address", "more", "insecure"),
    [
        ("localhost:1", {}, True), ("localhost:1", TLS, False), ("https://localhost:1", {}, False),
        ("far:1", {}, False), ("far:1", {"insecure": True}, True), ("http://localhost:1", {}, True),
    ],
)  # fmt: skip
def test_a_client_sends_without_tls_on_its_machine_or_if_that_is_said(noted, address, more, insecure):
    RemoteClient(address=address, headers={"a": "b"}, **more)
    tls = {name: more.get(name) for name in TLS}
    assert connected(noted) == {
        "endpoint": address, "needs": "grpc", "parameter": "address", "insecure": insecure, "headers": {"a": "b"}, **tls
    }  # fmt: skip
    assert sink_and_worker(noted)[0]._router._rule == "rolling"


class Failed(grpc.RpcError):
    """An error of a call."""

    def __init__(self, name, details="", metadata=()):
        self.code, self.details = lambda: SimpleNamespace(name=name), lambda: details
        self.trailing_metadata = lambda: metadata


def asking(sink, *answers):
    """Have calls of a sink answered by these, one after the other; return the list of the calls."""

    def result(method, request, timeout):
        asked.append((method, request if isinstance(request, bytes) else list(request), timeout))
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    asked, left = [], list(answers)
    sink._calls = SimpleNamespace(result=result)
    return asked


PATHS = SimpleNamespace(target="there", unary=lambda path, _: path, streaming=lambda path, _: path)


def test_an_answer_of_otlp_is_told_by_the_places_of_its_points():
    sink, point, odd = otlp.OtlpSink(PATHS, {}, timeout=3.0), MetricPoint("m", 1), "it is no MetricPoint but a object"
    partial = SimpleNamespace(partial_success=SimpleNamespace(rejected_data_points=5, error_message="secret"))
    asked = asking(sink, Failed("INVALID_ARGUMENT"), partial, Failed("RESOURCE_EXHAUSTED", "larger than max"))
    refusal = "there answered INVALID_ARGUMENT"
    assert sink.send([point, object(), point]) == [(1, odd), (0, refusal), (2, refusal)]
    assert sink.send([object()]) == [(0, odd)]
    assert sink.send([point, point]) == [(None, "there rejected 2 of 2 points")] * 2
    with pytest.raises(Refused, match="there answered RESOURCE_EXHAUSTED"):
        sink.send([point])
    assert [(method, timeout) for method, _, timeout in asked] == [(otlp.METHOD, 3.0)] * 3
    assert sink._limit == len(asked[-1][1]) - 1
    with pytest.raises(Refused, match=f"a request of {sink._limit + 1} bytes is more than the {sink._limit} that"):
        sink.send([point])
    sink._limit += 1
    asking(sink, Failed("UNAUTHENTICATED"))
    with pytest.raises(DeliveryStopped, match="there answered UNAUTHENTICATED"):
        sink.send([point])


def test_a_server_of_skywalking_is_asked_what_it_wants_when_the_answer_is_old(caplog):
    def of(name, value=1, **more):
        return MetricPoint(name, value, {"entity": "shop", **more}, time=0.0)

    clock = ManualClock(100.0)
    sink = skywalking.SkyWalkingSink(
        PATHS, messages(), timeout=3.0, bucket="minute", zone=ZoneInfo("UTC"), ask_every=30.0, clock=clock,
        log_values=False,
    )  # fmt: skip
    wanted = SimpleNamespace(metrics=[SimpleNamespace(metricName="m", eventType=0)])
    asked = asking(sink, wanted, None, Failed("UNAVAILABLE"), None, wanted, Failed("UNAVAILABLE", metadata=after(2.5)))
    points = [of("m", 2.0), object(), of("m", 1e30), of("other"), of("m", page="/"), MetricPoint("m", 1)]
    assert [place for place, _ in sink.send(points)] == [1, 2, 3, 4, 5]
    assert sink.send(points[1:2]) and [method for method, *_ in asked] == [SUBSCRIPTION, EXPORT]
    clock.advance(30)
    assert sink.send(points[:1]) == [] and "did not say which metrics it wants; the last list is used" in caplog.text
    clock.advance(-1)  # a clock may be set back
    with pytest.raises(Unavailable, match="there answered UNAVAILABLE") as error:
        sink.send(points[:1])
    assert error.value.after == 2.5
    assert [method for method, *_ in asked] == [SUBSCRIPTION, EXPORT] * 3 and {timeout for *_, timeout in asked} == {
        3.0
    }
    point = messages().ExportMetricValue.FromString(asked[-1][1][0])
    assert (point.metricName, point.entityName, point.entityId, point.timeBucket, point.longValue) == (
        "m", "shop", skywalking.service_id("shop"), 197001010000, 2
    )  # fmt: skip
    for code, kind in (("UNAVAILABLE", Unavailable), ("UNAUTHENTICATED", DeliveryStopped)):
        sink.forget()
        asking(sink, Failed(code))
        with pytest.raises(kind) as error:
            sink.send(points[:1])
        assert type(error.value) is kind


def after(seconds):
    """Return the metadata of an error by which a server asks for a pause."""
    info, answer = error_details_pb2.RetryInfo(), status_pb2.Status()
    info.retry_delay.FromMicroseconds(int(seconds * 1e6))
    answer.details.add().Pack(info)
    return [("grpc-status-details-bin", answer.SerializeToString())]


def test_a_missing_package_is_named_with_its_extra():
    with pytest.raises(ImportError, match=r"pip install 'drainq\[kafka\]' \(No module named 'no_such'\)") as error:
        extra("kafka", "no_such")
    assert isinstance(error.value.__cause__, ModuleNotFoundError)


def test_a_connection_makes_one_channel_and_each_call_has_its_headers_and_its_timeout(monkeypatch):
    noted = []
    grpc = Made(noted)
    monkeypatch.setattr(grpc_channel, "extra", lambda *of: noted.append(of) or [grpc])
    options = [
        ("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 2000),
        ("grpc.max_receive_message_length", 4 * 1024 * 1024),
    ]  # fmt: skip
    Connection("localhost:1", needs="otlp", insecure=True).channel()
    secure = Connection("far:1", needs="otlp", headers={"A": "b"}, **TLS)
    assert (repr(secure), secure.channel() is secure.channel()) == ("<Connection to far:1, with TLS>", True)
    assert noted[:-1] == [
        ("otlp", "grpc"), ("insecure_channel", ("localhost:1", options), {}),
        ("otlp", "grpc"), ("ssl_channel_credentials", (PEM + b"a", PEM + b"k", PEM + b"c"), {}),
    ]  # fmt: skip
    assert (noted[-1][0], noted[-1][1][0], noted[-1][1][2]) == ("secure_channel", "far:1", options)
    noted.clear()
    secure._channel = Made(noted)
    secure.unary("/m", int)(b"1", 5.0)
    secure.streaming("/m", int)(b"2", 6.0)
    secure.stream("/m")(b"3")
    headers, of = {"metadata": (("a", "b"),)}, {"request_serializer": None}
    assert noted == [
        ("unary_unary", ("/m",), of | {"response_deserializer": int}),
        ("unary_unary.future", (b"1",), headers | {"timeout": 5.0}),
        ("stream_unary", ("/m",), of | {"response_deserializer": int}),
        ("stream_unary.future", (b"2",), headers | {"timeout": 6.0}),
        ("stream_stream", ("/m",), of | {"response_deserializer": None}),
        ("stream_stream", (b"3",), headers),
    ]
    noted.clear()
    secure.close()
    secure.close()
    assert noted == [("close", (), {})] and secure._channel is None
    with pytest.warns(DrainqWarning, match="endpoint 'far:1' is not on this machine") as warned:
        Connection("far:1", needs="otlp", insecure=True)
    assert [warning.filename for warning in warned] == [__file__]


def test_a_server_listens_as_it_was_told(monkeypatch):
    noted = []
    grpc = Made(noted)
    own = SimpleNamespace(_grpc=grpc, _deliver=len)
    monkeypatch.setattr(server.futures, "ThreadPoolExecutor", lambda *of, **named: (of, named))
    _, address = RemoteServer._listen(own, "unix:/path", None, 7)
    assert address == "unix:/path" and [name for name, *_ in noted] == [
        "server", "stream_stream_rpc_method_handler", "method_handlers_generic_handler",
        "server.add_generic_rpc_handlers", "server.add_insecure_port", "server.start",
    ]  # fmt: skip
    assert noted[0][1:] == (
        (((7,), {"thread_name_prefix": "drainq-remote-server"}),),
        {
            "options": [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", 8 * 1024 * 1024)],
            "maximum_concurrent_rpcs": 7,
        },
    )
    noted.clear()
    of = lambda *args: RemoteServer._credentials(own, "far:1", *args)  # noqa: E731
    of(PEM + b"c", PEM + b"k", PEM + b"a", False)
    of(PEM + b"c", PEM + b"k", None, False)
    assert [of for _, of, _ in noted] == [
        ([(PEM + b"k", PEM + b"c")], PEM + b"a", True), ([(PEM + b"k", PEM + b"c")], None, False)
    ]  # fmt: skip
    assert RemoteServer._credentials(own, "localhost:1", None, None, None, False) is None
    for wrong, says in (
        ((PEM, None, None, False), "certificate and key go together"), ((None, PEM, None, False), "go together"),
        ((PEM, PEM, None, True), "insecure=True listens without TLS"), ((None, None, PEM, False), "client_authorities"),
        ((None, None, None, False), "can be reached by other machines"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            of(*wrong)
    with pytest.warns(DrainqWarning, match="takes items from each"):
        assert of(None, None, None, True) is None


def test_the_queue_in_front_of_a_handler_has_one_thread_and_room_for_a_batch_of_each_stream(monkeypatch):
    made = []
    monkeypatch.setattr(server, "BatchQueue", lambda name, config: made.append(config))
    monkeypatch.setattr(RemoteServer, "_listen", lambda self, *of: (None, "here"))
    for most, room in ((5, 1024), (2000, 2000)):
        listens = RemoteServer(address="localhost:0", handler=len, most_streams=most)
        config = made.pop()
        assert str(config.threads) == "ThreadPolicy.fixed(1)"
        assert (config.buffer_size, str(config.strategy)) == (room, "BufferStrategy.BLOCKING")
        assert config.consumer == listens._call_handler


def test_the_end_of_a_peer_breaks_its_stream_off_and_disconnects():
    noted = []
    told = Made(noted)
    peer = Peer(told.connection, window=1, timeout=1.0)
    peer._stream = told.stream
    peer.close()
    assert noted == [("stream.break_off", ("cancelled",), {}), ("connection.close", (), {})]
