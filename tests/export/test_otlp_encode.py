"""Points become OTLP messages that hold what the points hold."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from drainq.export import Histogram, MetricPoint
from drainq.export.metric_point import pack_point
from drainq.export.otlp_encode import Encoder
from drainq.sketch import DDSketch

service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")

from tests.export.otlp_server import points_of  # noqa: E402


def decoded(points, **more):
    return service.ExportMetricsServiceRequest.FromString(Encoder({}, **more).encode(points))


def test_a_sum_and_a_gauge_keep_value_attributes_and_times():
    sent = [
        MetricPoint(
            "hits", 3, {"page": "/", "ok": True, "n": 7, "f": 0.5, "b": b"\0\xff", "l": ["a", 1], "no": ()}, time=2.5
        ),
        MetricPoint("hits", 4.5, time=3.0, start=1.0),
        MetricPoint("load", -2, kind="gauge", unit="1", description="how busy", time=4.0),
    ]
    hits, more, load = points_of(decoded(sent))
    assert (hits[0], hits[2].as_int, hits[2].time_unix_nano) == ("hits", 3, 2_500_000_000)
    assert (hits[1].aggregation_temporality, hits[1].is_monotonic) == (1, True)
    found = {a.key: a.value for a in hits[2].attributes}
    assert {key: value.WhichOneof("value") for key, value in found.items()} == {
        "page": "string_value",
        "ok": "bool_value",
        "n": "int_value",
        "f": "double_value",
        "b": "bytes_value",
        "l": "array_value",
        "no": "array_value",
    }
    assert found["b"].bytes_value == b"\0\xff" and found["l"].array_value.values[1].int_value == 1
    assert (more[2].as_double, more[2].start_time_unix_nano) == (4.5, 1_000_000_000)
    assert (load[0], load[2].as_int) == ("load", -2)
    [resource] = decoded(sent).resource_metrics
    assert [(m.name, m.unit, m.description) for m in resource.scope_metrics[0].metrics] == [
        ("hits", "", ""),
        ("load", "1", "how busy"),
    ]


def test_metrics_that_differ_in_more_than_the_name_stay_apart():
    sent = [
        MetricPoint("m", 1),
        MetricPoint("m", 1, monotonic=False),
        MetricPoint("m", 1, cumulative=True, start=1.0),
        MetricPoint("m", 1, kind="gauge"),
        MetricPoint("m", 1, description="of another kind"),
        MetricPoint("m", 1, unit="s"),
        MetricPoint("m", 2),
    ]
    metrics = decoded(sent).resource_metrics[0].scope_metrics[0].metrics
    assert [(m.WhichOneof("data"), m.sum.is_monotonic, m.sum.aggregation_temporality) for m in metrics] == [
        ("sum", True, 1),
        ("sum", False, 1),
        ("sum", True, 2),
        ("gauge", False, 0),
        ("sum", True, 1),
        ("sum", True, 1),
    ]
    assert [(m.description, m.unit, len(m.sum.data_points)) for m in metrics] == [
        ("", "", 2), ("", "", 1), ("", "", 1), ("", "", 0), ("of another kind", "", 1), ("", "s", 1)
    ]  # fmt: skip


def test_a_histogram_of_a_sketch_is_exponential():
    sketch = DDSketch()
    sketch.add(2.0)
    assert MetricPoint("m", sketch, kind="histogram").kind == "exponential_histogram"


def test_attributes_that_are_equal_and_of_different_types_stay_apart():
    found = points_of(decoded([MetricPoint("m", n, {"a": value}) for n, value in enumerate((1, True, 1.0, 1))]))
    kinds = [point.attributes[0].value.WhichOneof("value") for _, _, point in found]
    assert kinds == ["int_value", "bool_value", "double_value", "int_value"]


def test_a_histogram_keeps_its_buckets():
    value = Histogram([0.1, 1.0], [8, 3, 1], sum=6.25, min=0.01, max=3.0)
    [(_, data, point)] = points_of(decoded([MetricPoint("latency", value, kind="histogram", unit="s", start=2.5)]))
    assert (point.count, point.sum, list(point.bucket_counts), list(point.explicit_bounds)) == (
        12,
        6.25,
        [8, 3, 1],
        [0.1, 1.0],
    )
    assert (point.min, point.max, data.aggregation_temporality) == (0.01, 3.0, 1)
    assert point.start_time_unix_nano == 2_500_000_000
    for known in (None, 0.0):
        value = Histogram([0.1], [1, 0], sum=0.0, min=known, max=known)
        [(_, _, point)] = points_of(decoded([MetricPoint("latency", value, kind="histogram")]))
        assert point.HasField("min") is point.HasField("max") is (known is not None)


def test_an_exponential_histogram_has_the_buckets_of_its_sketch():
    sketch = DDSketch(0.01)
    sketch.add_many([0, 0, 1.5, 1.5, 1e-3, 70.0, -9.0])
    sent = MetricPoint("m", sketch, kind="exponential_histogram")
    sketch.add(5.0)  # after the point was made
    [(_, data, point)] = points_of(decoded([sent]))
    assert (point.count, point.zero_count, data.aggregation_temporality) == (7, 2, 1)
    assert (point.sum, point.min, point.max) == (pytest.approx(64.001), -9.0, 70.0)
    base = 2.0 ** (2.0**-point.scale)
    found = [
        sign * base ** (side.offset + place + 0.5)
        for sign, side in ((1, point.positive), (-1, point.negative))
        for place, count in enumerate(side.bucket_counts)
        for _ in range(count)
    ]
    assert sorted(found) == [pytest.approx(value, rel=0.011) for value in (-9.0, 1e-3, 1.5, 1.5, 70.0)]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"value": float("nan")}, ValueError, "the value of 'm' must be a finite number, got nan"),
        ({"value": float("inf"), "kind": "gauge"}, ValueError, "finite number, got inf"),
        ({"value": type("Reading", (float,), {})("nan")}, ValueError, "must be a finite number"),
        ({"value": 2**63}, ValueError, "64 bits"),
        ({"value": -(2**63) - 1}, ValueError, "64 bits"),
        ({"value": True}, TypeError, "must be an int or a float, got a bool"),
        ({"value": "1"}, TypeError, "must be an int or a float, got a str"),
        ({"value": 1, "kind": "counter"}, ValueError, "kind must be one of 'sum', 'gauge'"),
        ({"value": 1, "name": ""}, ValueError, "name must be a str that is not empty, got ''"),
        ({"value": 1, "kind": "histogram"}, TypeError, "must be a Histogram, got a int"),
        ({"value": [1.0], "kind": "exponential_histogram"}, TypeError, "must be a DDSketch, got a list"),
    ],
)
def test_a_point_that_cannot_be_sent_is_refused_when_it_is_made(arguments, error, message):
    with pytest.raises(error, match=message):
        MetricPoint(**{"name": "m", **arguments})


@pytest.mark.parametrize("value", [None, {"a": 1}, 2**70, [object()], "\ud800"])
def test_an_attribute_that_otlp_cannot_express_is_named(value):
    with pytest.raises((TypeError, ValueError), match="the attribute 'page' must be"):
        decoded([MetricPoint("m", 1, {"page": value})])
    with pytest.raises((TypeError, ValueError), match=r"the attribute 'page' must be .* got a \w+ \(\w+Error\)$"):
        Encoder({"page": value})


@pytest.mark.parametrize(
    ("bounds", "counts"),
    [([1.0, 1.0], [1, 1, 1]), ([2.0, 1.0], [1, 1, 1]), ([1.0], [1]), ([1.0], [1, 1, 1]), ([1.0], [1, -1])],
)
def test_a_histogram_whose_buckets_do_not_fit_is_refused(bounds, counts):
    with pytest.raises(ValueError, match="(bounds|counts) must"):
        Histogram(bounds, counts, sum=1.0)


def test_numbers_of_other_classes_become_plain_ones():
    class Index:
        number = 7

        def __index__(self):
            return self.number

    class Float(float):
        pass

    assert type(MetricPoint("m", Index()).value) is int
    assert type(MetricPoint("m", Float(1.5)).value) is float
    Index.number = 2**63
    with pytest.raises(ValueError, match="must be a finite number of 64 bits"):
        MetricPoint("m", Index())
    for number in (-(2**63), 2**63 - 1):
        Index.number = number
        assert MetricPoint("m", Index()).value == MetricPoint("m", number).value == number
    assert type(pack_point(MetricPoint("m", 1, MappingProxyType({"a": 1})))["attributes"]) is dict
