"""The arguments of ``sink``, checked, as they travel to the executors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drainq.backoff import Backoff
from drainq.spark.on_error import Decide, OnError
from drainq.spark.rows import Rows
from drainq.spark.task_attempt import TaskInfo
from drainq.spark.version import installed

MakeWriter = Callable[[TaskInfo], Any]


@dataclass(frozen=True)
class Settings:
    """The arguments of ``sink``, checked; they travel to the executors."""

    make_writer: MakeWriter
    threads: int
    rows: Rows
    max_in_flight: int
    max_batch_rows: int
    max_batch_bytes: int | None
    linger: float
    retries: int
    backoff: Backoff
    on_error: OnError | Decide
    delayed: Callable[[], Any] | None
    close_timeout: float
    version: str = installed
