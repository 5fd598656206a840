"""A server of OTLP metrics inside the test's process: it answers as the test scripts, and records the accepted points."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)

Answer = Callable[[Any, grpc.ServicerContext], Any]


class OtlpServer(MetricsServiceServicer):
    """Answers ok, unless ``script`` holds answers: the next call takes the first of them."""

    def __init__(
        self, *, credentials: grpc.ServerCredentials | None = None, port: int = 0, most_bytes: int = 4 * 1024 * 1024
    ) -> None:
        self.script: deque[Answer] = deque()
        self.requests: list[Any] = []  # accepted ones
        self.calls: list[Any] = []  # every one
        self.metadata: list[dict[str, str]] = []
        self.called = threading.Condition()
        self._credentials = credentials
        self.port, self._most_bytes = port, most_bytes
        self.start()

    def start(self) -> None:
        options = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", self._most_bytes)]
        self._server = grpc.server(futures.ThreadPoolExecutor(4), options=options)
        add_MetricsServiceServicer_to_server(self, self._server)
        address = f"127.0.0.1:{self.port}"
        if self._credentials is None:
            self.port = self._server.add_insecure_port(address)
        else:
            self.port = self._server.add_secure_port(address, self._credentials)
        self._server.start()

    def stop(self) -> None:
        self._server.stop(0).wait()

    def __enter__(self) -> OtlpServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        return f"localhost:{self.port}"

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:
        with self.called:
            self.calls.append(request)
            self.metadata.append(dict(context.invocation_metadata()))
            answer = self.script.popleft() if self.script else ok
            self.called.notify_all()
        answered = answer(request, context)
        self.requests.append(request)
        return answered

    def wait_for_calls(self, count: int) -> None:
        with self.called:
            assert self.called.wait_for(lambda: len(self.calls) >= count, 60)

    def points(self) -> list[tuple[str, Any, Any]]:
        """Return what was accepted: for each data point the metric's name, the field with its data, and the point."""
        return [point for request in self.requests for point in points_of(request)]

    def values(self) -> list[float]:
        """Return the numbers among the accepted points."""
        return [getattr(point, point.WhichOneof("value")) for _, _, point in self.points()]


def points_of(request: Any) -> list[tuple[str, Any, Any]]:
    return [
        (metric.name, getattr(metric, metric.WhichOneof("data")), point)
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in getattr(metric, metric.WhichOneof("data")).data_points
    ]


def ok(request: Any, context: grpc.ServicerContext) -> Any:
    return service.ExportMetricsServiceResponse()


def partial(rejected: int, message: str) -> Answer:
    def answer(request: Any, context: grpc.ServicerContext) -> Any:
        return service.ExportMetricsServiceResponse(
            partial_success=service.ExportMetricsPartialSuccess(rejected_data_points=rejected, error_message=message)
        )

    return answer


def fails(code: str, *, retry_after: float | None = None) -> Answer:
    """Return an error of the call; with ``RetryInfo`` if there is a delay in seconds."""

    def answer(request: Any, context: grpc.ServicerContext) -> Any:
        status = getattr(grpc.StatusCode, code)
        if retry_after is not None:
            delay = Duration()
            delay.FromMicroseconds(int(retry_after * 1e6))
            detail = AnyMessage()
            detail.Pack(error_details_pb2.RetryInfo(retry_delay=delay))
            message = status_pb2.Status(code=status.value[0], message="scripted", details=[detail])
            context.set_trailing_metadata([("grpc-status-details-bin", message.SerializeToString())])
        context.abort(status, f"scripted {code}")

    return answer


def held(event: threading.Event) -> Answer:
    """Answers ok once the event is set; meanwhile the caller waits."""

    def answer(request: Any, context: grpc.ServicerContext) -> Any:
        event.wait(60)
        return ok(request, context)

    return answer
