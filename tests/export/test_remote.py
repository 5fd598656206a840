"""A client and servers over real streams: acknowledged items are never sent again, and no item is handled twice."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

pytest.importorskip("grpc")

from drainq import BatchQueue, BatchQueueConfig, BufferStrategy, ThreadPolicy
from drainq.delayed import DelayedQueue
from drainq.export import RemoteServer
from drainq.testing import ManualClock

from .books import assert_books
from .gatherer import LOCAL, Gatherer, client_to, server_books
from .tcp import Proxy


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


def test_a_handler_of_whose_call_nothing_has_run_refuses_its_batch():
    async def send(items):
        raise AssertionError(items)

    with RemoteServer(address="127.0.0.1:0", handler=lambda items: send(items), insecure=True) as server:
        client = client_to(server)
        client([1, 2])
        assert_books(client, 2, refused=2)
        assert (server_books(server).failed, server_books(server).handled) == (2, 0)


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
