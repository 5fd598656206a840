"""The endpoint's answers to the last header, and the samples that Python code publishes."""

from __future__ import annotations

import socket
import sys
import threading
import time

import pytest

from drainq import BatchQueue, BatchQueueConfig, MultiQueue, SetQueue, ThreadPolicy
from drainq._native import metric_families, publish_samples, read_samples, withdraw_samples
from drainq.monitoring import MetricsServer, watch
from tests.patience import eventually

from .endpoint import OPENMETRICS, PATIENCE, exchange, sample, samples, scrape

PLAIN = "text/plain; charset=utf-8"


def asked(server, request: str) -> tuple[str, dict[str, str], bytes]:
    """Return the status, the headers and the body."""
    head, _, body = exchange(server.port, f"{request} HTTP/1.1\r\n\r\n".encode()).partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert len(headers) == len(lines)
    assert headers["Connection"] == "close"
    assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff")
    return status.removeprefix("HTTP/1.1 "), headers, body


@pytest.mark.parametrize(
    ("target", "content_type", "text"),
    [
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8", b"# TYPE drainq_build_info gauge"),
        ("/metrics?a=b?c", "text/plain; version=0.0.4; charset=utf-8", b"# TYPE drainq_build_info gauge"),
        ("/healthz", PLAIN, b"ok\n"),
        ("/", PLAIN, b"/metrics"),
    ],
)
def test_a_head_is_answered_as_a_get_without_the_body(server, target, content_type, text):
    status, headers, body = asked(server, f"GET {target}")
    assert (status, headers["Content-Type"], int(headers["Content-Length"])) == ("200 OK", content_type, len(body))
    assert text in body
    assert asked(server, f"HEAD {target}")[0] == "200 OK"
    if target != "/metrics":  # whose length differs from answer to answer
        assert asked(server, f"HEAD {target}") == (status, headers, b"") or "metrics" in target
    assert int(asked(server, f"HEAD {target}")[1]["Content-Length"]) > 0
    assert asked(server, f"HEAD {target}")[2] == b""


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_what_is_not_answered_says_why(server):
    status, headers, body = asked(server, "POST /metrics")
    assert (status, headers["Allow"]) == ("405 Method Not Allowed", "GET, HEAD")
    assert body == b"only GET and HEAD are answered\n" and int(headers["Content-Length"]) == len(body)
    status, headers, body = asked(server, "GET /metric")
    assert (status, "Allow" in headers, body) == ("404 Not Found", False, b"there is /metrics and /healthz\n")


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("0.0.0.0", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.2", "127.0.0.2"),
        ("::", "[::1]"),
        ("::1", "[::1]"),
    ],
)
def test_the_url_can_be_asked_from_this_machine(host, shown):
    if host == "127.0.0.2" and sys.platform != "linux":
        pytest.skip("this machine may have no such address")
    if ":" in host and not has_ipv6():
        pytest.skip("this machine has no address of IPv6")
    server = MetricsServer(port=0, host=host)
    assert server.url == f"http://{shown}:{server.port}/metrics"
    assert scrape(server.url)[1].startswith("# HELP")
    assert server.running and repr(server) == f"<MetricsServer {server.url}>"
    server.close()
    assert not server.running and repr(server) == f"<MetricsServer {server.url} closed>"


@pytest.mark.parametrize("accept", ["text/plain", OPENMETRICS])
@pytest.mark.parametrize("name", ["line\nbreak", 'quo"te', "back\\slash", "\\n", 'all \\"\n of them', "{a=b},"])
def test_any_name_comes_back_as_it_was(server, accept, name):
    queue = SetQueue()
    queue.put_many(list("abc"))
    watch(queue, name)
    assert sample(samples(server.url, accept), "drainq_set_size", queue=name) == 3


def test_the_samples_of_a_family_and_all_of_them():
    queue = MultiQueue()
    queue.add_sub_queue("a").put_many(list("xyz"))
    queue.get()
    watch(queue, "samples")
    mine = {(family, *labels): value for family, labels, value in read_samples() if labels[:1] == ["samples"]}
    assert mine["drainq_multi_put", "samples"] == 3
    assert mine["drainq_multi_got", "samples"] == 1
    assert mine["drainq_multi_depth", "samples"] == mine["drainq_multi_sub_queue_depth", "samples", "a"] == 2
    assert mine["drainq_multi_sub_queues", "samples"] == 1
    only = read_samples("drainq_multi_put")
    assert ("drainq_multi_put", ["samples"], 3.0) in only
    assert {family for family, _, _ in only} == {"drainq_multi_put"}
    assert read_samples("no such family") == []


def test_each_counter_of_a_multi_queue_and_its_sub_queue_is_its_own():
    """Each number is another one, so that none can take the place of another."""
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", capacity=5)
    sub.put_many(range(5))
    assert queue.get_many(2) == [0, 1]
    assert sub.put_many(range(5, 10), block=False) == 2
    assert sub.remove(6)
    watch(queue, "own")
    mine = {(family, *labels): value for family, labels, value in read_samples() if labels[:1] == ["own"]}
    counts = {"put": 7, "high_water": 5, "depth": 4, "rejected": 3, "got": 2, "removed": 1}
    assert {name: mine[f"drainq_multi_{name}", "own"] for name in counts} == counts
    of_sub = {name: counts[name] for name in ("put", "depth", "rejected", "got")}
    assert {name: mine[f"drainq_multi_sub_queue_{name}", "own", "a"] for name in of_sub} == of_sub


def test_published_samples_stay_until_the_next_ones_and_failures_are_counted(server):
    def mine() -> dict[str, float]:
        found = samples(server.url)
        return {name: value for (name, labels), value in found.items() if "published" in dict(labels).values()}

    labels = ["published"]
    try:
        publish_samples("delayed", "published", None)
        assert mine().pop("drainq_sample_errors_total") == 1
        publish_samples(
            "delayed",
            "published",
            [
                ("drainq_delayed_ready", labels, 7),
                ("drainq_delayed_dead", labels, True),
                ("drainq_delayed_scheduled", labels, False),
                ("drainq_delayed_in_flight", labels, 0.5),
            ],
        )
        now = mine()
        assert now.pop("drainq_sample_age_seconds") >= 0
        assert now == {
            "drainq_delayed_ready": 7,
            "drainq_delayed_dead": 1,
            "drainq_delayed_scheduled": 0,
            "drainq_delayed_in_flight": 0.5,
            "drainq_sample_errors_total": 1,
        }
        eventually(lambda: mine()["drainq_sample_age_seconds"] >= 0.05)
        publish_samples("delayed", "published", None)
        now = mine()
        assert (now["drainq_sample_errors_total"], now["drainq_delayed_ready"]) == (2, 7)
        assert now["drainq_sample_age_seconds"] >= 0.05  # a failure makes the last ones no younger
        publish_samples("delayed", "published", [("drainq_delayed_ready", labels, 8)])
        now = mine()
        assert (now["drainq_delayed_ready"], now["drainq_sample_errors_total"]) == (8, 2)
        assert "drainq_delayed_dead" not in now
        withdraw_samples("worker", "published")
        withdraw_samples("delayed", "another")
        assert mine()["drainq_delayed_ready"] == 8
    finally:
        withdraw_samples("delayed", "published")
    assert mine() == {}


@pytest.mark.parametrize(
    ("family", "labels"),
    [("drainq_delayed", ["a"]), ("drainq_delayed_ready", []), ("drainq_delayed_ready", ["a", "b"])],
)
def test_a_sample_without_a_family_is_refused_and_nothing_is_published(family, labels):
    with pytest.raises(ValueError, match=f'no family "{family}" has the labels'):
        publish_samples("delayed", "wrong", [("drainq_delayed_ready", ["wrong"], 1), (family, labels, 1)])
    assert not [labels for _, labels, _ in read_samples() if "wrong" in labels]


@pytest.mark.parametrize(
    ("family", "value"), [("drainq_delayed_ready", ([], 0.0, 0)), ("drainq_delayed_handler_seconds", 1)]
)
def test_a_histogram_is_no_number_and_a_number_no_histogram(family, value):
    with pytest.raises(TypeError):
        publish_samples("delayed", "wrong", [("drainq_delayed_dead", ["wrong"], 1), (family, ["wrong"], value)])
    assert not [labels for _, labels, _ in read_samples() if "wrong" in labels]


@pytest.mark.needs_gil("it counts waits for the GIL")
def test_the_histograms_count_each_handler_call_by_its_items_and_its_time(server):
    entered, leave, spent = threading.Event(), threading.Event(), []

    def hold(batch):
        began = time.monotonic()
        entered.set()
        leave.wait(PATIENCE)
        spent.append(time.monotonic() - began)
        raise ValueError("a call that raises counts as well")

    config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=hold, on_error=lambda batch, error: None)
    with BatchQueue("calls", config) as queue:
        began = time.monotonic()
        queue.produce(0)
        assert entered.wait(PATIENCE)
        queue.produce_many(range(20))  # of which the next call gets all
        leave.set()
        queue.flush()
        passed, found, waits = time.monotonic() - began, samples(server.url), queue.stats().gil_waits

    def bucket(family: str, bound: str) -> float:
        return sample(found, f"drainq_batch_{family}_bucket", queue="calls", le=bound)

    sizes = ["1.0", "4.0", "16.0", "64.0", "256.0", "1024.0", "4096.0", "16384.0", "+Inf"]
    assert [bucket("size", bound) for bound in sizes] == [1, 1, 1, 2, 2, 2, 2, 2, 2]
    assert sample(found, "drainq_batch_size_sum", queue="calls") == 21
    assert sample(found, "drainq_batch_size_count", queue="calls") == 2
    assert sum(spent) <= sample(found, "drainq_batch_handler_seconds_sum", queue="calls") <= passed
    assert bucket("handler_seconds", "0.001") <= bucket("handler_seconds", "+Inf") == 2
    assert sample(found, "drainq_batch_handler_seconds_count", queue="calls") == 2
    assert sample(found, "drainq_batch_gil_waits_total", queue="calls") == sum(count for _, count in waits) >= 2
    least = sum(above * count for (above, _), (_, count) in zip([(0.0, 0), *waits], waits))
    total = sample(found, "drainq_batch_gil_wait_seconds_total", queue="calls")
    assert 0 < total and least <= total <= sum(bound * count for bound, count in waits)


@pytest.mark.parametrize("name", ["Accept", "accept", "ACCEPT", "aCCept"])
def test_the_name_of_a_header_may_be_written_in_any_case(server, name):
    request = f"GET /metrics HTTP/1.1\r\nHost: a\r\n{name}: {OPENMETRICS}\r\n\r\n"
    head, _, body = exchange(server.port, request.encode()).partition(b"\r\n\r\n")
    assert b"Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n" in head
    assert body.endswith(b"# EOF\n")


@pytest.mark.parametrize(
    ("ranges", "is_open"),
    [(["text/plain;q=0.5", OPENMETRICS], True), ([OPENMETRICS + ";q=0.4", "text/plain;q=0.5"], False)],
)
def test_ranges_in_several_headers_are_one_list(server, ranges, is_open):
    lines = "".join(f"Accept: {each}\r\n" for each in ranges)
    body = exchange(server.port, f"GET /metrics HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode())
    assert body.endswith(b"# EOF\n") is is_open


@pytest.mark.parametrize(("accept", "of_counters"), [("text/plain", "_total"), (OPENMETRICS, "")])
def test_each_family_is_headed_by_the_name_that_the_format_asks_for(server, accept, of_counters):
    with BatchQueue("headed", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=lambda batch: None)):
        lines = scrape(server.url, accept)[1].splitlines()
    kinds = {name + (of_counters if kind == "counter" else ""): kind for name, kind, _, _ in metric_families()}
    types = [tuple(line.split()[2:]) for line in lines if line.startswith("# TYPE ")]
    assert len(types) > 20 and set(types) <= set(kinds.items())
    assert len(types) == len(set(types)), "each family has one head, however many samples it has"
    assert [line.split()[2] for line in lines if line.startswith("# HELP ")] == [name for name, _ in types]


def test_openmetrics_names_the_unit_of_each_family_that_has_one(server):
    with BatchQueue("units", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=lambda batch: None)):
        plain, text = scrape(server.url)[1], scrape(server.url, OPENMETRICS)[1]
    lines = text.splitlines()
    families = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
    units = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# UNIT ")}
    ends = {name: name.rpartition("_")[2] for name in families}
    assert units == {name: end for name, end in ends.items() if end in ("seconds", "bytes")}
    assert units["drainq_batch_buffer_bytes"] == "bytes"
    assert units["drainq_batch_gil_wait_seconds"] == "seconds"
    assert "# UNIT" not in plain
