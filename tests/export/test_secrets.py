"""No exporter shows a password, a token or a key: not in an error or its causes, not in a repr, a log line or a warning."""

from __future__ import annotations

import logging
import warnings
from functools import partial

import pytest

from drainq.export import KafkaExporter, OtlpMetricsExporter, RemoteClient, RemoteServer, SkyWalkingMetricsExporter
from tests.passwords import MISTYPED, NOT_OURS, PASSWORDS, URLS, everything_of

PEM = "-----BEGIN PRIVATE KEY-----\nX7\n-----END PRIVATE KEY-----\n"
ENDPOINTS = [*URLS, *NOT_OURS, *MISTYPED, "https://me:{}@127.0.0.1:1", "http://{}@127.0.0.1:1", "{}@127.0.0.1:1",
             "me:{}@[::1]:1"]  # fmt: skip


def shown_by(make, caplog, capfd) -> str:
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            made = make()
        except Exception as error:
            seen = everything_of(error)
        else:
            seen = repr(made) + repr(vars(made)) + repr(vars(getattr(made, "sink", made)))
            made.close(0)
    return seen + caplog.text + "".join(str(warning.message) for warning in warned) + "".join(capfd.readouterr())


GRPC_DOORS = {
    "otlp": lambda endpoint, **more: OtlpMetricsExporter(endpoint=endpoint, retry_for=0, **more),
    "skywalking": lambda endpoint, **more: SkyWalkingMetricsExporter(endpoint=endpoint, retry_for=0, **more),
    "remote": lambda endpoint, **more: RemoteClient(address=endpoint, retry_for=0, **more),
}


@pytest.mark.parametrize("door", GRPC_DOORS)
def test_no_endpoint_shows_a_password(door, caplog, capfd):
    pytest.importorskip("grpc")
    for shape in ENDPOINTS:
        for password in PASSWORDS:
            text = shown_by(partial(GRPC_DOORS[door], shape.replace("{}", password)), caplog, capfd)
            assert text and "X7" not in text, (shape, password, text)


@pytest.mark.parametrize("door", GRPC_DOORS)
@pytest.mark.parametrize("password", PASSWORDS)
def test_no_header_shows_its_value(door, password, caplog, capfd):
    pytest.importorskip("grpc")
    text = shown_by(lambda: GRPC_DOORS[door]("127.0.0.1:1", headers={"authorization": password}), caplog, capfd)
    assert "X7" not in text


@pytest.mark.parametrize("door", GRPC_DOORS)
@pytest.mark.parametrize("parameter", ["certificate", "client_certificate", "client_key"])
@pytest.mark.parametrize("given", [PEM, PEM.encode(), PEM.replace("BEGIN", "BEGUN").encode()])
def test_no_key_is_shown_whatever_it_is_given_as(door, parameter, given, caplog, capfd):
    pytest.importorskip("grpc")
    arguments = {"client_key": PEM.encode(), "client_certificate": PEM.encode(), parameter: given}
    assert "X7" not in shown_by(lambda: GRPC_DOORS[door]("127.0.0.1:1", **arguments), caplog, capfd)


def test_a_server_shows_no_key(caplog, capfd):
    pytest.importorskip("grpc")
    for given in (PEM, PEM.encode()):
        text = shown_by(
            partial(RemoteServer, address="127.0.0.1:0", handler=print, certificate=given, key=given), caplog, capfd
        )
        assert "X7" not in text


@pytest.mark.parametrize("wrong", [{}, {"acks": "many"}, {"no.such": 1}, {"sasl.mechanism": "NONE"}, {1: 2}])
@pytest.mark.parametrize("name", [
    "sasl.password", "ssl.key.password", "ssl.keystore.password", "sasl.oauthbearer.client.secret", "ssl.key.pem",
    "sasl.jaas.config", "sasl.oauthbearer.config", "SASL.PASSWORD", "sasl.pasword.key",
])  # fmt: skip
def test_no_setting_of_kafka_is_shown(name, wrong, caplog, capfd):
    pytest.importorskip("confluent_kafka")
    for password in PASSWORDS[::4]:
        config = {"bootstrap.servers": "127.0.0.1:1", name: password, **wrong}
        text = shown_by(partial(KafkaExporter, config=config, topic="t", retry_for=0), caplog, capfd)
        assert "X7" not in text, (name, password, text)
