"""The endpoint's metrics as text, as an ASGI or WSGI application, or for prometheus_client.

The counters are read at each call, on the caller's thread, with the GIL. A delayed queue's counters need queries, so
they are as old as its last sample.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from drainq._native import answer_scrape
from drainq.monitoring.watch import sample_what_is_in_memory

AsgiApp = Callable[[Any, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]
WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def prometheus_text() -> str:
    """Return the counters of this process in Prometheus' text format, as the endpoint does.

    Example:
        >>> from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
        >>> with BatchQueue("hits", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=print)):
        ...     'drainq_batch_accepted_total{queue="hits"} 0' in prometheus_text()
        True
    """
    return _answer("GET", "")[2]


def _answer(method: str, accept: str) -> tuple[str, list[tuple[str, str]], str]:
    sample_what_is_in_memory()
    return answer_scrape(method, accept)


class _AsgiApp:  # an instance: Starlette's ``Route`` would take a function for an endpoint and call it with a request
    async def __call__(
        self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if scope["type"] != "http":
            raise ValueError(f"only HTTP requests are answered, got a scope of the type {scope['type']!r}")
        accept = b",".join(value for name, value in scope["headers"] if name == b"accept")
        status, headers, body = _answer(scope["method"], accept.decode("latin-1"))
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers]
        await send({"type": "http.response.start", "status": int(status[:3]), "headers": pairs})
        await send({"type": "http.response.body", "body": body.encode()})


def asgi_app() -> AsgiApp:
    """Return an ASGI application that answers every path as the endpoint answers ``/metrics``.

    Example:
        With Starlette or FastAPI: ``app.add_route("/metrics", asgi_app())``.
    """
    return _AsgiApp()


def wsgi_app() -> WsgiApp:
    """Return a WSGI application that answers every path as the endpoint answers ``/metrics``.

    Example:
        With Werkzeug or Flask: ``app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/metrics": wsgi_app()})``.
    """

    def metrics(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        status, headers, body = _answer(environ["REQUEST_METHOD"], environ.get("HTTP_ACCEPT", ""))
        start_response(status, headers)
        return [body.encode()]

    return metrics


class _Collector:
    def collect(self) -> Iterable[Any]:
        parser: Any = importlib.import_module("prometheus_client.parser")
        yield from parser.text_string_to_metric_families(prometheus_text())


def collector() -> Any:
    """Return a collector of drainq's counters for a registry of prometheus_client.

    Raises:
        ImportError: ``prometheus_client`` is not installed.

    Example:
        >>> from prometheus_client import CollectorRegistry, generate_latest
        >>> registry = CollectorRegistry()
        >>> registry.register(collector())
        >>> b"drainq_build_info" in generate_latest(registry)
        True
    """
    importlib.import_module("prometheus_client")
    return _Collector()
