"""The names of the metrics are written once: the how-to's table and the dashboard have no other."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from drainq import BatchQueue, BatchQueueConfig, MultiQueue, SetQueue, ThreadPolicy
from drainq._native import metric_families
from drainq.monitoring import MetricsServer, watch

from ..shape.project import ROOT
from .endpoint import PATIENCE

HOWTO = ROOT / "docs" / "howto" / "monitoring.md"
DASHBOARD = ROOT / "docs" / "howto" / "grafana_dashboard.json"


def sample_names() -> set[str]:
    ends = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
    return {name + end for name, kind, _, _ in metric_families() for end in ends[kind]}


def expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def row(name: str, kind: str, labels: list[str], described: str) -> str:
    shown = name + "_total" if kind == "counter" else name
    return f"| `{shown}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {described} |"


def test_the_table_of_the_how_to_is_the_catalogue():
    rows = [line for line in HOWTO.read_text().splitlines() if line.startswith("| `drainq_")]
    assert rows == [row(*family) for family in metric_families()]


def test_names_follow_the_rules_of_prometheus():
    for name, kind, labels, described in metric_families():
        assert re.fullmatch(r"drainq_[a-z]+(_[a-z]+)*", name), name
        assert not name.endswith(("_total", "_count", "_sum", "_bucket", "_created")), name
        assert described.endswith("."), name
        assert kind in {"counter", "gauge", "histogram"}, name
        assert len(labels) == len(set(labels)), name


def test_the_dashboard_asks_for_names_that_exist():
    found = expressions()
    assert len(found) >= 10
    asked = {name for expression in found for name in re.findall(r"\bdrainq_\w+", expression)}
    assert asked - sample_names() == set()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """Yield a Prometheus that scrapes an endpoint of ours; the base URL of its API."""
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip("prometheus is not installed (Debian: apt-get install prometheus)")
    folder = tmp_path_factory.mktemp("prometheus")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=lambda batch: None)
    multi, unique = MultiQueue(), SetQueue()
    multi.add_sub_queue("mail").put("a")
    unique.put("a")
    watch(multi, "scraped"), watch(unique, "scraped")
    with BatchQueue("scraped", config) as queue, MetricsServer(port=0) as server:
        queue.produce_many(range(100))
        queue.flush()
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s}\n"
            f"scrape_configs: [{{job_name: drainq, static_configs: [{{targets: ['127.0.0.1:{server.port}']}}]}}]\n"
        )
        arguments = [
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        running = subprocess.Popen([binary, *arguments], stdout=subprocess.DEVNULL, stderr=(folder / "log").open("wb"))
        try:
            base = f"http://127.0.0.1:{port}/api/v1/query?query="
            scraped = "count_over_time(drainq_batch_handled_total[1m]) >= 2"
            assert answer_of(base, scraped), (folder / "log").read_text()
            yield base
        finally:
            running.kill()
            running.wait()


def ask(base: str, expression: str) -> list:
    try:
        with urlopen(base + quote(expression), timeout=PATIENCE) as answer:
            return json.load(answer)["data"]["result"]
    except OSError:
        return []


def answer_of(base: str, expression: str) -> list:
    """Return the answer, waited for: a scrape takes its time."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := ask(base, expression)) and time.monotonic() < deadline:
        threading.Event().wait(0.1)
    return answer


def test_a_real_prometheus_answers_every_expression_of_the_dashboard(prometheus):
    assert answer_of(prometheus, 'drainq_batch_handled_total{queue="scraped"}')[0]["value"][1] == "100"
    variables = {"$queue": ".*", "$__rate_interval": "1m"}
    for expression in expressions():
        for variable, value in variables.items():
            expression = expression.replace(variable, value)
        if "drainq_batch" in expression or "drainq_multi" in expression or "drainq_set" in expression:
            assert answer_of(prometheus, expression) != [], expression
        else:  # nothing of this kind is watched here, so the answer is empty, and not an error
            with urlopen(prometheus + quote(expression), timeout=PATIENCE) as answer:
                assert json.load(answer)["status"] == "success"


ALERTS = ROOT / "docs" / "howto" / "alerts.yml"


def test_the_alerts_ask_for_names_that_exist_and_each_has_its_answer():
    rules = ALERTS.read_text()
    alerts = re.findall(r"- alert: (\w+)", rules)
    asked = set(re.findall(r"\bdrainq_\w+", rules))
    headings = re.findall(r"(?m)^## (\w+)$", (ROOT / "docs" / "howto" / "on_call.md").read_text())
    assert len(alerts) >= 10 and asked - sample_names() == set()
    assert headings == alerts


LATE = """
rule_files: [alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'drainq_delayed_oldest_ready_age_seconds{instance="a", queue="mail"}', values: '0+60x30'}
      - {series: 'drainq_delayed_paused{instance="a", queue="mail"}', values: '0x30'}
      - {series: 'drainq_delayed_oldest_ready_age_seconds{instance="a", queue="off"}', values: '0+60x30'}
      - {series: 'drainq_delayed_paused{instance="a", queue="off"}', values: '1x30'}
      - {series: 'drainq_delayed_failed_total{instance="a", queue="mail"}', values: '0+2x30'}
      - {series: 'drainq_delayed_delivered_total{instance="a", queue="mail"}', values: '0+10x30'}
      - {series: 'drainq_delayed_failed_total{instance="a", queue="off"}', values: '0+1x30'}
      - {series: 'drainq_delayed_delivered_total{instance="a", queue="off"}', values: '0+20x30'}
      - {series: 'drainq_delayed_dead{instance="a", queue="mail"}', values: '5x20 6x10'}
    alert_rule_test:
      - eval_time: 9m
        alertname: DelayedQueueLate
      - eval_time: 12m
        alertname: DelayedQueueLate
        exp_alerts:
          - exp_labels: {severity: page, instance: a, queue: mail}
            exp_annotations: {summary: 'mail: a message has been due for 12m 0s'}
      - eval_time: 20m
        alertname: DelayedQueuePaused
        exp_alerts:
          - exp_labels: {severity: ticket, queue: off}
            exp_annotations: {summary: 'off is paused'}
      - eval_time: 25m
        alertname: DelayedQueueFailing
        exp_alerts:
          - exp_labels: {severity: page, queue: mail}
            exp_annotations: {summary: 'mail: more than a tenth of the deliveries fail'}
      - eval_time: 19m
        alertname: DelayedQueueDeadLetters
      - eval_time: 28m
        alertname: DelayedQueueDeadLetters
        exp_alerts:
          - exp_labels: {severity: ticket, queue: mail}
            exp_annotations: {summary: 'mail has 1 new dead letters'}
"""


def test_prometheus_own_tool_reads_the_alerts_and_fires_them_when_it_should(tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    shutil.copy(ALERTS, tmp_path)
    (tmp_path / "late.yml").write_text(LATE)
    for arguments in (["check", "rules", "alerts.yml"], ["test", "rules", "late.yml"]):
        ran = subprocess.run([promtool, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
