"""The OTLP exporter against a scripted server: every point is accounted for."""

from __future__ import annotations

import gc
import logging
import threading

import pytest

pytest.importorskip("grpc")
pytest.importorskip("opentelemetry.proto")

from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
from drainq.delayed import DelayedQueue
from drainq.delivery import DeliveryStopped
from drainq.errors import DrainqWarning
from drainq.export import Histogram, MetricPoint, OtlpMetricsExporter
from drainq.sketch import DDSketch
from drainq.testing import ManualClock

from .books import assert_books
from .otlp_server import OtlpServer, fails, held, partial


@pytest.fixture
def server():
    with OtlpServer() as server:
        yield server


def exporter_to(server, **more):
    return OtlpMetricsExporter(**{"endpoint": server.endpoint, "insecure": True, "retry_for": 30.0, **more})


def points(count, **more):
    return [MetricPoint("m", n, **more) for n in range(count)]


def test_every_point_arrives_once(server):
    with exporter_to(server, resource={"service.name": "shop"}, headers={"Authorization": "Bearer t0ken"}) as exporter:
        assert exporter.produce_many(points(20_000)) == 20_000
        assert exporter.flush(60)
        assert server.values() == list(range(20_000))
        assert_books(exporter, 20_000, sent=20_000)
        assert server.metadata[0]["authorization"] == "Bearer t0ken"
        [attribute] = server.requests[0].resource_metrics[0].resource.attributes
        assert (attribute.key, attribute.value.string_value) == ("service.name", "shop")


@pytest.mark.parametrize(
    "answer",
    [
        fails("UNAVAILABLE"),
        fails("DEADLINE_EXCEEDED"),
        fails("ABORTED"),
        fails("CANCELLED"),
        fails("OUT_OF_RANGE"),
        fails("DATA_LOSS"),
        fails("RESOURCE_EXHAUSTED", retry_after=0.01),
        fails("UNAVAILABLE", retry_after=0.0),
    ],
)
def test_what_otlp_says_may_pass_is_sent_again(server, answer):
    exporter = exporter_to(server)
    server.script.extend([answer, answer])
    exporter(points(100))
    assert server.values() == list(range(100))
    assert len(server.calls) == 3
    assert_books(exporter, 100, sent=100)
    assert exporter.stats().retried == 200
    assert exporter.close()


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "INTERNAL", "UNKNOWN", "ALREADY_EXISTS"])
def test_what_otlp_says_must_not_be_sent_again_is_refused_at_once(server, code):
    exporter = exporter_to(server)
    server.script.append(fails(code))
    exporter(points(100))
    exporter(points(10))
    assert len(server.calls) == 2
    assert_books(exporter, 110, sent=10, refused=100)
    assert exporter.stats().retried == 0
    assert not exporter.close()


@pytest.mark.parametrize("code", ["UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED"])
def test_what_no_waiting_changes_stops_the_exporter_with_the_reason(server, code):
    exporter = exporter_to(server)
    server.script.append(fails(code))
    with pytest.raises(Exception, match=code):
        exporter(points(100))
    with pytest.raises(DeliveryStopped, match=code):
        exporter.produce(MetricPoint("m", 1))
    assert_books(exporter, 100, lost=100)
    exporter(points(10))  # it was put right
    assert exporter.produce(MetricPoint("m", 10))
    assert exporter.flush(60) is False  # of the lost ones
    assert_books(exporter, 111, sent=11, lost=100)
    assert not exporter.close()


def test_the_points_of_a_partial_success_are_refused(server, caplog):
    exporter = exporter_to(server, log_values=True)
    server.script.append(partial(3, "three are bad"))
    with caplog.at_level(logging.WARNING, "drainq"):
        exporter(points(100))
    assert len(server.calls) == 1
    assert_books(exporter, 100, sent=97, refused=3)
    assert "three are bad" in caplog.text and "MetricPoint" not in caplog.text  # it is not known which
    assert "took all points" not in caplog.text
    assert not exporter.close()


def test_a_partial_success_that_rejects_nothing_is_a_warning(server, caplog):
    exporter = exporter_to(server, log_values=True)
    server.script.append(partial(0, "the unit is odd"))
    with caplog.at_level(logging.WARNING, "drainq"):
        exporter(points(100))
    assert "the unit is odd" in caplog.text
    assert_books(exporter, 100, sent=100)


def test_a_batch_that_is_too_large_is_split_before_it_is_sent():
    with OtlpServer(most_bytes=64 * 1024 * 1024) as server:
        exporter = exporter_to(server)
        exporter([MetricPoint("m", n, {"text": "x" * 10_000}) for n in range(1_000)])
        assert server.values() == list(range(1_000))
        assert len(server.calls) == 4 and max(call.ByteSize() for call in server.calls) <= 4 * 1024 * 1024
        assert_books(exporter, 1_000, sent=1_000)


def test_a_server_that_takes_less_gets_smaller_requests():
    with OtlpServer(most_bytes=10_000) as server:
        exporter = exporter_to(server)
        exporter([MetricPoint("m", n, {"text": "x" * 100}) for n in range(1_000)])
        assert sorted(server.values()) == list(range(1_000)) and exporter._delivery.sink._limit < 200_000
        assert_books(exporter, 1_000, sent=1_000)


def test_a_peer_that_comes_back_gets_everything():
    with OtlpServer() as server:
        exporter = exporter_to(server)
        exporter(points(10))
    taking = threading.Thread(target=exporter, args=(points(100),))
    taking.start()
    with OtlpServer(port=server.port) as again:
        taking.join(60)
        assert again.values() == list(range(100))
        assert_books(exporter, 110, sent=110)
        assert exporter.close()


def test_a_peer_that_does_not_answer_is_given_up_by_its_timeout_and_asked_again(server):
    release = threading.Event()
    server.script.append(held(release))
    exporter = exporter_to(server, timeout=0.3)
    exporter(points(10))
    release.set()
    assert len(server.calls) >= 2  # on a busy machine an answer in time may come too late
    assert_books(exporter, 10, sent=10)  # the first call may have arrived, too: at least once


def test_what_a_dead_peer_does_not_get_goes_to_the_delayed_queue_and_arrives_later():
    clock = ManualClock()
    sketch = DDSketch()
    sketch.add_many([1.0, -2.0, 0.0, 4.5])
    sent = [
        MetricPoint("s", 1, {"a": b"\0", "l": [1, "b"], "t": True}, time=1.25, start=1.0, unit="By", description="d"),
        MetricPoint("h", Histogram([1.0], [2, 3], sum=7.5, min=0.5, max=3.0), kind="histogram", time=2.0),
        MetricPoint("e", sketch, kind="exponential_histogram", time=3.0),
        MetricPoint("g", 0.5, kind="gauge", time=4.0),
    ]
    with DelayedQueue.open("memory:", "points", clock=clock) as delayed:
        with OtlpServer() as server:
            exporter = exporter_to(server)
            exporter(sent)
            exporter.close()
        exporter = exporter_to(server, retry_for=0.0, delayed=delayed, clock=clock)
        exporter(sent)
        assert_books(exporter, 4, dead_lettered=4)
        clock.advance(3_600.0)
        with OtlpServer(port=server.port) as again:
            until_sent(exporter)
            assert again.requests[0].SerializeToString() == server.requests[0].SerializeToString()
        assert_books(exporter, 4, sent=4)
        assert exporter.close()


def until_sent(exporter):
    """A channel that could not connect waits a moment before it tries again; so do we."""
    for _ in range(1_000):
        exporter.flush(60)
        if not exporter.stats().dead_lettered:
            return
        threading.Event().wait(0.01)
    pytest.fail(f"not sent: {exporter.stats()}")


def test_an_exporter_on_a_shared_queue_leaves_other_types_alone(server):
    others = []
    with BatchQueue("shared", BatchQueueConfig(threads=ThreadPolicy.fixed(1))) as queue:
        queue.add_handler(str, others.extend)
        exporter = exporter_to(server, queue=queue)
        exporter.produce_many(points(10))
        queue.produce("x")
        assert exporter.flush(60)
        assert exporter.close()
        assert queue.running
    assert (server.values(), others) == (list(range(10)), ["x"])


def test_a_server_with_tls_is_reached_by_its_certificate_only(tmp_path):
    import grpc
    import trustme

    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    credentials = grpc.ssl_server_credentials([(issued.private_key_pem.bytes(), issued.cert_chain_pems[0].bytes())])
    certificate = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(certificate))
    with OtlpServer(credentials=credentials) as server:
        with exporter_to(server, insecure=False, certificate=certificate) as exporter:
            exporter(points(10))
            assert_books(exporter, 10, sent=10)
        wrong = {"insecure": False, "certificate": trustme.CA().cert_pem.bytes()}
        for says, options in (
            ("UNAVAILABLE", {"insecure": True, "retry_for": 0.0}),  # as behind a proxy without a server
            ("DeliveryStopped: .*CERTIFICATE_VERIFY_FAILED", {**wrong, "retry_for": 3_600.0}),
        ):
            exporter = exporter_to(server, **options)
            with pytest.raises(Exception, match=says):
                exporter(points(5))
            assert_books(exporter, 5, lost=5)
        assert len(server.calls) == 1


def test_a_server_that_asks_for_a_certificate_gets_it():
    import grpc
    import trustme

    authority = trustme.CA()
    of_server, of_client = authority.issue_cert("localhost"), authority.issue_cert("client")
    credentials = grpc.ssl_server_credentials(
        [(of_server.private_key_pem.bytes(), of_server.cert_chain_pems[0].bytes())],
        root_certificates=authority.cert_pem.bytes(),
        require_client_auth=True,
    )
    with OtlpServer(credentials=credentials) as server:
        exporter = exporter_to(
            server,
            insecure=False,
            certificate=authority.cert_pem.bytes(),
            client_certificate=of_client.cert_chain_pems[0].bytes(),
            client_key=of_client.private_key_pem.bytes(),
        )
        exporter(points(3))
        assert_books(exporter, 3, sent=3)


def test_without_insecure_a_server_without_tls_gets_nothing(server):
    exporter = OtlpMetricsExporter(endpoint=server.endpoint, retry_for=3_600.0)
    with pytest.raises(Exception, match="DeliveryStopped: .*WRONG_VERSION_NUMBER"):
        exporter(points(1))
    assert server.calls == []


def test_insecure_across_a_network_is_warned_of():
    gc.collect()  # of other tests, which may warn when they are collected
    with pytest.warns(DrainqWarning, match=r"endpoint 'collector\.example:4317' is not on this machine") as warned:
        OtlpMetricsExporter(endpoint="collector.example:4317", insecure=True).close()
    assert warned[0].filename == __file__


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"endpoint": "collector"}, ValueError, "endpoint must be 'host:port'.*got 'collector'"),
        ({"endpoint": "collector:99999"}, ValueError, "endpoint must be"),
        ({"endpoint": "http://localhost:4317", "insecure": False}, ValueError, "http:// is insecure=True"),
        ({"endpoint": "https://localhost:4317"}, ValueError, "https:// is insecure=False"),
        ({"endpoint": "https://user:s3cret@localhost"}, ValueError, "may hold a password"),
        ({"headers": ["a"]}, TypeError, "headers must be a mapping"),
        ({"headers": {"a b": "c"}}, ValueError, "header's name must be letters.*'a b'"),
        ({"headers": {"a": "s3cret\n"}}, ValueError, "the value of the header 'a' must be printable ASCII"),
        ({"headers": {"a": 1}}, ValueError, "the value of the header 'a'"),
        ({"certificate": "/missing.pem", "insecure": False}, ValueError, "certificate must be a PEM file"),
        ({"certificate": b"junk", "insecure": False}, ValueError, "certificate is not PEM"),
        ({"client_key": b"-----BEGIN", "insecure": False}, ValueError, "client_certificate and client_key"),
        ({"certificate": b"-----BEGIN"}, ValueError, "insecure=True sends without TLS"),
        ({"resource": {"a": object()}}, TypeError, "the attribute 'a' must be"),
        ({"delayed": "d"}, TypeError, "delayed must be a drainq.delayed.DelayedQueue or None, got 'd'"),
    ],
)
def test_an_argument_that_is_not_understood_is_named(arguments, error, message):
    with pytest.raises(error, match=message) as raised:
        OtlpMetricsExporter(**{"endpoint": "localhost:4317", "insecure": True, **arguments})
    assert "s3cret" not in str(raised.value)
