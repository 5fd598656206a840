"""SkyWalkingMetricsExporter: sends metric points to a server of SkyWalking's metrics export service.

1. Values are whole numbers of 64 bits, the only type that all versions of the service accept.
2. A batch is one stream, and counts as sent when the server has answered. The answer is empty, so a failed stream is
   sent again as a whole: at least once.
3. The server lists the metrics that it wants, each as the growth (``INCREMENT``) or the present value (``TOTAL``). The
   exporter asks again every 30 seconds. An empty list means every increment. All other points are counted as refused.

Source: ``metric-exporter.proto`` and ``GRPCMetricsExporter.java`` in SkyWalking. The latter silently skips points
without an entity or of other kinds, and loses a batch whose stream fails.
"""

from __future__ import annotations

import base64
import datetime
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from drainq.arguments import Seconds, helpful, seconds
from drainq.clock import Clock, MonotonicClock
from drainq.delivery import DeliveryStopped, Failure, SendingWorker, Sink, Unavailable
from drainq.delivery.options import options_of
from drainq.delivery.sink_contract import Refusals
from drainq.errors import UnfitItem
from drainq.export import grpc_errors
from drainq.export.grpc_channel import Calls, Connection
from drainq.export.metric_point import MetricPoint, pack_point, unpack_point
from drainq.export.optional_packages import extra
from drainq.export.skywalking_messages import EXPORT, INCREMENT, SUBSCRIPTION, TOTAL, messages

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from drainq.delivery.options import SendingSettings

log = logging.getLogger("drainq")

ENTITY, ENTITY_ID = "entity", "entity_id"
_BUCKETS = {"minute": "%Y%m%d%H%M", "hour": "%Y%m%d%H", "day": "%Y%m%d"}
_INT64 = range(-(2**63), 2**63)


class SkyWalkingSink(Sink):
    """Streams the wanted points of a batch; see the module."""

    def __init__(
        self,
        connection: Connection,
        protocol: Any,
        *,
        timeout: float,
        bucket: str,
        zone: ZoneInfo,
        ask_every: float,
        clock: Clock,
        log_values: bool,
    ) -> None:
        self._log_values = log_values
        [self._grpc] = extra("grpc", "grpc")
        self._connection, self._protocol, self._timeout = connection, protocol, timeout
        self._format, self._zone = _BUCKETS[bucket], zone
        self._ask_every, self._clock = ask_every, clock
        fields = protocol.ExportMetricValue.DESCRIPTOR.fields_by_name
        self._labelled, self._says_event = "metricValues" in fields, "eventType" in fields
        self.forget()

    def forget(self) -> None:
        """Start afresh in a forked child."""
        self._calls = Calls(self._grpc)
        self._wanted: frozenset[tuple[str, int]] = frozenset()
        self._asked_at: float | None = None

    def send(self, items: list[Any]) -> Refusals:
        """Stream points. Return the refused ones."""
        self._ask()
        refused: list[tuple[int | None, object]] = []
        values: list[bytes] = []
        for place, point in enumerate(items):
            try:
                values.append(self._value(point))
            except (TypeError, ValueError) as error:
                refused.append((place, error))
        if values:
            self._call(self._connection.streaming(EXPORT, self._protocol.ExportResponse.FromString), iter(values))
        return refused

    def _ask(self) -> None:
        """Ask the server which metrics it wants, if the last answer is old. If that fails, the last answer stays."""
        now = self._clock.now()
        if self._asked_at is not None and 0 <= now - self._asked_at < self._ask_every:
            return
        method = self._connection.unary(SUBSCRIPTION, self._protocol.SubscriptionsResp.FromString)
        try:
            answer = self._call(method, b"")
        except Unavailable:
            if self._asked_at is None:
                raise
            log.warning("%s did not say which metrics it wants; the last list is used", self._connection.target)
        else:
            self._wanted = frozenset((metric.metricName, metric.eventType) for metric in answer.metrics)
        self._asked_at = now

    def _value(self, point: Any) -> bytes:
        """Convert a point to a message.

        Raises:
            TypeError, ValueError: the service cannot express it, or does not want it.
        """
        if not isinstance(point, MetricPoint):
            raise UnfitItem(f"it is no MetricPoint but a {type(point).__name__}")
        event = INCREMENT if point.kind == "sum" and not point.cumulative else TOTAL
        if (point.name, event) not in self._wanted and (self._wanted or event == TOTAL):
            raise UnfitItem(f"the server does not want the {'total' if event else 'increment'} of {point.name!r}")
        number = point.value
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if not isinstance(number, int) or number not in _INT64:
            raise UnfitItem(f"the value of {point.name!r} must be a whole number of 64 bits")
        labels = {name: value for name, value in point.attributes.items() if name not in (ENTITY, ENTITY_ID)}
        entity = point.attributes.get(ENTITY)
        if not isinstance(entity, str) or not entity:
            raise UnfitItem(f"the point of {point.name!r} needs the attribute {ENTITY!r}: what it is about")
        if labels and not self._labelled:
            raise UnfitItem(f"this version of the service has no labels, and {point.name!r} has {sorted(labels)}")
        message = self._protocol.ExportMetricValue(
            metricName=point.name,
            entityName=entity,
            entityId=str(point.attributes.get(ENTITY_ID) or service_id(entity)),
            timeBucket=int(datetime.datetime.fromtimestamp(point.time, self._zone).strftime(self._format)),
        )
        if self._says_event:
            message.eventType = event
        if self._labelled:
            value = message.metricValues.add(longValue=number)
            for name, text in labels.items():
                value.labels.add(key=name, value=str(text))
        else:
            message.longValue = number
        encoded: bytes = message.SerializeToString()
        return encoded

    def _call(self, method: Any, request: bytes | Iterator[bytes]) -> Any:
        try:
            return self._calls.result(method, request, self._timeout)
        except self._grpc.RpcError as error:
            failure, after = grpc_errors.meaning(error)
            text = grpc_errors.described(error, self._connection.target, values=self._log_values)
            if failure is Failure.CANNOT_PASS:
                raise DeliveryStopped(text) from error
            raise Unavailable(text, after=after) from error  # a failed stream does not name the refused point

    def cancel(self) -> None:
        """Cancel running streams."""
        self._calls.cancel()

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()


class SkyWalkingMetricsExporter(SendingWorker[MetricPoint]):
    """Send :class:`MetricPoint` items to a server of SkyWalking's ``MetricExportService``.

    A point needs the attribute ``"entity"``, the name of the measured thing. ``"entity_id"`` is SkyWalking's id of it,
    by default that of a service with this name. Other attributes are labels, which the service has from version 10 on.
    A sum is sent as an increment; a gauge or a cumulative sum as a total.

    Args:
        endpoint: ``host:port`` or ``https://host:port`` of the server; SkyWalking's port is 9870.
        insecure: send without TLS, with a warning if the server is on another machine.
        bucket: the unit to which a point's time is truncated: ``"minute"``, ``"hour"`` or ``"day"``.
        time_zone: the server's zone for the time buckets, an IANA name.
        protocol: a module generated from another version's ``metric-exporter.proto``; None: the published one of
            version 9.
        ask_every: seconds after which the server is asked again which metrics it wants.
        headers, timeout, certificate, settings: as for :class:`OtlpMetricsExporter`.
    Raises:
        ImportError: the extra ``grpc`` is not installed.
        TypeError, ValueError: an argument is invalid.

    Example:
        >>> exporter = SkyWalkingMetricsExporter(endpoint="localhost:9870", insecure=True, retry_for=0)
        >>> exporter.close()
        True

    Source: ``GRPCMetricsExporter.java`` in SkyWalking.
    """

    _item_types = (MetricPoint,)

    @helpful
    def __init__(
        self,
        *,
        endpoint: str,
        insecure: bool = False,
        bucket: Literal["minute", "hour", "day"] = "minute",
        time_zone: str = "UTC",
        protocol: Any = None,
        ask_every: Seconds = 30.0,
        headers: Mapping[str, str] | None = None,
        timeout: Seconds = 10.0,
        certificate: str | Path | bytes | None = None,
        **settings: Unpack[SendingSettings],
    ) -> None:
        if bucket not in _BUCKETS:
            raise ValueError(f"bucket must be one of {', '.join(map(repr, _BUCKETS))}, got {bucket!r}")
        try:
            zone = ZoneInfo(time_zone)
        except (ZoneInfoNotFoundError, ValueError, TypeError) as error:
            raise ValueError(f"time_zone must be an IANA name such as 'Europe/Bucharest', got {time_zone!r}") from error
        timeout = seconds("timeout", timeout, positive=True)
        ask_every = seconds("ask_every", ask_every, positive=True)
        if protocol is not None and not hasattr(protocol, "ExportMetricValue"):
            raise TypeError(f"protocol must be a module generated from metric-exporter.proto, got {protocol!r}")
        connection = Connection(endpoint, needs="grpc", insecure=insecure, headers=headers, certificate=certificate)
        options = options_of(self, settings)
        sink = SkyWalkingSink(
            connection,
            messages() if protocol is None else protocol,
            timeout=timeout,
            bucket=bucket,
            zone=zone,
            ask_every=ask_every,
            clock=options.clock or MonotonicClock(),
            log_values=options.log_values,
        )
        super().__init__(
            sink,
            default_name=f"skywalking-metrics/{connection.target}",
            pack_item=pack_point,
            unpack_item=unpack_point,
            **settings,
        )


def service_id(name: str) -> str:
    """Return SkyWalking's id of a service.

    Example:
        >>> service_id("shop")
        'c2hvcA==.1'
    """
    return f"{base64.b64encode(name.encode()).decode()}.1"
