"""OpenTelemetry: every counter and gauge as an observable instrument."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
from drainq._native import metric_families
from drainq.monitoring import instrument
from drainq.monitoring.opentelemetry import instrument_name


def collected(reader):
    metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    return {metric.name: metric for metric in metrics}


def test_a_collection_reads_the_counters_of_now():
    reader = InMemoryMetricReader()
    instrument(MeterProvider([reader]))
    config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=lambda batch: None)
    with BatchQueue("otel", config) as queue:
        for expected in (3, 6):
            queue.produce_many([1, 2, 3])
            queue.flush()
            handled = collected(reader)["drainq.batch.handled"]
            points = {point.attributes["queue"]: point.value for point in handled.data.data_points}
            assert points["otel"] == expected
            assert handled.data.is_monotonic
    assert collected(reader)["drainq.batch.buffer_bytes"].unit == "By"


def test_there_is_an_instrument_for_each_family_that_is_no_histogram():
    made = []

    def create(kind):
        return lambda name, callbacks, unit, description: made.append((name, kind, description))

    meter = SimpleNamespace(create_observable_counter=create("counter"), create_observable_gauge=create("gauge"))
    instrument(SimpleNamespace(get_meter=lambda name: meter))
    families = [(instrument_name(name), kind, told) for name, kind, _, told in metric_families()]
    assert made == [family for family in families if family[1] != "histogram"]


def test_the_names_have_points_for_the_first_two_underscores():
    assert instrument_name("drainq_batch_thread_busy_seconds") == "drainq.batch.thread_busy_seconds"


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    def no_such_module(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", no_such_module)
    with pytest.raises(ImportError, match=r"pip install 'drainq\[otel\]'"):
        instrument()
