"""RemoteClient: sends items to remote servers in batches, each of which is acknowledged.

1. An acknowledged item is never sent again: after a try that fails half way, only the other items are sent again.
2. A batch that is sent again keeps its number, so a server that kept running does not handle it twice. Two servers may
   handle it if it moves to another server, because the first cannot be reached or was removed from the list.
3. Items of one key (``routing="hash"``), or all items of one server, arrive in the order in which they were produced,
   while servers neither fail nor change.
4. This file only classifies failures. The delivery (:mod:`drainq.delivery.delivery`) decides how long to wait, and what
   becomes of the items then.

Source: ``GRPCRemoteClient.java`` in SkyWalking, which counts before it sends and never sends again.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from drainq.arguments import Seconds, helpful, seconds
from drainq.callables import check_callable
from drainq.clock import Clock, MonotonicClock
from drainq.delivery import DeliveryStopped, Failure, Rest, SendingWorker, Sink, Unavailable
from drainq.delivery.producing import Item
from drainq.delivery.sink_contract import Refusals
from drainq.export import grpc_errors
from drainq.export.grpc_channel import Connection, is_loopback, target
from drainq.export.optional_packages import extra
from drainq.export.remote.peer import Peer, PeerFailed, PeerParcel
from drainq.export.remote.routing import Router, Rule
from drainq.export.remote.wire import LARGEST, OVERHEAD, WireBatch, encode

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from drainq.delivery.options import SendingSettings

PAUSE = 5.0  # seconds for which routing skips a failed peer, if the rule allows that
TRIES = 2  # tries of a batch at one server, before it is routed anew
BATCH_ITEMS = 1000

Connect = Callable[[str], Connection]


class _Rest(Rest):
    """Items still to be sent, and the batches of their earlier tries, each under its number.

    When the delivery drops this object, because it gave the items up, their batches are never sent again.
    """

    def __init__(
        self, items: list[Any], places: list[int], parcels: list[PeerParcel], give_up: Callable[[int], None]
    ) -> None:
        super().__init__(items, places)
        self.parcels, self._give_up = parcels, give_up

    def __del__(self) -> None:
        for parcel in self.parcels:
            self._give_up(parcel.batch.number)


class RemoteSink(Sink):
    """Routes, encodes and sends items; see the module."""

    def __init__(
        self,
        addresses: Sequence[str],
        connect: Connect,
        router: Router,
        *,
        window: int,
        timeout: float,
        batch_items: int = BATCH_ITEMS,
        clock: Clock | None = None,
    ) -> None:
        self._connect, self._router = connect, router
        self._window, self._timeout, self._batch_items = window, timeout, batch_items
        self._clock = MonotonicClock() if clock is None else clock
        self._addresses: tuple[str, ...] = ()
        self._peers: dict[str, Peer] = {}
        self.forget()
        self.use(addresses)

    def forget(self) -> None:
        """Start afresh in a forked child, as the connections do."""
        self._lock = threading.Lock()
        self._sender = uuid.uuid4().hex
        self._numbers = itertools.count(1)
        self._open: set[int] = set()  # sequence numbers of the batches that may be sent again
        self._over = False
        self._peers = {}
        if self._addresses:
            self.use(self._addresses)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of the servers."""
        return self._addresses

    def use(self, addresses: Sequence[str]) -> None:
        """Send to these servers from now on."""
        with self._lock:
            fresh = [address for address in addresses if address not in self._peers]
        made = {address: self._connect(address) for address in fresh}
        with self._lock:
            self._addresses = tuple(addresses)
            for address, connection in made.items():
                if address not in self._peers:
                    self._peers[address] = Peer(connection, window=self._window, timeout=self._timeout)

    # -- sending ----------------------------------------------------------------------------------

    def send(self, items: list[Any]) -> Refusals:
        """Send items, and wait until each is acknowledged."""
        addresses = self.addresses
        refused: list[tuple[int | None, object]] = []
        if isinstance(items, _Rest):
            parcels, items.parcels = self._rerouted(items, addresses), []
        else:
            parcels = self._packed(items, addresses, refused)
        last: dict[str, PeerParcel] = {}  # by peer
        for parcel in parcels:
            if not self._over:
                self._peer(parcel.peer).put(parcel, last.get(parcel.peer))
                last[parcel.peer] = parcel
        for parcel in parcels:
            if parcel.peer in last:
                self._peer(parcel.peer).wait_for(parcel)
        self._drop_removed()
        for parcel in parcels:
            if parcel.ack is not None:
                self._open.discard(parcel.batch.number)
                refused += [(None if place is None else parcel.places[place], why) for place, why in parcel.ack.refused]
        failed = [parcel for parcel in parcels if parcel.ack is None]
        if failed:
            raise self._failure(items, failed, refused)
        return refused

    def _failure(
        self, items: list[Any], failed: list[PeerParcel], refused: list[tuple[int | None, object]]
    ) -> Exception:
        now = self._clock.now()
        kinds = []
        for parcel in failed:
            if isinstance(parcel.failure, PeerFailed):
                parcel.failures += 1
                self._peer(parcel.peer).note_failure(now)
                error = parcel.failure.error
                kinds.append(Failure.PASSES if error is None else grpc_errors.meaning(error)[0])
        places: list[int] = []
        for parcel in failed:
            first = len(places)
            places += parcel.places
            parcel.places = list(range(first, len(places)))
        texts = dict.fromkeys(f"{parcel.peer}: {parcel.failure or 'not sent'}" for parcel in failed)
        # Wait for a server that is overloaded, or that others can replace. Stop the worker if the server will never
        # take anything.
        kind = DeliveryStopped if kinds and all(kind is Failure.CANNOT_PASS for kind in kinds) else Unavailable
        rest = _Rest([items[place] for place in places], places, failed, self._open.discard)
        return kind("; ".join(texts), rest=rest, refusals=refused)

    def _packed(
        self, items: list[Any], addresses: tuple[str, ...], refused: list[tuple[int | None, object]]
    ) -> list[PeerParcel]:
        """Return the items in batches, each for one server."""
        encoded: list[bytes] = []
        places: list[int] = []
        for place, item in enumerate(items):
            try:
                data = bytes(item.data) if type(item) is Kept else encode(item)
            except Exception as error:  # msgspec's own, or that of an __getattr__ on the way
                refused.append((place, error))
                continue
            if len(data) > LARGEST - OVERHEAD:
                refused.append((place, f"{len(data)} bytes are more than the {LARGEST - OVERHEAD} that fit"))
                continue
            encoded.append(data)
            places.append(place)
        parcels: list[PeerParcel] = []
        live = items if len(places) == len(items) else [items[place] for place in places]
        if not live:
            return parcels
        for address, own in self._router.split(live, addresses, self._is_up).items():
            size, part = 0, list[msgspec.Raw]()
            for index in own:
                if not part or size + len(encoded[index]) > LARGEST - OVERHEAD or len(part) >= self._batch_items:
                    size, part = 0, []
                    parcels.append(PeerParcel(WireBatch(self._sender, 0, 0, part), [], address))
                part.append(msgspec.Raw(encoded[index]))
                size += len(encoded[index])
                parcels[-1].places.append(places[index])
        return [self._numbered(parcel) for parcel in parcels]

    def _numbered(self, parcel: PeerParcel) -> PeerParcel:
        with self._lock:
            number = next(self._numbers)
            self._open.add(number)
            settled = min(list(self._open))
        parcel.batch = msgspec.structs.replace(parcel.batch, number=number, settled=settled)
        return parcel

    def _rerouted(self, items: _Rest, addresses: tuple[str, ...]) -> list[PeerParcel]:
        """Return the batches of a failed try, each with its server, or another one if that server failed or left the
        list."""
        again: list[PeerParcel] = []
        for parcel in items.parcels:
            parcel.failure = None
            own = [items[place] for place in parcel.places]
            if parcel.peer in addresses and parcel.failures < TRIES:
                again.append(parcel)
                continue
            split = self._router.split(own, addresses, self._is_up)
            if list(split) == [parcel.peer]:
                again.append(parcel)
                continue
            self._open.discard(parcel.batch.number)
            for address, indexes in split.items():
                part = [parcel.batch.items[index] for index in indexes]
                batch = msgspec.structs.replace(parcel.batch, items=part)
                again.append(self._numbered(PeerParcel(batch, [parcel.places[index] for index in indexes], address)))
        return again

    # -- servers ----------------------------------------------------------------------------------

    def _peer(self, address: str) -> Peer:
        with self._lock:
            peer = self._peers.get(address)
        if peer is None:  # the server left the list meanwhile, and gets this batch as its last one
            peer = Peer(self._connect(address), window=self._window, timeout=self._timeout)
            with self._lock:
                peer = self._peers.setdefault(address, peer)
        return peer

    def _is_up(self, address: str) -> bool:
        return self._peer(address).is_up(self._clock.now(), PAUSE)

    def _drop_removed(self) -> None:
        with self._lock:
            gone = [address for address in self._peers if address not in self._addresses]
            removed = [self._peers.pop(address) for address in gone]
        for peer in removed:
            peer.close()

    def cancel(self) -> None:
        """Break off every stream."""
        with self._lock:
            self._over = True
            peers = list(self._peers.values())
        for peer in peers:
            peer.cancel()

    def close(self) -> None:
        """Disconnect from every server."""
        with self._lock:
            peers, self._peers = list(self._peers.values()), {}
        for peer in peers:
            peer.close()


class RemoteClient(SendingWorker[Item]):
    """Send items to one or several :class:`RemoteServer`.

    Items are sent in batches over a stream. The server acknowledges a batch when its handler has returned, or its queue
    has accepted it. ``flush()`` returns True when all items are acknowledged; they are never sent again.

    Args:
        address: ``host:port`` of a server, or a list of them; see :meth:`set_addresses`. On this machine items travel
            without TLS unless ``certificate`` is given; to other machines with TLS unless ``insecure``.
        routing: which server gets an item: ``"hash"`` (by ``key``), ``"rolling"`` (in turn) or ``"first"`` (the first
            that works). None: ``"hash"`` with a key, else ``"rolling"``.
        key: maps an item to its routing key, which msgspec must be able to encode.
        window: the most batches under way to a server.
        timeout: seconds without an acknowledgement after which a stream is broken off and its batches are sent again.
        batch_size: the most items of a batch; a batch of 4 MiB is full, too.
        insecure: send without TLS also to other machines.
        headers: sent with each stream, such as a token; they are never logged.
        certificate: a PEM file, or its bytes, with the authorities trusted to sign a server's certificate.
        client_certificate, client_key: PEM files, or their bytes, if a server asks for a certificate.
        settings: ``queue``, ``weight``, ``options``, and the fields of :class:`~drainq.workers.WorkerOptions`.
    Raises:
        ImportError: the extra ``grpc`` is not installed.
        TypeError, ValueError: an argument is invalid.

    Example:
        >>> from drainq.export import RemoteServer
        >>> received = []
        >>> with RemoteServer(address="127.0.0.1:0", handler=received.extend) as server:
        ...     with RemoteClient(address=server.address) as client:
        ...         client.produce_many(["a", "b"]), client.flush()
        (2, True)
        >>> received
        ['a', 'b']

    Source: ``GRPCRemoteClient.java`` and ``RemoteClientManager.java`` in SkyWalking.
    """

    @helpful
    def __init__(
        self,
        *,
        address: str | Sequence[str],
        routing: Rule | None = None,
        key: Callable[[Item], Any] | None = None,
        window: int = 10,
        timeout: Seconds = 10.0,
        batch_size: int = BATCH_ITEMS,
        insecure: bool = False,
        headers: Mapping[str, str] | None = None,
        certificate: str | Path | bytes | None = None,
        client_certificate: str | Path | bytes | None = None,
        client_key: str | Path | bytes | None = None,
        **settings: Unpack[SendingSettings],
    ) -> None:
        extra("grpc", "grpc")
        for name, number in (("window", window), ("batch_size", batch_size)):
            if isinstance(number, bool) or not isinstance(number, int):
                raise TypeError(f"{name} must be a number, got {number!r}")
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number!r}")
        timeout = seconds("timeout", timeout, positive=True)
        if key is not None:
            check_callable("key", key, "item")
        router = Router(routing or ("rolling" if key is None else "hash"), key and _key_of(key))
        addresses = _addresses(address)

        def connect(address: str) -> Connection:  # a closure: headers and keys are in no attribute
            local = is_loopback(target("address", address, insecure=not address.startswith("https://")))
            plain = insecure or (local and certificate is None and not address.startswith("https://"))
            return Connection(
                address,
                needs="grpc",
                parameter="address",
                insecure=plain,
                headers=headers,
                certificate=certificate,
                client_certificate=client_certificate,
                client_key=client_key,
            )

        self._remote = RemoteSink(addresses, connect, router, window=window, timeout=timeout, batch_items=batch_size)
        super().__init__(
            self._remote,
            default_name=f"remote/{','.join(addresses)}",
            pack_item=lambda item: _packed_item(item, key),
            unpack_item=lambda packed: Kept(msgspec.Raw(packed["data"]), packed["key"]),
            **settings,
        )

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of the servers."""
        return self._remote.addresses

    def set_addresses(self, address: str | Sequence[str]) -> None:
        """Send to these servers from now on. Servers that stay keep their connections.

        Batches under way to a server that leaves the list are waited for. If that server fails, they go to another.

        Raises:
            TypeError, ValueError: an address is invalid, or there is none.
        """
        self._remote.use(_addresses(address))


class Kept(msgspec.Struct, frozen=True):
    """An item read from a delayed queue: encoded, with its routing key."""

    data: msgspec.Raw
    key: Any


def _packed_item(item: Any, key: Callable[[Any], Any] | None) -> dict[str, Any]:
    if isinstance(item, Kept):
        return {"data": bytes(item.data), "key": item.key}
    return {"data": encode(item), "key": None if key is None else msgspec.to_builtins(key(item))}


def _key_of(key: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda item: item.key if type(item) is Kept else key(item)


def _addresses(address: str | Sequence[str]) -> tuple[str, ...]:
    listed = (address,) if isinstance(address, str) else tuple(address)
    if not listed:
        raise ValueError("address must name at least one server, got an empty list")
    for one in listed:
        target("address", one, insecure=not str(one).startswith("https://"))
    return tuple(dict.fromkeys(listed))
