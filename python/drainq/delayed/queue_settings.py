"""QueueSettings: the checked options of one open queue, without those of its storage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from drainq.arguments import Seconds, check_clock_if_given, flag, seconds_or_none
from drainq.clock import Clock, SystemClock
from drainq.delayed.codec import Codec, MsgspecCodec
from drainq.delayed.config import RetryConfig, TimeConfig
from drainq.delayed.message import check_count, check_text

if TYPE_CHECKING:
    from drainq.delayed.storage.base import Storage

_FLAGS = ("notify", "database_time", "log_values")


@dataclass(frozen=True)
class QueueSettings:
    """The settings of one open queue. :meth:`drainq.delayed.DelayedQueue.open` explains each.

    Raises:
        TypeError, ValueError: a setting is invalid; the message names it.
    """

    name: str
    source: str
    codec: Codec = field(default_factory=MsgspecCodec)
    time: TimeConfig = field(default_factory=TimeConfig)
    retry: RetryConfig = field(default_factory=RetryConfig)
    clock: Clock = field(default_factory=SystemClock)
    max_attempts: int | None = None
    notify: bool = False
    database_time: bool = False
    history: int | None = None
    log_values: bool = False
    consumer: str | None = None
    keep_dead: Seconds | None = None

    @classmethod
    def of(cls, queue: str, **given: Any) -> QueueSettings:
        """Return the settings, with defaults for missing ones and for None."""
        some = {name: value for name, value in given.items() if value is not None or name in _FLAGS}
        return cls(queue, **{"source": queue, **some})

    def check_storage(self, storage: Storage) -> None:
        """Raise ValueError for a setting that this storage does not support."""
        if self.notify and not storage.is_shared:
            raise ValueError(
                f"notify must be False with {type(storage).__name__}, got True: no other process can use this storage, "
                "and within a process consumers are always woken at once"
            )

    def __post_init__(self) -> None:
        for name, wanted, kind in (
            ("time", "a TimeConfig, such as TimeConfig(acquire_timeout=60)", TimeConfig),
            ("retry", "a RetryConfig, such as RetryConfig(max_retries=3)", RetryConfig),
        ):
            if not isinstance(getattr(self, name), kind):
                raise TypeError(f"{name} must be {wanted}, got {getattr(self, name)!r}")
        if not all(hasattr(self.codec, part) for part in ("type_name", "encode", "decode")):
            raise TypeError(f"codec must have type_name, encode and decode, as JsonCodec() has, got {self.codec!r}")
        check_clock_if_given(self.clock)
        for name, text in (("queue", self.name), ("source", self.source)):
            if not isinstance(text, str):
                raise TypeError(f"{name} must be a str, got {text!r}")
            if not text.strip():
                raise ValueError(f"{name} must not be blank, got {text!r}")
            check_text(text, name)
        for name in _FLAGS:
            flag(name, getattr(self, name))
        if self.max_attempts is not None and (not isinstance(self.max_attempts, int) or self.max_attempts < 1):
            raise ValueError(f"max_attempts must be at least 1, or None for no limit, got {self.max_attempts!r}")
        seconds_or_none("keep_dead", self.keep_dead)
        if self.consumer is not None and not (
            isinstance(self.consumer, str) and self.consumer.isascii() and self.consumer.isprintable() and self.consumer
        ):
            raise ValueError(f"consumer must be printable ASCII text, or None, got {self.consumer!r}")
        if self.history is not None:
            check_count("history", self.history)
