"""Encodes metric points as OTLP requests.

Points of one name, kind, unit, description, temporality and monotonicity become one metric. The messages are those of
the package ``opentelemetry-proto``. Attributes are most of the work and repeat, so their bytes are cached and merged
into each sum and gauge that has them.

Source: ``opentelemetry/proto/metrics/v1/metrics.proto``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drainq.errors import UnfitItem
from drainq.export.metric_point import MetricPoint
from drainq.export.optional_packages import extra

MOST_KNOWN = 10_000  # sets of attributes whose bytes are kept


class Encoder:
    """Converts points to the bytes of ``ExportMetricsServiceRequest``.

    Args:
        resource: the source of all points: ``{"service.name": "shop"}``.
        scope: the name and version of the measuring library.
    Raises:
        ImportError: the extra ``otlp`` is not installed.
        TypeError, ValueError: an attribute of the resource cannot be expressed.
    """

    def __init__(self, resource: Mapping[str, Any], *, scope: tuple[str, str] = ("drainq", "")) -> None:
        service, metrics = extra(
            "otlp",
            "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2",
            "opentelemetry.proto.metrics.v1.metrics_pb2",
        )
        self._request, self._point = service.ExportMetricsServiceRequest, metrics.NumberDataPoint
        self._known: dict[Any, bytes] = {}  # attributes -> their bytes; replaced as a whole, so threads need no lock
        self._resource, self._scope = dict(resource), scope
        self.encode([])  # raises an error for an invalid attribute of the resource

    def encode(self, points: Sequence[MetricPoint]) -> bytes:
        """Return the bytes of one request.

        Raises:
            TypeError, ValueError: an attribute of a point cannot be expressed.
            AttributeError: an item is no point.
        """
        request = self._request()
        resource = request.resource_metrics.add()
        set_attributes(resource.resource.attributes, self._resource)
        scope = resource.scope_metrics.add()
        scope.scope.name, scope.scope.version = self._scope
        add_metric = scope.metrics.add
        adders: dict[tuple[Any, ...], Callable[[MetricPoint], Any]] = {}
        for point in points:
            metric = (point.name, point.kind, point.unit, point.description, point.monotonic, point.cumulative)
            add = adders.get(metric)
            if add is None:
                add = adders[metric] = _adder(add_metric(), point)
            added, attributes = add(point), point.attributes
            if not attributes:
                continue
            if point.kind == "sum" or point.kind == "gauge":
                added.MergeFromString(self._encoded(attributes))
            else:
                set_attributes(added.attributes, attributes)
        encoded: bytes = request.SerializeToString()
        return encoded

    def _encoded(self, attributes: Mapping[str, Any]) -> bytes:
        """Return the bytes of a data point with only these attributes, for a number."""
        key: Any = (*attributes.items(), *map(type, attributes.values()))  # True, 1 and 1.0 are equal
        try:
            known = self._known.get(key)
        except TypeError:  # a list among the values
            known, key = None, None
        if known is None:
            point = self._point()
            set_attributes(point.attributes, attributes)
            known = point.SerializeToString()
            if key is not None:
                if len(self._known) >= MOST_KNOWN:
                    self._known = {}
                self._known[key] = known
        return known


def set_attributes(messages: Any, attributes: Mapping[str, Any]) -> None:
    """Add attributes to a repeated field of ``KeyValue`` messages.

    Raises:
        UnfitItem: OTLP cannot express an attribute; the message names it.
    """
    add = messages.add
    for key, value in attributes.items():
        try:
            into = add(key=key).value
            of = type(value)
            if of is str:
                into.string_value = value
            elif of is int:
                into.int_value = value
            else:
                _set_any(into, value)
        except (TypeError, ValueError) as error:  # not UTF-8, more than 64 bits, a class that OTLP does not know
            raise UnfitItem(
                f"the attribute {key!r} must be a str, bool, int of 64 bits, float, bytes or a list of these, "
                f"got a {type(value).__name__} ({type(error).__name__})"
            ) from error


def _set_any(into: Any, value: Any) -> None:
    if isinstance(value, (list, tuple)):
        into.array_value.SetInParent()
        for one in value:
            _set_any(into.array_value.values.add(), one)
    else:
        for of, field in _FIELDS.items():
            if isinstance(value, of):
                setattr(into, field, value)
                return
        raise TypeError(f"there is no attribute of class {type(value).__name__}")


_FIELDS: dict[type, str] = {
    str: "string_value",
    bool: "bool_value",  # before int, its base class
    int: "int_value",
    float: "double_value",
    bytes: "bytes_value",
}


def _adder(metric: Any, point: MetricPoint) -> Callable[[MetricPoint], Any]:
    """Fill in a metric from its first point. Return a function that adds a point, without attributes, to the metric."""
    metric.name, metric.unit, metric.description = point.name, point.unit, point.description
    data = getattr(metric, point.kind)
    data.SetInParent()
    if point.kind != "gauge":
        data.aggregation_temporality = 2 if point.cumulative else 1  # AggregationTemporality
    if point.kind == "sum":
        data.is_monotonic = point.monotonic
    add = data.data_points.add
    if point.kind == "histogram":
        return lambda point: _add_histogram(add, point)
    if point.kind == "exponential_histogram":
        return lambda point: _add_exponential(add, point)
    return lambda point: _add_number(add, point)


def _add_number(add: Callable[..., Any], point: MetricPoint) -> Any:
    value, time = point.value, int(point.time * 1e9)
    added = add(time_unix_nano=time, as_int=value) if type(value) is int else add(time_unix_nano=time, as_double=value)
    if point.start is not None:
        added.start_time_unix_nano = int(point.start * 1e9)
    return added


def _add_histogram(add: Callable[..., Any], point: MetricPoint) -> Any:
    value = point.value
    added = add(
        time_unix_nano=int(point.time * 1e9),
        count=value.count,
        sum=value.sum,
        bucket_counts=value.counts,
        explicit_bounds=value.bounds,
    )
    _set_range(added, point)
    return added


def _add_exponential(add: Callable[..., Any], point: MetricPoint) -> Any:
    value = point.value
    added = add(
        time_unix_nano=int(point.time * 1e9),
        count=value.count,
        sum=value.sum,
        scale=value.scale,
        zero_count=value.zero_count,
    )
    for side, buckets in ((added.positive, value.positive), (added.negative, value.negative)):
        if buckets.counts:
            side.offset = buckets.offset
            side.bucket_counts.extend(buckets.counts)
    _set_range(added, point)
    return added


def _set_range(added: Any, point: MetricPoint) -> None:
    if point.start is not None:
        added.start_time_unix_nano = int(point.start * 1e9)
    if point.value.min is not None:
        added.min = point.value.min
    if point.value.max is not None:
        added.max = point.value.max
