"""OpenTelemetry: the endpoint's counters as observable instruments of the program's own meter provider.

OpenTelemetry's SDK reads the instruments at each collection, on its own thread. Unlike the endpoint, it needs the GIL.

An instrument has the name of the endpoint's family, with dots for the first two underscores:
``drainq_batch_thread_busy_seconds`` is ``drainq.batch.thread_busy_seconds``. Histograms are left out, because
OpenTelemetry has no observable histogram.

Source: "Metrics API" of OpenTelemetry, asynchronous instruments.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from drainq._native import metric_families, read_samples

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider


def instrument(meter_provider: MeterProvider | None = None) -> None:
    """Create instruments for all counters and gauges of this process. Call this once for a provider.

    Args:
        meter_provider: the provider whose readers get the values; None is OpenTelemetry's global provider.
    Raises:
        ImportError: ``opentelemetry-api`` is not installed. The extra ``otel`` installs it.

    Example:
        >>> from opentelemetry.sdk.metrics import MeterProvider
        >>> from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        >>> reader = InMemoryMetricReader()
        >>> instrument(MeterProvider([reader]))
        >>> scope = reader.get_metrics_data().resource_metrics[0].scope_metrics[0]
        >>> [metric.name for metric in scope.metrics if metric.name.startswith("drainq.build")]
        ['drainq.build.info']
    """
    try:
        metrics: Any = importlib.import_module("opentelemetry.metrics")
    except ImportError as missing:
        raise ImportError(
            f"this needs a package that is not installed: pip install 'drainq[otel]' ({missing})"
        ) from missing
    provider = metrics.get_meter_provider() if meter_provider is None else meter_provider
    if not callable(getattr(provider, "get_meter", None)):
        raise TypeError(f"meter_provider must be an OpenTelemetry MeterProvider, or None, got {meter_provider!r}")
    meter = provider.get_meter("drainq")
    for name, kind, labels, description in metric_families():
        if kind == "histogram":
            continue
        create = meter.create_observable_counter if kind == "counter" else meter.create_observable_gauge
        unit = next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "{item}")
        create(
            instrument_name(name),
            callbacks=[_Callback(name, labels, metrics.Observation)],
            unit=unit,
            description=description,
        )


_UNITS = {"_seconds": "s", "_bytes": "By", "_info": "1", "_running": "1", "_paused": "1"}


def instrument_name(family: str) -> str:
    """Return a family's instrument name, with dots for the first two underscores."""
    return family.replace("_", ".", 2)


class _Callback:
    def __init__(self, family: str, labels: list[str], observation: Any) -> None:
        self._family = family
        self._labels = labels
        self._observation = observation

    def __call__(self, options: object) -> Iterable[Any]:
        return [
            self._observation(value, dict(zip(self._labels, values, strict=True)))
            for family, values, value in read_samples(self._family)
        ]
