"""The Kafka exporter in front of servers that speak something else than its configuration says, on real sockets."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading

import pytest

pytest.importorskip("confluent_kafka")

import trustme

from drainq.delivery import DeliveryError, DeliveryStopped
from drainq.export import KafkaExporter, kafka_language

from .books import assert_books
from .kafka_mock import mock_cluster


@pytest.fixture(scope="module")
def cluster():
    with mock_cluster() as cluster:
        yield cluster


class Speaking:
    """A server on loopback that hands each connection to a function."""

    def __init__(self, speak):
        self._speak, self._listener = speak, socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection, contextlib.suppress(OSError):
            self._speak(connection)


def in_tls(*, verify=ssl.CERT_NONE, version=ssl.TLSVersion.TLSv1_3):
    """Return a function that speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode, context.maximum_version = verify, version
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return lambda connection: context.wrap_socket(connection, server_side=True).recv(9)


def http(connection):
    """Answer as a web server does that waits for the end of a line."""
    while line := connection.recv(1000):
        if b"\n" in line:
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return


SILENT = threading.Event()


def test_a_server_that_speaks_another_language_stops_the_exporter_with_the_reason(cluster, monkeypatch):
    monkeypatch.setattr(kafka_language, "PATIENCE", 0.3)
    with Speaking(in_tls()) as tls, Speaking(http) as web:
        for server, protocol, reason in (
            (tls, "plaintext", "speaks TLS, and security.protocol is 'plaintext'; set that of the listener"),
            (web, "PLAINTEXT", "speaks HTTP, and it is no broker"),
            (cluster, "SSL", "speaks Kafka without TLS, and security.protocol is 'SSL'; set that of the listener"),
            # the answer is read as TLS, or lost with the rest of the greeting, which the server has not read
            (web, "ssl", "(_SSL: .*wrong version number|speaks HTTP, and it is no broker)"),
        ):
            config = {"bootstrap.servers": server.address, "security.protocol": protocol}
            exporter = KafkaExporter(config=config, topic="t", retry_for=3_600.0)
            with pytest.raises(DeliveryError, match=f"DeliveryStopped: .*{reason}"):
                exporter([b"1", b"2"])
            with pytest.raises(DeliveryStopped, match=reason):
                exporter.produce(b"3")
            assert_books(exporter, 2, lost=2)
            exporter.close(0)


def test_a_server_is_wrong_only_if_it_answers_in_another_language(cluster, monkeypatch):
    monkeypatch.setattr(kafka_language, "PATIENCE", 0.1)
    ended, silent = Speaking(lambda connection: None), Speaking(lambda connection: SILENT.wait(1))
    asks = Speaking(in_tls(verify=ssl.CERT_REQUIRED))
    old = Speaking(in_tls(verify=ssl.CERT_REQUIRED, version=ssl.TLSVersion.TLSv1_2))  # refuses before the end
    with Speaking(in_tls()) as tls, Speaking(http) as web, ended, silent, old, asks:
        spoken = [kafka_language.spoken_at(each.address) for each in (cluster, tls, old, asks, web, ended, silent)]
        assert spoken == ["Kafka", "TLS", "TLS", "TLS", "HTTP", None, None]
        assert [kafka_language.spoken_at(wrong) for wrong in ("127.0.0.1:1", "h:port", "[::1", "")] == [None] * 4
        for servers, protocol, reason in (
            ((tls,), "sasl_ssl", ""), ((cluster,), "SASL_PLAINTEXT", ""), ((tls, cluster), "plaintext", ""),
            ((tls, ended), "plaintext", ""), ((tls, web), "plaintext", "speaks HTTP"), ((cluster,), "ssl", "without TLS"),
        ):  # fmt: skip
            why = kafka_language.why_never(", ".join(f"x://{each.address}" for each in servers), protocol)
            assert reason in why and bool(why) == bool(reason), (protocol, why)
