"""A client and servers over real streams: what was acknowledged is never sent again, and nothing is handled twice."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import msgspec
import pytest

pytest.importorskip("grpc")

from drainq import BatchQueue, BatchQueueConfig, BufferStrategy, ThreadPolicy
from drainq.delayed import DelayedQueue
from drainq.delivery import DeliveryStopped
from drainq.errors import DrainqWarning
from drainq.export import RemoteClient, RemoteServer
from drainq.export.remote.routing import owner
from drainq.testing import ManualClock

from .books import assert_books
from .tcp import Proxy

LOCAL = "127.0.0.1:0"


class Gatherer:
    """A handler that keeps what it got, and can be made to wait or to fail."""

    def __init__(self):
        self.items = []
        self.calls = threading.Condition()
        self.gate = threading.Event()
        self.gate.set()
        self.entered = 0
        self.errors = []

    def __call__(self, items):
        with self.calls:
            self.entered += 1
            self.calls.notify_all()
        self.gate.wait(60)
        if self.errors:
            raise self.errors.pop(0)
        self.items += items

    def wait_until_entered(self, times):
        with self.calls:
            assert self.calls.wait_for(lambda: self.entered >= times, 60)


@pytest.fixture
def gathered():
    return Gatherer()


@pytest.fixture
def server(gathered):
    with RemoteServer(address=LOCAL, handler=gathered) as server:
        yield server


def client_to(*servers, **more):
    addresses = [getattr(server, "address", server) for server in servers]
    return RemoteClient(**{"address": addresses, "retry_for": 30.0, **more})


def server_books(server):
    stats = server.stats()
    assert stats.received == stats.handled + stats.failed + stats.refused + stats.pending
    return stats


def test_every_item_arrives_once_and_in_order(server, gathered):
    with client_to(server) as client:
        assert client.produce_many(range(20_000)) == 20_000
        assert client.flush(60)
        assert gathered.items == list(range(20_000))
        assert_books(client, 20_000, sent=20_000)
    assert server_books(server).handled == 20_000


@dataclass
class Hit:
    page: str
    size: int


def test_items_are_what_msgspec_encodes_and_come_as_the_type_that_the_server_names(gathered):
    with RemoteServer(address=LOCAL, handler=gathered, type=Hit) as server, client_to(server) as client:
        client([Hit("/", 1), Hit("/a", 2)])
    assert gathered.items == [Hit("/", 1), Hit("/a", 2)]


def test_without_a_type_they_come_as_plain_values(server, gathered):
    items = [None, 1, 2.5, "text", b"\0\xff", [1, [2]], {"a": {"b": None}}, Hit("/", 1)]
    with client_to(server) as client:
        client(items)
    assert gathered.items == [*items[:-1], {"page": "/", "size": 1}]


def test_what_cannot_be_encoded_or_decoded_is_refused_alone(gathered):
    with RemoteServer(address=LOCAL, handler=gathered, type=int) as server:
        client = client_to(server)
        client([1, object(), 2, "three", 4])
        assert gathered.items == [1, 2, 4]
        assert_books(client, 5, sent=3, refused=2)
        stats = server_books(server)
        assert (stats.received, stats.handled, stats.refused) == (4, 3, 1)


def test_an_item_that_is_too_large_is_refused_and_batches_stay_below_the_limit(server, gathered):
    client = client_to(server)
    large = ["x" * 1_000_000] * 10
    client([*large, "y" * 5_000_000, "z"])
    assert gathered.items == [*large, "z"]
    assert_books(client, 12, sent=11, refused=1)


def test_a_handler_that_raises_refuses_its_batch_and_the_next_one_goes_on(server, gathered):
    gathered.errors.append(ValueError("odd"))
    client = client_to(server)
    client([1, 2])
    client([3])
    assert gathered.items == [3]
    assert_books(client, 3, sent=1, refused=2)
    assert (server_books(server).failed, server_books(server).handled) == (2, 1)


def test_a_server_feeds_a_queue():
    handled = []
    config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=handled.extend)
    with BatchQueue("behind", config) as queue:
        with RemoteServer(address=LOCAL, queue=queue) as server, client_to(server) as client:
            client.produce_many(range(1_000))
            assert client.flush(60)
        assert queue.running and queue.flush(60)
    assert handled == list(range(1_000))


def test_a_full_queue_behind_the_server_makes_the_client_wait():
    gate = threading.Event()
    handled = []

    def handler(batch):
        gate.wait(60)
        handled.extend(batch)

    config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), buffer_size=16, max_batch=16, consumer=handler)
    with BatchQueue("behind", config) as queue:
        with RemoteServer(address=LOCAL, queue=queue) as server, client_to(server) as client:
            assert client.produce_many(range(1_000)) == 1_000
            assert not client.flush(0.1)
            gate.set()
            assert client.flush(60)
            assert_books(client, 1_000, sent=1_000)
    assert handled == list(range(1_000))


def test_what_a_queue_that_does_not_wait_refuses_is_refused_in_the_clients_books():
    gate = threading.Event()
    config = BatchQueueConfig(
        threads=ThreadPolicy.fixed(1),
        buffer_size=16,
        strategy=BufferStrategy.IF_POSSIBLE,
        consumer=lambda batch: gate.wait(60),
    )
    with BatchQueue("behind", config) as queue:
        with RemoteServer(address=LOCAL, queue=queue) as server:
            client = client_to(server)
            client(list(range(1_000)))
            accepted = queue.stats().accepted
            assert_books(client, 1_000, sent=accepted, refused=1_000 - accepted)
            assert 16 <= accepted < 1_000
            stats = server_books(server)
            assert (stats.handled, stats.refused) == (accepted, 1_000 - accepted)
        gate.set()


def test_a_flush_that_returned_true_means_that_nothing_of_it_is_sent_again(server, gathered):
    with Proxy(server.address) as proxy:
        client = client_to(proxy)
        client.produce_many(range(500))
        assert client.flush(60)
        proxy.drop()
        client.produce_many(range(500, 1_000))
        assert client.flush(60)
        assert gathered.items == list(range(1_000))
        assert server_books(server).received == 1_000
        assert_books(client, 1_000, sent=1_000)
        assert client.close()


def test_a_batch_whose_acknowledgement_was_lost_is_not_handled_twice(server, gathered):
    with Proxy(server.address) as proxy:
        client = client_to(proxy, batch_size=10)
        gathered.gate.clear()
        client.produce_many(range(100))
        gathered.wait_until_entered(1)
        proxy.drop()  # the server has the batches and no way to say so
        gathered.gate.set()
        assert client.flush(60)
        assert sorted(gathered.items) == list(range(100))
        assert_books(client, 100, sent=100)
        stats = server_books(server)
        assert stats.handled == 100 and stats.repeated >= 1
        assert client.close()


@pytest.mark.parametrize("seed", range(5))
def test_connections_that_break_at_any_time_lose_and_double_nothing(server, gathered, seed):
    with Proxy(server.address, drop_every=(seed + 1) * 3_000) as proxy:
        client = client_to(proxy, batch_size=50)
        client.produce_many(range(5_000))
        assert client.flush(60)
        assert gathered.items == list(range(5_000))
        assert_books(client, 5_000, sent=5_000)
        assert server_books(server).handled == 5_000
        assert client.close()


def test_a_server_that_is_started_anew_gets_the_rest():
    first, second = Gatherer(), Gatherer()
    with RemoteServer(address=LOCAL, handler=first) as server:
        client = client_to(server)
        client(list(range(100)))
    taking = threading.Thread(target=client, args=(list(range(100, 200)),))
    taking.start()
    with RemoteServer(address=server.address, handler=second):
        taking.join(60)
        assert (first.items, second.items) == (list(range(100)), list(range(100, 200)))
        assert_books(client, 200, sent=200)
        assert client.close()


def test_a_server_that_closes_answers_for_what_it_is_handling(server, gathered):
    gathered.gate.clear()
    client = client_to(server, retry_for=0.0)
    client.produce_many(range(10))
    gathered.wait_until_entered(1)
    closing = threading.Thread(target=server.close)
    closing.start()
    gathered.gate.set()
    closing.join(60)
    client.flush(60)
    stats = client.stats()
    assert stats.sent == len(gathered.items) == server_books(server).handled
    assert stats.sent + stats.lost == 10


def test_close_of_a_server_returns_by_its_deadline(server, gathered):
    gathered.gate.clear()
    client = client_to(server)
    client.produce(1)
    gathered.wait_until_entered(1)
    assert not server.close(0.2)
    gathered.gate.set()
    client.close(0.2)


def test_a_dead_server_is_waited_for_and_then_its_items_are_lost():
    with RemoteServer(address=LOCAL, handler=print) as gone:
        pass
    client = client_to(gone, retry_for=0.3)
    with pytest.raises(Exception, match=gone.address):
        client(list(range(50)))
    assert_books(client, 50, lost=50)
    assert not client.close()


def test_a_server_that_does_not_answer_is_asked_again_on_a_new_stream_and_handles_once(server, gathered):
    gathered.gate.clear()
    client = client_to(server, timeout=0.2)
    client.produce_many(range(10))
    gathered.wait_until_entered(1)
    until = threading.Event()
    while server.stats().repeated == 0:
        until.wait(0.01)
    gathered.gate.set()
    assert client.flush(60)
    assert gathered.items == list(range(10))
    assert_books(client, 10, sent=10)


def test_a_server_that_does_not_answer_cannot_hold_up_close(server, gathered):
    gathered.gate.clear()
    client = client_to(server)
    client.produce_many(range(10))
    gathered.wait_until_entered(1)
    assert not client.close(0.4)
    gathered.gate.set()
    assert_books(client, 10, lost=10)


def test_what_a_dead_server_does_not_get_goes_to_the_delayed_queue_and_arrives_later(gathered):
    clock = ManualClock()
    with DelayedQueue.open("memory:", "items", clock=clock) as delayed:
        with RemoteServer(address=LOCAL, handler=print) as gone:
            pass
        client = client_to(gone, retry_for=0.0, delayed=delayed, clock=clock)
        client([{"b": b"\0"}, "text"])
        assert_books(client, 2, dead_lettered=2)
        clock.advance(3_600.0)
        with RemoteServer(address=gone.address, handler=gathered):
            for _ in range(1_000):
                client.flush(60)
                if client.stats().sent:
                    break
                threading.Event().wait(0.01)
            assert gathered.items == [{"b": b"\0"}, "text"]
            assert_books(client, 2, sent=2)
            assert client.close()


# -- several servers ------------------------------------------------------------------------------


@pytest.fixture
def three():
    gatherers = [Gatherer() for _ in range(3)]
    servers = [RemoteServer(address=LOCAL, handler=gatherer) for gatherer in gatherers]
    yield list(zip(servers, gatherers))
    for server in servers:
        server.close(5)


def test_by_hash_each_key_has_one_server_and_they_share_the_keys(three):
    with client_to(*(server for server, _ in three), key=lambda n: n % 100) as client:
        client.produce_many(range(3_000))
        assert client.flush(60)
    assert sorted(n for _, got in three for n in got.items) == list(range(3_000))
    addresses = [server.address for server, _ in three]
    for server, got in three:
        assert {n % 100 for n in got.items} == {key for key in range(100) if owner(key, addresses) == server.address}
        for key in range(100):
            own = [n for n in got.items if n % 100 == key]
            assert own == sorted(own)


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_when_a_server_leaves_only_its_own_keys_move_and_they_spread(count):
    peers = [f"host{n}:1" for n in range(count)]
    before = {key: owner(key, peers) for key in map(str, range(4_000))}
    gone = peers.pop()
    moved = {key: owner(key, peers) for key in before}
    assert all(moved[key] == peer for key, peer in before.items() if peer != gone)
    shares = [list(before.values()).count(peer) / 4_000 for peer in set(before.values())]
    assert len(shares) == count and all(abs(share - 1 / count) < 0.05 for share in shares)


def test_rolling_gives_each_server_its_turn(three):
    with client_to(*(server for server, _ in three), routing="rolling") as client:
        for n in range(9):
            client([n])
    assert [got.items for _, got in three] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def test_first_uses_the_first_server_that_works_and_returns_to_it():
    first, second = Gatherer(), Gatherer()
    clock = ManualClock()
    with RemoteServer(address=LOCAL, handler=second) as spare:
        with RemoteServer(address=LOCAL, handler=first) as server:
            client = client_to(server, spare, routing="first")
            client.sink._clock = clock
            client([1])
        client([2])
        client([3])
        with RemoteServer(address=server.address, handler=first):
            clock.advance(60.0)
            while len(first.items) < 2:
                client([4])
                clock.advance(60.0)
        assert client.close()
    assert second.items[:2] == [2, 3] and first.items == [1, 4]
    assert client.stats().sent == client.stats().accepted


def test_one_dead_server_of_three_costs_nothing_but_time(three):
    three[1][0].close()
    with client_to(*(server for server, _ in three), routing="rolling") as client:
        for n in range(30):
            client([n])
        assert_books(client, 30, sent=30)
    assert sorted(n for _, got in three for n in got.items) == list(range(30))


def test_by_hash_a_dead_servers_keys_wait_for_it_while_the_others_go_on(three):
    (dead, _), *_ = three
    addresses = [server.address for server, _ in three]
    dead.close()
    client = client_to(*addresses, key=lambda n: n, retry_for=0.2)
    mine = [n for n in range(100) if owner(n, addresses) == dead.address]
    with pytest.raises(Exception, match=dead.address):
        client(list(range(100)))
    assert_books(client, 100, sent=100 - len(mine), lost=len(mine))


def test_servers_can_be_changed_live_and_what_the_dead_one_owed_goes_to_another(three):
    (dead, _), (second, second_got), (third, third_got) = three
    dead.close()
    client = client_to(dead, second, key=lambda n: n)
    taking = threading.Thread(target=client, args=(list(range(100)),))
    taking.start()
    client.set_addresses([second.address, third.address])
    taking.join(60)
    assert sorted(second_got.items + third_got.items) == list(range(100))
    assert client.addresses == (second.address, third.address)
    assert_books(client, 100, sent=100)
    assert client.close()


# -- safety and arguments -------------------------------------------------------------------------


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
    with pytest.warns(DrainqWarning, match="insecure=True takes items from each") as warned:
        RemoteServer(address="0.0.0.0:0", handler=print, insecure=True).close()
    assert warned[0].filename == __file__
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
        ({"key": "k"}, TypeError, "key must be a callable"),
        ({"window": 0}, ValueError, "window must be at least 1, got 0"),
        ({"window": 1.5}, TypeError, "window must be a number, got 1.5"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, got 0"),
        ({"timeout": 0}, ValueError, "timeout must be more than 0 seconds, got 0"),
        ({"retry_for": None}, TypeError, "retry_for must be a number of seconds, got None"),
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
