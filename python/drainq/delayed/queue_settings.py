"""QueueSettings: the checked options of one open queue, without those of its storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drainq.arguments import check_clock_if_given, flag
from drainq.clock import Clock, SystemClock
from drainq.delayed.codec import Codec, MsgspecCodec
from drainq.delayed.config import RetryConfig, TimeConfig
from drainq.delayed.message import check_count, check_text

if TYPE_CHECKING:
    from drainq.delayed.storage.base import Storage


@dataclass(frozen=True)
class QueueSettings:
    """The settings of one open queue. :meth:`drainq.delayed.DelayedQueue.open` explains each.

    Args:
        name: the queue's name.
        codec, time, retry, clock, source: None stands for the default.
        max_attempts, notify, database_time, history, log_values: see there.

    Raises:
        TypeError, ValueError: a setting is invalid; the message names it.
    """

    name: str
    codec: Codec
    time: TimeConfig
    retry: RetryConfig
    clock: Clock
    max_attempts: int | None
    source: str
    notify: bool
    database_time: bool
    history: int | None
    log_values: bool = False

    @classmethod
    def of(
        cls,
        queue: str,
        *,
        codec: Codec | None = None,
        time: TimeConfig | None = None,
        retry: RetryConfig | None = None,
        clock: Clock | None = None,
        max_attempts: int | None = None,
        source: str | None = None,
        notify: bool = False,
        database_time: bool = False,
        history: int | None = None,
        log_values: bool = False,
    ) -> QueueSettings:
        """Return the settings, with defaults for missing ones."""
        name = _check_name(queue, "queue")
        _check_kind("time", time, TimeConfig, "a TimeConfig, such as TimeConfig(acquire_timeout=60)")
        _check_kind("retry", retry, RetryConfig, "a RetryConfig, such as RetryConfig(max_retries=3)")
        if codec is not None and not all(hasattr(codec, part) for part in ("type_name", "encode", "decode")):
            raise TypeError(f"codec must have type_name, encode and decode, as JsonCodec() has, got {codec!r}")
        check_clock_if_given(clock)
        return cls(
            name=name,
            codec=MsgspecCodec() if codec is None else codec,
            time=TimeConfig() if time is None else time,
            retry=RetryConfig() if retry is None else retry,
            clock=SystemClock() if clock is None else clock,
            max_attempts=max_attempts,
            source=name if source is None else _check_name(source, "source"),
            notify=flag("notify", notify),
            database_time=flag("database_time", database_time),
            history=history,
            log_values=flag("log_values", log_values),
        )

    def check_storage(self, storage: Storage) -> None:
        """Raise ValueError for a setting that this storage does not support."""
        if self.notify and not storage.is_shared:
            raise ValueError(
                f"notify must be False with {type(storage).__name__}, got True: no other process can use this storage, "
                "and within a process consumers are always woken at once"
            )

    def __post_init__(self) -> None:
        if self.max_attempts is not None and (not isinstance(self.max_attempts, int) or self.max_attempts < 1):
            raise ValueError(f"max_attempts must be at least 1, or None for no limit, got {self.max_attempts!r}")
        if self.history is not None:
            check_count("history", self.history)


def _check_kind(name: str, value: object, kind: type, wanted: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} must be {wanted}, got {value!r}")


def _check_name(name: Any, what: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a str, got {name!r}")
    if not name.strip():
        raise ValueError(f"{what} must not be blank, got {name!r}")
    check_text(name, what)
    return name
