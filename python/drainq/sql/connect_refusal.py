"""Connection refusals: finds the code (SQLSTATE) with which a PostgreSQL server refused a connection.

The server answers with a code, and with a text in its own language. libpq passes on only the text, which a program
cannot interpret. So :func:`refusal_code` connects once more with libpq's trace switched on, and reads the code from the
trace. The code stays unknown without a trace: libpq before version 18 does not trace the start of a connection, and
psycopg can switch the trace on under Linux only.
"""

from __future__ import annotations

import os
import re
import select
import time
from typing import Any

_CODE = re.compile(rb'\tErrorResponse\t.*? C "([0-9A-Z]{5})"')


def refusal_code(psycopg: Any, conninfo: str, *, seconds: float) -> str | None:
    """Try to connect, and return the SQLSTATE with which the server refuses. None if it does not refuse, or the code is
    unknown.

    Args:
        psycopg: the module.
        conninfo: where to connect to.
        seconds: the time limit.
    """
    pq = psycopg.pq
    until = time.monotonic() + seconds
    try:
        trace = os.memfd_create("drainq")  # never a file: passwords stand in it
    except (AttributeError, OSError):
        return None
    attempt = None
    try:
        attempt = pq.PGconn.connect_start(conninfo.encode())
        attempt.trace(trace)
        wanted = pq.PollingStatus.WRITING
        while attempt.status != pq.ConnStatus.BAD and wanted in (pq.PollingStatus.WRITING, pq.PollingStatus.READING):
            left = until - time.monotonic()
            to_send = wanted == pq.PollingStatus.WRITING
            if left <= 0 or not any(
                select.select([] if to_send else [attempt.socket], [attempt.socket] if to_send else [], [], left)
            ):
                return None
            wanted = attempt.connect_poll()
        attempt.untrace()
        os.lseek(trace, 0, os.SEEK_SET)
        with os.fdopen(os.dup(trace), "rb") as written:
            codes = _CODE.findall(written.read())
        return codes[-1].decode() if codes else None
    except (psycopg.Error, OSError, ValueError):
        return None
    finally:
        if attempt is not None:
            attempt.finish()
        os.close(trace)
