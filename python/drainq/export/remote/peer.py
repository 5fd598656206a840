"""Peer: one server of a client, with its stream and the batches that are under way.

Three threads use a stream: grpcio's thread takes the requests from :meth:`_Stream.requests`, the reader gets the
acknowledgements, and the sender's thread puts batches in and waits.

# Invariants

1. At most ``window`` batches are under way: sent, or about to be, and not acknowledged.
2. When a stream ends, each batch that was under way on it has failed. The stream sends none again.
3. A stream that has carried nothing for ``IDLE`` seconds is closed, so that it costs the server no thread.
4. A stream on which a batch is under way and no acknowledgement has come for ``timeout`` seconds is broken off.

Source: ``GRPCRemoteClient`` in SkyWalking, with its limit of ten streams under way; the acknowledgements are drainq's.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import msgspec

from drainq.export import grpc_errors
from drainq.export.grpc_channel import Connection
from drainq.export.remote.wire import METHOD, Ack, WireBatch, decode_ack, encode
from drainq.threads import start_thread

IDLE = 5.0  # seconds


class PeerParcel:
    """A batch on its way: the request and its result.

    Args:
        batch: the request; its number stays the same however often it is sent.
        places: the indexes of its items in the list that the sink got.
    """

    __slots__ = ("ack", "batch", "failure", "failures", "peer", "places")

    def __init__(self, batch: WireBatch, places: list[int], peer: str) -> None:
        self.batch, self.places, self.peer = batch, places, peer
        self.ack: Ack | None = None
        self.failure: Exception | None = None
        self.failures = 0  # failed tries at this peer

    @property
    def settled(self) -> bool:
        """True once the peer acknowledged the batch or its stream ended."""
        return self.ack is not None or self.failure is not None


class PeerFailed(Exception):
    """Raised when a stream ended. ``error`` is gRPC's, or None if the peer closed it."""

    def __init__(self, message: str, error: Any = None) -> None:
        super().__init__(message)
        self.error = error


class Peer:
    """A server, identified by its address.

    Args:
        connection: the connection to the server.
        window: batches under way at most.
        timeout: seconds without an acknowledgement after which a stream is broken off.
    """

    def __init__(self, connection: Connection, *, window: int, timeout: float) -> None:
        self._connection, self._window, self._timeout = connection, window, timeout
        self.changed = threading.Condition()
        self._stream: _Stream | None = None
        self._failed_at: float | None = None

    def is_up(self, now: float, pause: float) -> bool:
        """Return whether the peer has not failed in the last ``pause`` seconds, so that routing may choose it."""
        failed_at = self._failed_at
        return failed_at is None or not 0 <= now - failed_at < pause

    def note_failure(self, now: float) -> None:
        """Note that the peer did not accept a batch."""
        self._failed_at = now

    def put(self, parcel: PeerParcel, after: PeerParcel | None) -> None:
        """Send a batch as soon as the window has room. The caller then calls :meth:`wait_for`.

        Args:
            parcel: the batch.
            after: a batch that this one must not overtake: if that batch has failed, this one fails too.
        """
        self.wait(lambda stream: len(stream.under_way) < self._window)
        with self.changed:
            if after is not None and after.failure is not None:
                parcel.failure = after.failure
                return
            stream = self._stream
            if stream is None or stream.over:
                stream = self._stream = _Stream(self, self._connection)
                stream.begin()
            stream.put(parcel)

    def wait(self, done: Any) -> None:
        """Wait until a condition of the stream holds, or there is no stream. Cancel a stream without progress."""
        with self.changed:
            while True:
                stream = self._stream
                if stream is None or stream.over or done(stream):
                    return
                left = stream.moved_at + self._timeout - time.monotonic()
                if left <= 0:
                    stream.break_off(f"no acknowledgement for {self._timeout:g} s")
                    left = self._timeout
                self.changed.wait(left)

    def wait_for(self, parcel: PeerParcel) -> None:
        """Wait until a batch is settled."""
        self.wait(lambda _: parcel.settled)

    def acknowledged(self) -> None:
        """Note that the peer works."""
        self._failed_at = None

    def cancel(self) -> None:
        """Break off the stream, if there is one."""
        with self.changed:
            if self._stream is not None:
                self._stream.break_off("cancelled")

    def close(self) -> None:
        """Break off the stream and disconnect."""
        self.cancel()
        self._connection.close()


class _Stream:
    """One call of the method; :attr:`over` once it ended. State is changed only while ``Peer.changed`` is held."""

    def __init__(self, peer: Peer, connection: Connection) -> None:
        self._peer, self._connection = peer, connection
        self.under_way: OrderedDict[int, PeerParcel] = OrderedDict()
        self._outbox: list[PeerParcel] = []
        self.over = False
        self.moved_at = time.monotonic()
        self._why: str | None = None
        self._call: Any = None

    def begin(self) -> None:
        """Open the call, and start the thread that reads its answers."""
        self._call = self._connection.stream(METHOD)(self.requests())
        start_thread(self._read, name="drainq-remote-client")

    def put(self, parcel: PeerParcel) -> None:
        """Send a batch. Called with the condition held."""
        if not self.under_way:
            self.moved_at = time.monotonic()
        self.under_way[parcel.batch.number] = parcel
        self._outbox.append(parcel)
        self._peer.changed.notify_all()

    def break_off(self, why: str) -> None:
        """Cancel the call. The reader then fails the batches in flight. Called with the condition held."""
        if self._why is None:
            self._why = why
            self._call.cancel()

    def requests(self) -> Iterator[bytes]:
        """Yield the requests for grpcio. The stream ends when this generator does."""
        changed = self._peer.changed
        while True:
            with changed:
                idle = not changed.wait_for(lambda: self._outbox or self.over, IDLE)
                if self.over or (idle and not self.under_way):
                    self.over = True  # the next batch opens a new stream
                    return
                if idle:
                    continue
                parcel = self._outbox.pop(0)
            yield encode(parcel.batch)

    def _read(self) -> None:
        failure: Exception
        try:
            for data in self._call:
                self._acknowledge(decode_ack(data))
            failure = PeerFailed("the server closed the stream")
        except msgspec.DecodeError as error:
            failure = PeerFailed(f"the answer is not one of a drainq server: {error}")
        except Exception as error:
            if not callable(getattr(error, "code", None)):
                raise
            text = self._why or grpc_errors.described(error, self._connection.target)
            failure = PeerFailed(text, None if self._why else error)
        finally:
            self._end(failure)

    def _acknowledge(self, ack: Ack) -> None:
        with self._peer.changed:
            parcel = self.under_way.pop(ack.number, None)
            self.moved_at = time.monotonic()
            self._peer.acknowledged()
            if parcel is not None:
                parcel.ack = ack
                self._peer.changed.notify_all()

    def _end(self, failure: Exception) -> None:
        with self._peer.changed:
            self.over = True
            for parcel in self.under_way.values():
                parcel.failure = failure
            self.under_way.clear()
            self._peer.changed.notify_all()
