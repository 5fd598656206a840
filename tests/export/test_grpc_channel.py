"""Endpoints, headers, keys and errors of gRPC calls, without a network."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("grpc")
pytest.importorskip("opentelemetry.proto")

from drainq.delivery import Failure, Unavailable
from drainq.export import OtlpMetricsExporter, grpc_errors
from drainq.export.grpc_channel import Calls, Connection, is_loopback, metadata, pem, target

from .otlp_server import OtlpServer, fails

PEM = b"-----BEGIN CERTIFICATE-----"


@pytest.mark.parametrize(
    ("endpoint", "insecure", "found"),
    [
        ("h:1", False, "h:1"),
        ("h:1", True, "h:1"),
        ("https://h:65535/", False, "h:65535"),
        ("http://[::1]:1/", True, "[::1]:1"),
        ("unix:/s", False, "unix:/s"),
        ("h:65536", True, "must be 'host:port'"),
        ("http://h:1", False, "contradict each other"),
        ("https://h:1", True, "contradict each other"),
        ("ftp://h:1", True, "must be 'host:port'"),
        ("h:1/path", True, "must be 'host:port'"),
        (":1", True, "must be 'host:port'"),
    ],
)
def test_an_endpoint_is_a_host_and_a_port_and_its_scheme_agrees_with_insecure(endpoint, insecure, found):
    try:
        assert target("endpoint", endpoint, insecure=insecure) == found
    except ValueError as error:
        assert found in str(error)


def test_only_this_machine_is_loopback():
    here = "localhost:1 127.0.0.1:1 127.9.9.9:1 [::1]:1 unix:/s".split()
    others = "db-localhost:1 localhost.example:1 db.localhost:1 0.0.0.0:1 [::]:1 10.0.0.1:1 128.0.0.1:1".split()
    assert list(filter(is_loopback, here + others)) == here


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (("Grpc-Timeout", "1"), "a header's name must be"),
        (("a b", "1"), "a header's name must be"),
        (("key-bin", "1"), "would have to be bytes"),
        (("key", "ä"), "must be printable ASCII"),
        (("key", "a\n"), "must be printable ASCII"),
        (("key", b"1"), "must be printable ASCII"),
    ],
)
def test_a_header_that_grpc_does_not_take_is_named(header, says):
    with pytest.raises(ValueError, match=says):
        metadata(dict([header]))
    assert metadata({"X-Token": "t"}) == (("x-token", "t"),) and metadata(None) == ()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"client_certificate": PEM}, "go together"),
        ({"client_key": PEM}, "go together"),
        ({"insecure": True, "certificate": PEM}, "take one of them"),
        ({"insecure": True, "client_certificate": PEM, "client_key": PEM}, "take one of them"),
        ({"certificate": b"no key"}, "certificate is not PEM"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        Connection("h:1", needs="otlp", **options)
    with pytest.raises(TypeError, match="encode it"):
        pem("certificate", PEM.decode())


class Call(Exception):
    def __init__(self, error=None):
        self.error, self.cancelled = error, False

    def exception(self):
        if isinstance(self.error, KeyError):
            raise self.error
        return self.error

    def result(self):
        return "answer"

    def cancel(self):
        self.cancelled = True


def test_a_cancel_reaches_the_running_and_the_later_calls_and_none_that_has_ended():
    calls = Calls(SimpleNamespace(FutureCancelledError=KeyError))
    ended, running, failed, later = Call(), Call(), Call(OSError()), Call(KeyError("cancelled"))
    assert calls.result(lambda *of: ended, b"", 1.0) == "answer"
    with pytest.raises(OSError):
        calls.result(lambda *of: failed, b"", 1.0)
    running.result = lambda: (calls.cancel(), "answer")[1]
    assert calls.result(lambda *of: running, b"", 1.0) == "answer"
    with pytest.raises(Call) as raised:  # a call is its own error, with code and details
        calls.result(lambda *of: later, b"", 1.0)
    assert raised.value is later
    assert [call.cancelled for call in (ended, failed, running, later)] == [False, False, True, True]


def status(seconds):
    from google.rpc import error_details_pb2, status_pb2

    info, answer = error_details_pb2.RetryInfo(), status_pb2.Status()
    info.retry_delay.FromMicroseconds(int(seconds * 1e6))
    answer.details.add().Pack(info)
    return answer.SerializeToString()


@pytest.mark.parametrize(
    ("code", "details", "meaning"),
    [
        (None, None, (Failure.DATA, None)),
        ("UNAVAILABLE", None, (Failure.PASSES, None)),
        ("UNAVAILABLE", status(2.5), (Failure.PASSES, 2.5)),
        ("OUT_OF_RANGE", status(-1), (Failure.PASSES, 0.0)),
        ("UNAVAILABLE", b"\xff nonsense", (Failure.PASSES, None)),
        ("RESOURCE_EXHAUSTED", None, (Failure.DATA, None)),
        ("RESOURCE_EXHAUSTED", status(1), (Failure.PASSES, 1.0)),
        ("INTERNAL", status(1), (Failure.DATA, None)),
        ("NOT_FOUND", None, (Failure.CANNOT_PASS, None)),
    ],
)
def test_a_code_and_the_time_that_the_server_asks_for_decide(code, details, meaning):
    error = SimpleNamespace(
        code=lambda: code and SimpleNamespace(name=code),
        details=lambda: "failed to connect",
        trailing_metadata=lambda: [("other", "x"), ("grpc-status-details-bin", details)] if details else None,
    )
    assert grpc_errors.meaning(error) == meaning
    for words, too_large in (("larger than max (5 vs. 4)", code == "RESOURCE_EXHAUSTED"), ("a larger quota", False)):
        error.details = lambda words=words: words
        assert grpc_errors.is_too_large(error) == too_large


@pytest.mark.parametrize(
    ("code", "details", "values", "says"),
    [
        ("INVALID_ARGUMENT", "a  secret\nline", False, "there answered INVALID_ARGUMENT"),
        ("INVALID_ARGUMENT", "a  secret\nline", True, "there answered INVALID_ARGUMENT: a secret line"),
        ("UNAVAILABLE", "a  line", False, "there answered UNAVAILABLE: a line"),
        (None, None, True, "there answered ?"),
        ("UNAVAILABLE", "x" * 301, False, f"there answered UNAVAILABLE: {'x' * 300}"),
    ],
)
def test_an_error_is_one_line_and_shows_no_values_unless_that_is_said(code, details, values, says):
    error = SimpleNamespace(
        code=lambda: code and SimpleNamespace(name=code), details=lambda: details, trailing_metadata=lambda: None
    )
    assert grpc_errors.described(error, "there", values=values) == says


def test_the_delivery_hears_the_time_that_the_server_asks_for():
    with OtlpServer() as server:
        exporter = OtlpMetricsExporter(endpoint=server.endpoint, insecure=True)
        server.script.append(fails("UNAVAILABLE", retry_after=7.5))
        with pytest.raises(Unavailable) as error:
            exporter.sink.send([])
        assert error.value.after == 7.5 and exporter.close()
