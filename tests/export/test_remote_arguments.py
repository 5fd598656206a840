"""Refusals of a client and a server: strangers and wrong arguments; TLS and sockets."""

from __future__ import annotations

import gc

import msgspec
import pytest

pytest.importorskip("grpc")

from drainq.delivery import DeliveryStopped
from drainq.errors import DrainqWarning
from drainq.export import RemoteClient, RemoteServer

from .books import assert_books
from .gatherer import LOCAL, client_to, server_books


def test_items_cross_tls_in_both_directions(gathered):
    import trustme

    authority = trustme.CA()
    of_server, of_client = authority.issue_cert("localhost"), authority.issue_cert("client")
    server = RemoteServer(
        address="localhost:0",
        handler=gathered,
        certificate=of_server.cert_chain_pems[0].bytes(),
        key=of_server.private_key_pem.bytes(),
        client_authorities=authority.cert_pem.bytes(),
    )
    with server:
        proper = {
            "certificate": authority.cert_pem.bytes(),
            "client_certificate": of_client.cert_chain_pems[0].bytes(),
            "client_key": of_client.private_key_pem.bytes(),
        }
        with client_to(server, **proper) as client:
            client([1, 2])
        for wrong in ({}, {"certificate": authority.cert_pem.bytes()}):
            client = client_to(server, retry_for=0.0, **wrong)
            with pytest.raises(Exception, match="lost"):
                client([3])
            assert_books(client, 1, lost=1)
    assert gathered.items == [1, 2]


def test_a_server_without_this_service_stops_the_client():
    from concurrent import futures

    import grpc

    other = grpc.server(futures.ThreadPoolExecutor(1))
    port = other.add_insecure_port("127.0.0.1:0")
    other.start()
    client = client_to(f"127.0.0.1:{port}")
    with pytest.raises(Exception, match="UNIMPLEMENTED"):
        client([1])
    with pytest.raises(DeliveryStopped, match="UNIMPLEMENTED"):
        client.produce(1)
    other.stop(0).wait()


def test_what_is_no_batch_gets_an_error_and_reaches_no_handler(server, gathered):
    import grpc

    from drainq.export.remote.wire import METHOD

    with grpc.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.RpcError) as raised:
            list(channel.stream_stream(METHOD)(iter([b"junk"])))
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert gathered.items == [] and server_books(server).received == 0


def test_other_machines_reach_a_server_only_with_tls_or_when_that_is_said():
    with pytest.raises(ValueError, match=r"address '0\.0\.0\.0:0' can be reached by other machines: give certificate="):
        RemoteServer(address="0.0.0.0:0", handler=print)
    gc.collect()  # of other tests, which may warn when they are collected
    with pytest.warns(DrainqWarning, match="insecure=True takes items from each") as warned:
        RemoteServer(address="0.0.0.0:0", handler=print, insecure=True).close()
    assert warned[0].filename == __file__
    gc.collect()  # of other tests, which may warn when they are collected
    with pytest.warns(DrainqWarning, match="is not on this machine") as warned:
        RemoteClient(address="host.example:1", insecure=True).close()
    assert warned[0].filename == __file__


def test_a_port_that_is_taken_is_said(server):
    with pytest.raises(OSError, match=f"'{server.address}' cannot be listened on"):
        RemoteServer(address=server.address, handler=print)


def test_a_unix_socket_works_as_well(tmp_path, gathered):
    with RemoteServer(address=f"unix:{tmp_path}/s", handler=gathered) as server, client_to(server) as client:
        client([1])
    assert gathered.items == [1]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"address": []}, ValueError, "address must name at least one server"),
        ({"address": "host"}, ValueError, "address must be 'host:port'"),
        ({"address": ["localhost:1", 2]}, TypeError, "address must be a str 'host:port', got 2"),
        ({"routing": "random"}, ValueError, "routing must be one of 'hash', 'rolling', 'first', got 'random'"),
        ({"routing": "hash"}, ValueError, "routing 'hash' needs key="),
        ({"routing": "first", "key": len}, ValueError, "routing 'hash' needs key="),
        ({"headers": {"a b": "c"}}, ValueError, "header's name"),
    ],
)
def test_an_argument_of_a_client_that_is_not_understood_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        RemoteClient(**{"address": "localhost:1", **arguments})


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "give either handler= or queue="),
        ({"handler": print, "queue": 1}, ValueError, "give either handler= or queue="),
        ({"handler": 1}, TypeError, "handler must be a callable"),
        ({"queue": 1}, TypeError, "queue must be a drainq.BatchQueue, got 1"),
        ({"handler": print, "most_streams": 0}, ValueError, "most_streams must be a number of clients"),
        ({"handler": print, "certificate": b"-----BEGIN "}, ValueError, "certificate and key go together"),
        ({"handler": print, "client_authorities": b"-----BEGIN "}, ValueError, "client_authorities needs certificate="),
        ({"handler": print, "address": "nowhere"}, ValueError, "address must be 'host:port'"),
        ({"handler": print, "type": object()}, TypeError, "type must be what msgspec can decode to"),
    ],
)
def test_an_argument_of_a_server_that_is_not_understood_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        RemoteServer(**{"address": LOCAL, **arguments})


def test_a_batch_keeps_its_number_and_tells_what_is_settled():
    from drainq.export.remote.wire import WireBatch, decode_batch, encode

    batch = WireBatch("s", 3, 2, [msgspec.Raw(b"\x01")])
    assert decode_batch(encode(batch)) == batch
