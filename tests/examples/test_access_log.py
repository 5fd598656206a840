"""The demo's log is earned: each line is a request that was really sent."""

from __future__ import annotations

import importlib.util
import io
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "access_log.py"
COMBINED = re.compile(
    r"(?P<client>\S+) - - \[(?P<time>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000)\] "
    r'"(?P<request>[^"]*)" (?P<status>\d{3}) (?P<size>\d+|-) '
    r'"(?P<referrer>[^"]*)" "(?P<agent>[^"]*)" (?P<seconds>\d+\.\d{6})\n'
)
SEARCHES_WAIT, REPORTS_WAIT = 0.002, 0.030  # seconds, at least


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("access_log", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["access_log"] = module  # where dataclasses and annotations look for it
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def earned(example, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "made" / "access.log"
    statuses = example.earn(path, requests=403, clients=4, seed=7)
    with path.open(newline="") as file:
        return statuses, [COMBINED.fullmatch(line) for line in file]


def test_every_request_is_one_line_of_the_combined_format(example, earned):
    statuses, lines = earned
    assert len(lines) == 403 + example.TLS_CLIENTS
    assert None not in lines
    assert Counter(int(line["status"]) for line in lines) == statuses


def test_the_mix_is_skewed_and_has_failures(example, earned):
    statuses, lines = earned
    assert set(statuses) == {200, 400, 404, 500}
    assert statuses[400] == example.TLS_CLIENTS
    carts = sum(line["request"].startswith("GET /cart") for line in lines)
    assert statuses[500] == carts // 11 > 0
    paths = Counter(line["request"].split()[1].partition("?")[0] for line in lines if line["status"] != "400")
    assert paths["/"] > 10 * paths["/products/39"]
    assert len(paths) > 20


def test_the_last_field_is_the_time_that_the_request_took(earned):
    _, lines = earned
    seconds = {"/search": [], "/reports/daily": []}
    for line in lines:
        path = line["request"].partition(" ")[2].partition("?")[0].partition(" ")[0]
        if path in seconds:
            seconds[path].append(float(line["seconds"]))
    assert all(seconds.values())
    assert min(seconds["/search"]) >= SEARCHES_WAIT
    assert min(seconds["/reports/daily"]) >= REPORTS_WAIT


def test_what_a_client_sends_cannot_break_a_line(example):
    file = io.StringIO()
    log = example.AccessLog(file)
    log.write(
        client="127.0.0.1", request='GET /" 200 1\n\x00é', status=404, size=0, referrer="-", agent='a"\\', seconds=0.5
    )
    line = COMBINED.fullmatch(file.getvalue())
    assert line["request"] == r"GET /\x22 200 1\x0a\x00\xe9"
    assert line["agent"] == r"a\x22\x5c"
    assert line["size"] == "-"


def test_a_count_below_one_is_refused_with_the_value(example, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["access_log.py", str(tmp_path / "x.log"), "--requests", "0"])
    with pytest.raises(SystemExit) as refused:
        example.main()
    assert refused.value.code == 2
    assert "must be at least 1, got 0" in capsys.readouterr().err
    assert not (tmp_path / "x.log").exists()
