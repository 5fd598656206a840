"""Classifies the errors of gRPC calls.

| code | meaning |
| --- | --- |
| a code in ``PASSES`` | the same request may succeed later |
| RESOURCE_EXHAUSTED | the same, if the server sends a time (``RetryInfo``); otherwise the request is refused |
| UNAVAILABLE, with gRPC's text for a wrong certificate or protocol | every request fails, as below |
| a code in ``CANNOT_PASS`` | every request fails until a person changes something |
| every other | this request is refused |

Source: "Failures" under OTLP/gRPC in the OpenTelemetry protocol's specification; ``google/rpc/error_details.proto``.
"""

from __future__ import annotations

import re
from typing import Any

from drainq.delivery import Failure

PASSES = frozenset({"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"})
CANNOT_PASS = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED", "NOT_FOUND", "FAILED_PRECONDITION"})

_NO_TLS = re.compile("CERTIFICATE_VERIFY_FAILED|WRONG_VERSION_NUMBER|Hostname Verification Check failed")


def meaning(error: Any) -> tuple[Failure, float | None]:
    """Return the kind of a call's error, and the seconds that the server asks to wait before the next try, or None."""
    code = error.code()
    name = "UNKNOWN" if code is None else code.name
    after = retry_delay(error)
    if name == "UNAVAILABLE" and _NO_TLS.search(error.details() or ""):
        return Failure.CANNOT_PASS, None
    if name in PASSES or (name == "RESOURCE_EXHAUSTED" and after is not None):
        return Failure.PASSES, after
    return (Failure.CANNOT_PASS if name in CANNOT_PASS else Failure.DATA), None


def is_too_large(error: Any) -> bool:
    """Return whether the server or the channel refused a request for its size, so that half of it may succeed."""
    code = error.code()
    return code is not None and code.name == "RESOURCE_EXHAUSTED" and "larger than max" in (error.details() or "")


def retry_delay(error: Any) -> float | None:
    """Return the seconds that the server asks to wait before the next try, or None."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            return _delay_in(value)
    return None


def _delay_in(status: bytes) -> float | None:
    from google.rpc import error_details_pb2, status_pb2

    info = error_details_pb2.RetryInfo()
    try:
        for detail in status_pb2.Status.FromString(status).details:
            if detail.Unpack(info):
                return max(0.0, float(info.retry_delay.ToMicroseconds()) / 1e6)
    except Exception:  # the details cannot be decoded
        return None
    return None


def described(error: Any, target: str, *, values: bool = False) -> str:
    """Describe a call's error in one line: its code, and the server's words unless they may hold values."""
    code = error.code()
    hidden = not values and meaning(error)[0] is Failure.DATA
    details = "" if hidden else " ".join((error.details() or "").split())
    return f"{target} answered {'?' if code is None else code.name}{': ' if details else ''}{details[:300]}"
