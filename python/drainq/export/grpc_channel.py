"""A gRPC channel to one endpoint: address, TLS and headers. Opened at the first call, one for each process.

1. TLS is used unless ``insecure=True``, which warns if the target is another machine.
2. Headers and keys are credentials, so no ``repr`` and no message shows them.
3. A forked child opens its own channel, and does not touch the parent's.

Source: "Authentication" in gRPC's guides; the OTLP specification for the meaning of ``http`` and ``https``.
"""

from __future__ import annotations

import ipaddress
import re
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from drainq.errors import DrainqWarning
from drainq.export.optional_packages import extra
from drainq.fork import leave_to_parent, renew_in_child


class Calls:
    """The running calls of one sink. The thread that makes a call waits for it.

    :meth:`cancel` ends every running call. Later calls fail at once, because only ``close`` cancels a sink.
    """

    def __init__(self, grpc: Any) -> None:
        self._cancelled_error = grpc.FutureCancelledError
        self._lock = threading.Lock()
        self._running: set[Any] = set()
        self._over = False

    def result(self, method: Callable[[Any, float], Any], request: Any, timeout: float) -> Any:
        """Call a method and wait for its answer.

        Raises:
            grpc.RpcError: the call failed or was cancelled.
        """
        call = method(request, timeout)
        with self._lock:
            self._running.add(call)
            over = self._over
        if over:
            call.cancel()
        try:
            error = call.exception()
            if error is not None:
                raise error
            return call.result()
        except self._cancelled_error:
            raise call from None  # a call is its own error, with code and details
        finally:
            with self._lock:
                self._running.discard(call)

    def cancel(self) -> None:
        """Make all running and later calls fail."""
        with self._lock:
            self._over = True
            running = list(self._running)
        for call in running:
            call.cancel()


_HEADER = re.compile(r"[0-9a-z_.-]+")

OPTIONS = {
    "grpc.use_local_subchannel_pool": 1,  # two exporters do not share a connection that is broken, or busy
    # A call fails at once while the channel waits to connect again: that wait must be shorter than a back-off.
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.min_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 2000,
    "grpc.max_receive_message_length": 4 * 1024 * 1024,
}


class Connection:
    """The settings for calls to one endpoint.

    Args:
        endpoint: ``host:port``, ``https://host:port``, ``http://host:port`` or ``unix:/path``.
        needs: the extra of drainq to name if grpcio is missing.
        parameter: the name of the endpoint argument, for errors.
        insecure: send without TLS.
        headers: sent with each call; names in lower case.
        certificate: a PEM file, or its bytes, with the authorities trusted to sign the server's certificate. None: the
            authorities that gRPC trusts.
        client_certificate, client_key: PEM files, or their bytes, if the server asks for a certificate of the client.
    Raises:
        ImportError: grpcio is not installed.
        TypeError, ValueError: an argument is invalid.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        needs: str,
        parameter: str = "endpoint",
        insecure: bool = False,
        headers: Mapping[str, str] | None = None,
        certificate: str | Path | bytes | None = None,
        client_certificate: str | Path | bytes | None = None,
        client_key: str | Path | bytes | None = None,
    ) -> None:
        [self._grpc] = extra(needs, "grpc")
        self.target = target(parameter, endpoint, insecure=insecure)
        keys = {"certificate": certificate, "client_certificate": client_certificate, "client_key": client_key}
        if insecure and any(value is not None for value in keys.values()):
            raise ValueError("insecure=True sends without TLS, and a certificate asks for it: take one of them")
        if (client_certificate is None) != (client_key is None):
            raise ValueError("client_certificate and client_key go together; got only one of them")
        if insecure and not is_loopback(self.target):
            warnings.warn(
                f"{parameter} {self.target!r} is not on this machine, and insecure=True sends items and headers to it "
                f"unencrypted",
                DrainqWarning,
                stacklevel=frames_inside() + 1,
            )
        self._metadata = metadata(headers)
        self._credentials = (
            None if insecure else self._grpc.ssl_channel_credentials(*(pem(*key) for key in _in_order(keys)))
        )
        self._options = list(OPTIONS.items())
        self._renew_in_child()
        renew_in_child(self)

    def __repr__(self) -> str:
        return f"<Connection to {self.target}, {'without' if self._credentials is None else 'with'} TLS>"

    def _renew_in_child(self) -> None:
        leave_to_parent(getattr(self, "_channel", None))
        self._lock = threading.Lock()
        self._channel: Any = None

    def channel(self) -> Any:
        """Return the channel of this process, which connects, and reconnects, by itself."""
        with self._lock:
            if self._channel is None:
                self._channel = (
                    self._grpc.insecure_channel(self.target, self._options)
                    if self._credentials is None
                    else self._grpc.secure_channel(self.target, self._credentials, self._options)
                )
            return self._channel

    def unary(self, method: str, answer: Any) -> Any:
        """Return the method ``/package.Service/Method``, which takes bytes. ``answer`` converts the returned bytes.

        Returns:
            A callable ``(request: bytes, timeout: seconds) -> grpc.Future``.
        """
        call = self.channel().unary_unary(method, request_serializer=None, response_deserializer=answer)
        return lambda request, timeout: call.future(request, timeout=timeout, metadata=self._metadata)

    def streaming(self, method: str, answer: Any) -> Any:
        """Return a method that takes a stream of bytes and answers once. ``answer`` converts the bytes of its answer.

        Returns:
            A callable ``(requests: Iterator[bytes], timeout: seconds) -> grpc.Future``.
        """
        call = self.channel().stream_unary(method, request_serializer=None, response_deserializer=answer)
        return lambda requests, timeout: call.future(requests, timeout=timeout, metadata=self._metadata)

    def stream(self, method: str) -> Any:
        """Return a method that streams bytes in both directions.

        Returns:
            A callable ``(requests: Iterator[bytes]) -> grpc.Call``, which iterates over the answers.
        """
        call = self.channel().stream_stream(method, request_serializer=None, response_deserializer=None)
        return lambda requests: call(requests, metadata=self._metadata)

    def close(self) -> None:
        """Cancel the running calls, and disconnect. A later call connects again."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()


def frames_inside() -> int:
    """Count the consecutive frames of drainq above the caller, so that a warning points to the user's code."""
    package, count = str(Path(__file__).parents[1]), 0
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, count = frame.f_back, count + 1
    return count


def target(parameter: str, endpoint: object, *, insecure: bool = True) -> str:
    """Return an endpoint in the form that grpcio takes.

    Raises:
        TypeError, ValueError: it is no endpoint, or its scheme and ``insecure`` contradict each other.

    Example:
        >>> target("endpoint", "https://collector:4317", insecure=False)
        'collector:4317'
        >>> target("endpoint", "collector")
        Traceback (most recent call last):
        ValueError: endpoint must be 'host:port', perhaps after 'https://', or 'unix:/path', got 'collector'
    """
    if not isinstance(endpoint, str):
        shown = (
            repr(endpoint) if endpoint is None or isinstance(endpoint, (int, float)) else f"a {type(endpoint).__name__}"
        )
        raise TypeError(f"{parameter} must be a str 'host:port', got {shown}")
    if endpoint.startswith("unix:"):
        return endpoint
    scheme, separator, rest = endpoint.rpartition("://")
    host, _, port = rest.rstrip("/").rpartition(":")
    if not (scheme in ("", "http", "https") and host and port.isdigit() and int(port) < 65536) or re.search(
        r"[/@\s]", host
    ):
        may_hold_password = re.search("[@?=]", endpoint)
        shown = "a text that is not shown, because it may hold a password" if may_hold_password else repr(endpoint)
        raise ValueError(f"{parameter} must be 'host:port', perhaps after 'https://', or 'unix:/path', got {shown}")
    if separator and (scheme == "http") != insecure:
        raise ValueError(
            f"{parameter} {endpoint!r} and insecure={insecure} contradict each other: http:// is insecure=True, "
            f"https:// is insecure=False"
        )
    return rest.rstrip("/")


def is_loopback(target: str) -> bool:
    """Return whether a target is this machine, so that no data crosses a network.

    Example:
        >>> [is_loopback(one) for one in ("localhost:1", "127.0.0.1:1", "[::1]:1", "unix:/s", "10.0.0.1:1", "host:1")]
        [True, True, True, True, False, False]
    """
    if target.startswith("unix:"):
        return True
    host = target.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def metadata(headers: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Convert headers to grpcio's form. An error names a header and not its value."""
    if headers is not None and not isinstance(headers, Mapping):
        raise TypeError(f"headers must be a mapping of names to values, got a {type(headers).__name__}")
    for name, value in (headers or {}).items():
        if not isinstance(name, str) or not _HEADER.fullmatch(name.lower()) or name.lower().startswith("grpc-"):
            raise ValueError(f"a header's name must be letters, digits and '-', '_', '.', got {name!r}")
        if name.endswith("-bin"):
            raise ValueError(f"the header {name!r} would have to be bytes; headers here are text")
        if not isinstance(value, str) or not value.isascii() or not value.isprintable():
            raise ValueError(f"the value of the header {name!r} must be printable ASCII text")
    return tuple((name.lower(), value) for name, value in (headers or {}).items())


def pem(parameter: str, source: str | Path | bytes | None) -> bytes | None:
    """Return the bytes of a PEM file, or the given bytes. An error does not show them."""
    if source is None or isinstance(source, bytes):
        content = source
    elif isinstance(source, str) and "-----BEGIN " in source:
        raise TypeError(f"{parameter} must be the path of a PEM file, or its bytes, got its text: encode it")
    elif isinstance(source, (str, Path)):
        try:
            content = Path(source).read_bytes()
        except OSError as error:
            raise ValueError(f"{parameter} must be a PEM file, got {str(source)!r}: {error}") from error
    else:
        raise TypeError(f"{parameter} must be the path of a PEM file, or its bytes, got a {type(source).__name__}")
    if content is not None and b"-----BEGIN " not in content:
        raise ValueError(f"{parameter} is not PEM: there is no '-----BEGIN' in it")
    return content


def _in_order(keys: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the arguments of ``ssl_channel_credentials``: authorities, private key, chain."""
    return [(name, keys[name]) for name in ("certificate", "client_key", "client_certificate")]
