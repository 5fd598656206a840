"""Runs gRPC calls that another thread may cancel."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Calls:
    """The running calls of one sink. The thread that makes a call waits for it.

    1. :meth:`cancel` ends every running call. Later calls fail at once, because a sink is cancelled when its time is
       over.
    """

    def __init__(self, grpc: Any) -> None:
        self._cancelled_error = grpc.FutureCancelledError
        self._lock = threading.Lock()
        self._running: set[Any] = set()
        self._over = False

    def result(self, method: Callable[[Any, float], Any], request: Any, timeout: float) -> Any:
        """Call a method and wait for its answer.

        Raises:
            grpc.RpcError: the call failed or was cancelled.
        """
        call = method(request, timeout)
        with self._lock:
            self._running.add(call)
            over = self._over
        if over:
            call.cancel()
        try:
            error = call.exception()
            if error is not None:
                raise error
            return call.result()
        except self._cancelled_error:
            raise call from None  # a call is its own error, with code and details
        finally:
            with self._lock:
                self._running.discard(call)

    def cancel(self) -> None:
        """Make all running and later calls fail."""
        with self._lock:
            self._over = True
            running = list(self._running)
        for call in running:
            call.cancel()
