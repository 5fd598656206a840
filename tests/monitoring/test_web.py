"""The endpoint's answer inside a program's own web server, and in the registry of prometheus_client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from wsgiref.util import setup_testing_defaults

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette

from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
from drainq.monitoring import asgi_app, collector, prometheus_text, watch, wsgi_app
from drainq.monitoring.web import AsgiApp
from drainq.workers import TopN

from .endpoint import OPENMETRICS, exchange

DelayedQueue = pytest.importorskip("drainq.delayed", reason="msgspec is for CPython with a GIL, or 3.14").DelayedQueue

Answer = tuple[str, dict[str, str], bytes]


@pytest.fixture(autouse=True)
def queue():
    config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=lambda batch: None)
    with BatchQueue('in "my" app\\', config) as queue:
        queue.produce_many(range(7))
        assert queue.flush()
        yield queue


HANDLED = 'drainq_batch_handled_total{queue="in \\"my\\" app\\\\"} 7'


def by_asgi(method: str, accept: str, app: AsgiApp | None = None) -> Answer:
    async def asked() -> list[dict]:
        sent: list[dict] = []

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": method, "path": "/any", "root_path": "", "query_string": b""}
        headers = [(b"host", b"here")] + [(b"accept", each.encode()) for each in accept.split(",") if each]
        await (app or asgi_app())(scope | {"headers": headers}, None, send)
        return sent

    start, body = asyncio.run(asked())
    assert (start["type"], body["type"]) == ("http.response.start", "http.response.body")
    assert all(name == name.lower() for name, _ in start["headers"])
    return str(start["status"]), {name.decode(): value.decode() for name, value in start["headers"]}, body["body"]


def by_starlette(method: str, accept: str) -> Answer:
    app = Starlette()
    app.add_route("/any", asgi_app())
    return by_asgi(method, accept, app)


def by_wsgi(method: str, accept: str) -> Answer:
    environ = {"REQUEST_METHOD": method} | ({"HTTP_ACCEPT": accept} if accept else {})
    setup_testing_defaults(environ)
    started = []
    body = b"".join(wsgi_app()(environ, lambda status, headers: started.append((status, headers))))
    ((status, headers),) = started
    return status.partition(" ")[0], {name.lower(): value for name, value in headers}, body


def by_the_endpoint(server, method: str, accept: str) -> Answer:
    answer = exchange(server.port, f"{method} /metrics HTTP/1.1\r\nAccept: {accept}\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return status.split()[1], {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}, body


@pytest.mark.parametrize("by", [by_asgi, by_starlette, by_wsgi])
def test_all_applications_answer_as_the_endpoint_does(server, by: Callable[[str, str], Answer]):
    for method in ("GET", "HEAD", "POST", "DELETE"):
        for accept in ("", OPENMETRICS, f"text/plain;q=0.1,{OPENMETRICS}"):
            status, headers, body = by(method, accept)
            expected_status, expected, expected_body = by_the_endpoint(server, method, accept)
            del expected["connection"]
            assert (status, headers.keys()) == (expected_status, expected.keys())
            lengths = int(headers.pop("content-length")), int(expected.pop("content-length"))
            assert headers == expected
            if method == "GET":
                assert lengths[0] == len(body) and HANDLED in body.decode()
                assert body.endswith(b"# EOF\n") is bool(accept)
            else:
                assert body == expected_body and min(lengths) > 0


def test_the_counters_in_memory_are_those_of_now_and_a_delayed_queue_is_not_asked():
    with TopN(2, score=float, sink=lambda top: None) as top, DelayedQueue.open("memory:", "q") as queue:
        watch(top, "now"), watch(queue, "then")
        top.produce_many([1, 2, 3])
        queue.offer("a", "x")
        assert 'drainq_worker_accepted_total{worker="now"} 3' in prometheus_text()
        assert 'drainq_delayed_ready{queue="then"} 0' in prometheus_text()


def test_what_is_no_request_is_refused():
    with pytest.raises(ValueError, match="only HTTP requests are answered, got a scope of the type 'lifespan'"):
        asyncio.run(asgi_app()({"type": "lifespan"}, None, None))


def test_a_registry_shows_the_counters_of_drainq_beside_the_programs_own():
    registry = CollectorRegistry()
    registry.register(collector())
    Counter("mine", "A counter of the program.", registry=registry).inc(3)
    text = generate_latest(registry).decode()
    assert "mine_total 3.0" in text and HANDLED in text
    names = {family.name for family in text_string_to_metric_families(prometheus_text())}
    assert names < {family.name for family in text_string_to_metric_families(text)}
