"""OtlpMetricsExporter: sends metric points to an OpenTelemetry collector, over gRPC.

1. A request has at most 4 MiB, the default limit of a server, or less after a server has refused a smaller one. A
   larger batch is halved. A single point that is too large is refused.
2. OTLP's rules (:mod:`drainq.export.grpc_errors`) decide which failures are temporary. After such a failure the request
   is sent again, so a point may arrive twice.
3. A point that the server rejects in a partial success is refused. The server does not name these points, so they are
   counted and not kept.

Source: ``GRPCMetricsExporter.java`` in SkyWalking, which loses a batch whose call fails and counts nothing; the
OpenTelemetry protocol's specification.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drainq.arguments import Seconds, helpful, seconds
from drainq.delivery import DeliveryStopped, Failure, Refused, SendingWorker, Sink, Unavailable
from drainq.delivery.options import options_of
from drainq.export import grpc_errors
from drainq.export.grpc_channel import Calls, Connection
from drainq.export.metric_point import MetricPoint, pack_point, unpack_point
from drainq.export.optional_packages import extra
from drainq.export.otlp_encode import Encoder

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from drainq.delivery.options import SendingSettings

log = logging.getLogger("drainq")

METHOD = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
REQUEST_BYTES = 4 * 1024 * 1024  # what a gRPC server takes if it was not configured otherwise


class OtlpSink(Sink):
    """Encodes a batch, sends it as one request, and reports which points were refused.

    Args:
        connection: to the collector.
        resource: the attributes of the source of the points.
        timeout: seconds for a request.
        limit: bytes of a request.
        log_values: show a server's words even if they may hold values.
    """

    def __init__(
        self,
        connection: Connection,
        resource: Mapping[str, Any],
        *,
        timeout: float,
        limit: int = REQUEST_BYTES,
        log_values: bool = False,
    ) -> None:
        self._log_values = log_values
        [self._grpc, service] = extra("otlp", "grpc", "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
        extra("otlp", "google.rpc.error_details_pb2")
        self._answer = service.ExportMetricsServiceResponse.FromString
        self._encoder = Encoder(resource)
        self._connection, self._timeout, self._limit = connection, timeout, limit
        self.forget()

    def send(self, items: list[Any]) -> list[tuple[int | None, object]]:
        """Send points in one request."""
        try:
            return self._call(self._encoder.encode(items), range(len(items)))
        except (TypeError, ValueError, AttributeError):
            refused = self._unencodable(items)
        unfit = {place for place, _ in refused}
        left = [place for place in range(len(items)) if place not in unfit]
        return refused + (self._call(self._encoder.encode([items[place] for place in left]), left) if left else [])

    def _unencodable(self, items: list[Any]) -> list[tuple[int | None, object]]:
        refused: list[tuple[int | None, object]] = []
        for place, item in enumerate(items):
            try:
                self._encoder.encode([item])
            except (TypeError, ValueError) as error:
                refused.append((place, error))
            except AttributeError:
                refused.append((place, f"it is no MetricPoint but a {type(item).__name__}"))
        return refused

    def _call(self, request: bytes, places: Sequence[int]) -> list[tuple[int | None, object]]:
        """Send a request. Return the index of each refused point (None: unknown), with the reason."""
        if len(request) > self._limit:
            raise Refused(f"a request of {len(request)} bytes is more than the {self._limit} that a server takes")
        target = self._connection.target
        try:
            answer = self._calls.result(self._connection.unary(METHOD, self._answer), request, self._timeout)
        except self._grpc.RpcError as error:
            if grpc_errors.is_too_large(error):
                self._limit = min(self._limit, len(request) - 1)  # this server takes less than others
                raise Refused(grpc_errors.described(error, target, values=self._log_values)) from error
            failure, after = grpc_errors.meaning(error)
            message = grpc_errors.described(error, target, values=self._log_values)
            if failure is Failure.PASSES:
                raise Unavailable(message, after=after) from error
            if failure is Failure.CANNOT_PASS:
                raise DeliveryStopped(message) from error
            return [(place, message) for place in places]  # OTLP forbids a retry, also of parts of the request
        words = f": {answer.partial_success.error_message}" if self._log_values else ""
        rejected = min(answer.partial_success.rejected_data_points, len(places))
        if answer.partial_success.error_message and not rejected:
            log.warning("%s took all points, and gives a warning%s", target, words)
        reason = f"{target} rejected {rejected} of {len(places)} points{words}"
        return [(None, reason)] * rejected

    def cancel(self) -> None:
        """Cancel running requests."""
        self._calls.cancel()

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    def forget(self) -> None:
        """Start afresh in a forked child, as the connection does."""
        self._calls = Calls(self._grpc)


class OtlpMetricsExporter(SendingWorker[MetricPoint]):
    """Send :class:`MetricPoint` items to an OpenTelemetry collector, over OTLP/gRPC.

    A batch becomes a request. If it fails for a temporary reason by OTLP's rules, it is sent again for up to
    ``retry_for`` seconds. Meanwhile the queue fills, and producers wait. Points may arrive twice.

    Args:
        endpoint: ``host:port`` or ``https://host:port`` of the collector; OTLP's port is 4317.
        insecure: send without TLS, with a warning if the collector is on another machine.
        headers: sent with each request: names to values, such as a token; they are never logged.
        timeout: seconds for one request.
        resource: the source of all points, as attributes: ``{"service.name": "shop"}``.
        certificate: a PEM file, or its bytes, with the authorities trusted to sign the server's certificate.
        client_certificate, client_key: PEM files, or their bytes, if the server asks for a certificate.
        settings: ``queue``, ``weight``, ``options``, and the fields of :class:`~drainq.workers.WorkerOptions`.
    Raises:
        ImportError: the extra ``otlp`` is not installed.
        TypeError, ValueError: an argument is invalid.

    Example:
        >>> exporter = OtlpMetricsExporter(endpoint="localhost:4317", insecure=True, retry_for=0)
        >>> exporter.close()
        True

    Source: ``GRPCMetricsExporter.java`` in SkyWalking; the OpenTelemetry protocol's specification.
    """

    _item_types = (MetricPoint,)

    @helpful
    def __init__(
        self,
        *,
        endpoint: str,
        insecure: bool = False,
        headers: Mapping[str, str] | None = None,
        timeout: Seconds = 10.0,
        resource: Mapping[str, Any] | None = None,
        certificate: str | Path | bytes | None = None,
        client_certificate: str | Path | bytes | None = None,
        client_key: str | Path | bytes | None = None,
        **settings: Unpack[SendingSettings],
    ) -> None:
        timeout = seconds("timeout", timeout, positive=True)
        connection = Connection(
            endpoint,
            needs="otlp",
            insecure=insecure,
            headers=headers,
            certificate=certificate,
            client_certificate=client_certificate,
            client_key=client_key,
        )
        super().__init__(
            OtlpSink(connection, resource or {}, timeout=timeout, log_values=options_of(self, settings).log_values),
            default_name=f"otlp-metrics/{connection.target}",
            pack_item=pack_point,
            unpack_item=unpack_point,
            **settings,
        )
