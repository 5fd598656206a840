"""Blocks of lines with request times: any number of them is read, and each as it is written."""

from __future__ import annotations

import pytest

pa = pytest.importorskip("pyarrow")

from drainq.metrics.columns import parse_lines  # noqa: E402

LINE = b'127.0.0.1 - - [21/Nov/2026:21:13:45 +0000] "GET /a?b HTTP/1.1" 200 232 "-" "curl/8.10.1" %s'


@pytest.mark.parametrize("count", [1, 2, 3, 4, 100, 101])
def test_every_line_of_a_block_keeps_its_time(count):
    lines = pa.array([LINE % f"{n / 1000:.3f}".encode() for n in range(count)], pa.binary())
    groups, bad = parse_lines(lines)
    assert bad == []
    milliseconds = sorted(value for group in groups for value in group.milliseconds.tolist())
    assert milliseconds == pytest.approx(range(count))
