"""RemoteServer: receives batches from clients, passes them to a queue or a handler, and acknowledges each.

1. A batch is acknowledged only when the handler has returned or raised, or the queue has taken or refused it.
2. Batches of one stream are passed on in their order, one at a time.
3. A batch that is sent again is not passed on again, as long as this server lives
   (:mod:`drainq.export.remote.received`). A restarted server does not know the batches of its predecessor.
4. One thread at a time calls a handler, because the server has its own queue in front of it.
5. Each received item is ``handled``, ``failed``, ``refused`` or ``pending``.

Source: ``RemoteServiceHandler.java`` in SkyWalking, which acknowledges nothing, so its client learns no outcome.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from drainq._native import BatchQueue
from drainq.arguments import Seconds, flag, seconds_or_none
from drainq.batch_config import BatchQueueConfig
from drainq.callables import check_answer, check_callable
from drainq.delivery.sink_contract import error_text, to_show
from drainq.errors import DrainqWarning
from drainq.export.grpc_channel import frames_inside, is_loopback, pem, target
from drainq.export.optional_packages import extra
from drainq.export.remote.received import Received
from drainq.export.remote.wire import LARGEST, METHOD, Ack, WireBatch, decode_batch, encode
from drainq.fork import leave_to_parent, renew_in_child
from drainq.statistics import Statistics
from drainq.threads import ClosedByBlock, run_aside

log = logging.getLogger("drainq")
_numbers = itertools.count(1)
MOST_STREAMS = 256  # clients at once; each has a thread while it sends, and a client that is idle closes its stream


@dataclass(frozen=True)
class RemoteServerStats(Statistics):
    """Counts of items by outcome: ``received = handled + failed + refused + pending``.

    Args:
        received: items of batches that came for the first time.
        handled: the handler returned, or the queue accepted.
        failed: the handler raised.
        refused: they could not be decoded, or the queue was full (and does not wait) or shut down.
        pending: being handled.
        repeated: items of batches that were received again and not handled again; in no sum.
        streams: clients that are connected.
    """

    received: int
    handled: int
    failed: int
    refused: int
    pending: int
    repeated: int
    streams: int


class _Closing(Exception):
    """Raised if a batch was not passed on, because the server or its queue closes."""


class _Delivered:
    """The items of one batch in the server's own queue, and the handler's result."""

    __slots__ = ("done", "error", "items")

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.done = threading.Event()
        self.error: BaseException | None = _Closing("the server closed before the handler was called")


class RemoteServer(ClosedByBlock):
    """Receives the items that :class:`RemoteClient` objects of other processes send.

    It listens from the moment it is made until ``close``.

    Args:
        address: ``host:port`` to listen on; port 0 takes a free one, see :attr:`address`. Or ``unix:/path``.
        handler: a callable that gets the items of a batch as a list.
        queue: a :class:`drainq.BatchQueue` that gets the items instead. With ``BLOCKING``, clients wait while it is
            full. With ``IF_POSSIBLE`` it refuses items that do not fit, and clients count them as refused.
        type: the type to decode items to, for msgspec: a dataclass, a Struct, a union of tagged Structs. None: dicts,
            lists, text, numbers and bytes.
        certificate, key: PEM files, or their bytes, of this server; needed unless the address is on this machine.
        client_authorities: a PEM file, or its bytes, with the authorities trusted to sign clients' certificates. None:
            clients need no certificate.
        insecure: listen without TLS also on an address that other machines reach.
        most_streams: clients that send at the same time; a further one waits, and tries again.
        log_values: show whole texts of errors in log lines and in answers to clients.
    Raises:
        ImportError: the extra ``grpc`` is not installed.
        TypeError, ValueError: an argument is invalid, or TLS is missing on an address that other machines reach.
        OSError: the address cannot be listened on.

    Example:
        >>> from drainq.export import RemoteClient
        >>> with RemoteServer(address="127.0.0.1:0", handler=print) as server:
        ...     with RemoteClient(address=server.address) as client:
        ...         _ = client.produce({"page": "/", "hits": 2})
        [{'page': '/', 'hits': 2}]

    Source: ``RemoteServiceHandler.java`` in SkyWalking.
    """

    def __init__(
        self,
        *,
        address: str,
        handler: Callable[[list[Any]], object] | None = None,
        queue: BatchQueue | None = None,
        type: Any = None,
        certificate: str | Path | bytes | None = None,
        key: str | Path | bytes | None = None,
        client_authorities: str | Path | bytes | None = None,
        insecure: bool = False,
        most_streams: int = MOST_STREAMS,
        log_values: bool = False,
    ) -> None:
        self._log_values = flag("log_values", log_values)
        [self._grpc] = extra("grpc", "grpc")
        if (handler is None) == (queue is None):
            raise ValueError("give either handler= or queue=: what received items go to")
        if handler is not None:
            check_callable("handler", handler, "items")
        elif not isinstance(queue, BatchQueue):
            raise TypeError(f"queue must be a drainq.BatchQueue, got {queue!r}")
        if isinstance(most_streams, bool) or not isinstance(most_streams, int) or most_streams < 1:
            raise ValueError(f"most_streams must be a number of clients, at least 1, got {most_streams!r}")
        listen_on = target("address", address)
        credentials = self._credentials(listen_on, certificate, key, client_authorities, insecure)
        try:
            self._decode = msgspec.msgpack.Decoder(Any if type is None else type).decode
        except TypeError as error:
            raise TypeError(f"type must be what msgspec can decode to, or None, got {type!r}: {error}") from error
        self._handler, self._queue = handler, queue
        self._server: Any = None
        self._own: BatchQueue | None = None
        self._begin()
        if handler is not None:
            config = BatchQueueConfig(
                threads=1,
                buffer_size=max(1024, most_streams),
                strategy="blocking",
                consumer=self._call_handler,
            )
            self._own = BatchQueue(f"drainq-RemoteServer-{next(_numbers)}", config)
        self._server, self.address = self._listen(listen_on, credentials, most_streams)
        renew_in_child(self)

    def _begin(self) -> None:
        self._received = Received()
        self._lock = threading.Condition()
        self._own = None
        self._contexts: dict[Any, bool] = {}  # stream -> whether it handles a batch
        self._waiting: set[_Delivered] = set()
        self._closing = self._closed = False
        self._counts = dict.fromkeys(("received", "handled", "failed", "refused", "repeated"), 0)
        self._server = None
        self._ended = threading.Event()

    def _renew_in_child(self) -> None:
        """Close the child's server, because a port belongs to one process."""
        leave_to_parent(self._server, self._own, *self._contexts)
        self._begin()
        self._closing = self._closed = True
        self._ended.set()

    def _credentials(self, listen_on: str, certificate: Any, key: Any, authorities: Any, insecure: bool) -> Any:
        chain, private = pem("certificate", certificate), pem("key", key)
        if (chain is None) != (private is None):
            raise ValueError("certificate and key go together; got only one of them")
        trusted = pem("client_authorities", authorities)
        if chain is not None:
            if insecure:
                raise ValueError("insecure=True listens without TLS, and certificate= asks for it: take one of them")
            return self._grpc.ssl_server_credentials([(private, chain)], trusted, trusted is not None)
        if trusted is not None:
            raise ValueError("client_authorities needs certificate= and key=, too: without TLS no client shows one")
        if not is_loopback(listen_on):
            if not insecure:
                raise ValueError(
                    f"address {listen_on!r} can be reached by other machines: give certificate= and key=, or say "
                    f"insecure=True"
                )
            warnings.warn(
                f"address {listen_on!r} can be reached by other machines, and insecure=True takes items from each "
                f"that can",
                DrainqWarning,
                stacklevel=frames_inside() + 1,
            )
        return None

    def _listen(self, listen_on: str, credentials: Any, most_streams: int) -> tuple[Any, str]:
        grpc = self._grpc
        pool = futures.ThreadPoolExecutor(most_streams, thread_name_prefix="drainq-remote-server")
        options = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", 2 * LARGEST)]
        server = grpc.server(pool, options=options, maximum_concurrent_rpcs=most_streams)
        _, service, method = METHOD.split("/")
        deliver = grpc.stream_stream_rpc_method_handler(self._deliver)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {method: deliver})])
        try:
            if credentials is None:
                port = server.add_insecure_port(listen_on)
            else:
                port = server.add_secure_port(listen_on, credentials)
        except RuntimeError as error:
            raise OSError(f"address {listen_on!r} cannot be listened on: {error}") from error
        server.start()
        return server, listen_on if listen_on.startswith("unix:") else f"{listen_on.rpartition(':')[0]}:{port}"

    def __repr__(self) -> str:
        return f"<RemoteServer at {self.address}{', closed' if self._closed else ''}>"

    # -- a stream ---------------------------------------------------------------------------------

    def _deliver(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """Serve one stream: receive batches, and answer each with its acknowledgement."""
        with self._lock:
            self._contexts[context] = False
        try:
            for data in requests:
                with self._lock:
                    if self._closing:
                        break
                    self._contexts[context] = True
                yield encode(self._receive(data))
                with self._lock:
                    self._contexts[context] = False
                    self._lock.notify_all()
        except msgspec.DecodeError as error:
            context.abort(
                self._grpc.StatusCode.INVALID_ARGUMENT, f"this is no batch of a drainq client: {error_text(error)}"
            )
        except _Closing as closing:
            context.abort(self._grpc.StatusCode.UNAVAILABLE, str(closing))
        finally:
            with self._lock:
                del self._contexts[context]
                self._lock.notify_all()

    def _receive(self, data: bytes) -> Ack:
        batch = decode_batch(data)
        entry, first = self._received.begin(batch)
        if not first:
            self._count(repeated=len(batch.items))
            entry.done.wait()
            if entry.ack is None:
                raise _Closing("the server closes")
            return entry.ack
        self._count(received=len(batch.items))
        try:
            ack = self._handle(batch)
        except BaseException:
            self._count(received=-len(batch.items))  # the client sends them again
            self._received.drop(batch, entry)
            raise
        self._received.answer(entry, ack)
        return ack

    def _handle(self, batch: WireBatch) -> Ack:
        places: list[int] = []
        items: list[Any] = []
        refused: list[tuple[int | None, str]] = []
        for place, raw in enumerate(batch.items):
            try:
                items.append(self._decode(raw))
            except (msgspec.MsgspecError, ValueError, TypeError) as error:
                refused.append((place, self._text(error)))
            else:
                places.append(place)
        failed = self._to_queue(items) if self._queue is not None else self._to_handler(items)
        outcome = "refused" if self._queue is not None else "failed"
        self._count(handled=len(items) - len(failed), refused=len(refused))
        self._count(**{outcome: len(failed)})
        return Ack(batch.number, refused + [(None if place is None else places[place], why) for place, why in failed])

    def _to_queue(self, items: list[Any]) -> list[tuple[int | None, str]]:
        assert self._queue is not None
        accepted = self._queue.produce_many(items)
        if accepted == len(items):
            return []
        if self._queue.running:
            why = "the queue behind the server is full, and does not wait"
        elif accepted:
            why = "the queue behind the server was shut down"
        else:
            raise _Closing("the queue behind this server is shut down")
        return [(None, why)] * (len(items) - accepted)  # a queue with several partitions does not report which

    def _to_handler(self, items: list[Any]) -> list[tuple[int | None, str]]:
        assert self._own is not None
        if not items:
            return []
        delivered = _Delivered(items)
        with self._lock:
            self._waiting.add(delivered)
        if self._own.produce(delivered):
            delivered.done.wait()
        with self._lock:
            self._waiting.remove(delivered)
        if isinstance(delivered.error, _Closing):
            raise delivered.error
        if delivered.error is not None:
            why = f"the handler raised {self._text(delivered.error)}"
            return [(place, why) for place in range(len(items))]
        return []

    def _call_handler(self, batch: list[_Delivered]) -> None:
        assert self._handler is not None
        for delivered in batch:
            count = len(delivered.items)
            try:
                check_answer("the handler", self._handler(delivered.items))
                delivered.error = None
            except BaseException as error:
                delivered.error = error
                shown = to_show(error, values=self._log_values)
                log.error("the handler of %r failed with %d items", self, count, exc_info=shown)
                if not isinstance(error, Exception):
                    for each in batch:  # the queue calls no handler for the rest
                        each.done.set()
                    raise
            finally:
                delivered.done.set()

    def _text(self, error: BaseException) -> str:
        return error_text(error, values=self._log_values)

    def _count(self, **counts: int) -> None:
        with self._lock:
            for name, count in counts.items():
                self._counts[name] += count

    # -- public methods --------------------------------------------------------------------------

    def stats(self) -> RemoteServerStats:
        """Return the counters."""
        with self._lock:
            of = self._counts
            pending = of["received"] - of["handled"] - of["failed"] - of["refused"]
            return RemoteServerStats(pending=pending, streams=len(self._contexts), **of)

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until the server is closed. For a program that only serves.

        Returns:
            False if time ran out.
        """
        return self._ended.wait(seconds_or_none("timeout", timeout))

    async def wait_async(self, timeout: Seconds | None = None) -> bool:
        """Call :meth:`wait` as a coroutine."""
        return await run_aside(self.wait, timeout)

    def close(self, timeout: Seconds | None = None) -> bool:
        """Accept no further batch, wait for the running handlers, acknowledge their batches, and stop.

        The queue of ``queue=`` stays open and handles the items that it accepted.

        Args:
            timeout: seconds until it returns, whatever the handler does; None: as long as it takes.
        Returns:
            False if time ran out: clients got no acknowledgement for unfinished batches.
        """
        timeout = seconds_or_none("timeout", timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            if self._closed:
                return True
            self._closing = True
            idle = [context for context, busy in self._contexts.items() if not busy]
        for context in idle:
            context.cancel()
        with self._lock:
            done = self._lock.wait_for(lambda: not any(self._contexts.values()), _left(deadline))
            self._closed = True
        if self._own is not None:
            done = self._own.shutdown(_left(deadline)) and done
            with self._lock:
                for delivered in self._waiting:
                    delivered.done.set()
        self._server.stop(None).wait(_left(deadline))
        self._ended.set()
        return done


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
