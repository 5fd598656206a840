"""A client of several servers: the server of each item, and the loss of a server."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("grpc")

from drainq.export import RemoteServer
from drainq.export.remote.routing import owner
from drainq.testing import ManualClock

from .books import assert_books
from .gatherer import LOCAL, Gatherer, client_to


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
