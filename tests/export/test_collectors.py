"""Other implementations of collectors accept the OTLP exporter's requests, and read the same points."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("grpc")

from drainq.export import Histogram, MetricPoint, OtlpMetricsExporter
from drainq.sketch import DDSketch

from .books import assert_books

pytestmark = pytest.mark.system


def points():
    sketch = DDSketch()
    sketch.add_many([1.0, 2.0, 3.0, 0.0, -4.0])
    return [
        MetricPoint("hits", 3, {"page": "/"}, time=1.5),
        MetricPoint("load", 0.25, kind="gauge", unit="1", description="how busy"),
        MetricPoint("latency", sketch, kind="exponential_histogram", unit="s"),
        MetricPoint("sizes", Histogram([1.0, 10.0], [2, 3, 1], sum=37.5), kind="histogram", unit="By"),
    ]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_rotel_prints_what_was_sent():
    rotel = pytest.importorskip("rotel")
    port = free_port()
    command = [Path(rotel.__file__).parent / "rotel-agent", "start", "--otlp-grpc-endpoint", f"127.0.0.1:{port}"]
    command += ["--otlp-http-endpoint", f"127.0.0.1:{free_port()}", "--exporter", "blackhole"]
    command += ["--debug-log", "metrics", "--debug-log-verbosity", "detailed"]
    collector = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        exporter = OtlpMetricsExporter(
            endpoint=f"127.0.0.1:{port}", insecure=True, resource={"service.name": "shop"}, retry_for=60.0
        )
        exporter(points())
        assert_books(exporter, 4, sent=4)
        assert exporter.close()
        printed = ""
        for line in collector.stdout:
            printed += line
            if "sizes" in printed and "37.5" in printed:
                break
    finally:
        collector.kill()
        collector.wait()
    for expected in (
        r"service\.name: Str\(shop\)",
        r"Name: hits\n(.*\n)+?.*DataType: Sum\n.*IsMonotonic: true\n.*TEMPORALITY_DELTA\n(.*\n)+?.*page: Str\(/\)\n"
        r"(.*\n)+?.*Timestamp: 1500000000\n.*Value: 3\n",
        r"Name: load\n.*Description: how busy\n.*Unit: 1\n.*DataType: Gauge\n(.*\n)+?.*Value: 0\.25\n",
        r"DataType: ExponentialHistogram\n(.*\n)+?.*Count: 5\n.*Sum: 2\n.*Min: -4\n.*Max: 3\n",
        r"Bucket \[0, 0\], Count: 1\n",
    ):
        assert re.search(expected, printed), (expected, printed)
    counted = [float(high) for high in re.findall(r"Bucket \([-.\d]+, ([-.\d]+)\], Count: 1\n", printed)]
    assert counted == [pytest.approx(value, rel=0.011) for value in (1.0, 2.0, 3.0)]


def test_a_collector_that_the_environment_names_takes_every_point():
    endpoint = os.environ.get("DRAINQ_TEST_OTLP")
    if not endpoint:
        pytest.skip("DRAINQ_TEST_OTLP=host:port names no collector")
    exporter = OtlpMetricsExporter(endpoint=endpoint, insecure=True, retry_for=60.0)
    exporter.produce_many(point for _ in range(1_000) for point in points())
    assert exporter.flush(120)
    assert_books(exporter, 4_000, sent=4_000)
    assert exporter.close()
