"""Outage: the time in which a sink fails. Decides the pause until the next try, and when to give up.

1. An outage begins with the first failure that may pass and ends when the sink takes items. A failure long after the
   last is a new outage.
2. A batch is tried until the outage has lasted ``retry_for`` seconds, and at least twice.
3. A failure that cannot pass is remembered until something is sent: :attr:`Outage.stopped`.
"""

from __future__ import annotations

import logging
import math
import threading

from drainq.backoff import Backoff, Tries
from drainq.clock import Clock
from drainq.delivery.sink_contract import error_text

log = logging.getLogger("drainq")

LEAST_TRIES = 2  # tries of a batch in any outage, because the first may only find a broken connection


class Outage:
    """The outages of one sink. Several threads may fail at once.

    Args:
        name: the worker's name in log lines.
        retry_for: seconds to wait out an outage. 0: no second try. Infinite: as long as the failures may pass.
        backoff: the pauses between the tries.
        clock: measures the outage.
        log_values: show whole texts of errors.
    """

    def __init__(self, name: str, retry_for: float, backoff: Backoff, clock: Clock, log_values: bool) -> None:
        self._name, self._retry_for, self._backoff, self._clock = name, retry_for, backoff, clock
        self._log_values = log_values
        self._lock = threading.Lock()
        self._down_since: float | None = None
        self._failed_at = 0.0
        self._stopped: Exception | None = None

    @property
    def stopped(self) -> Exception | None:
        """The failure that cannot pass, or None."""
        return self._stopped

    def tries(self) -> Tries:
        """Return the tries of a new batch."""
        return Tries(self._backoff, clock=self._clock)

    def pause_after(self, error: Exception, tries: Tries, *, is_given_up: bool) -> float | None:
        """Note a failed try. Return the seconds until the next, or None to give up.

        Args:
            error: the failure, which may pass.
            tries: the batch's tries.
            is_given_up: whether the time of ``close`` is over.
        """
        now = self._clock.now()
        pause = tries.failed(error) or 0.0
        with self._lock:
            if self._down_since is None or now - self._failed_at > max(self._retry_for, self._backoff.maximum):
                self._down_since = now  # what failed long ago was another outage
                begins = True
            else:
                begins = False
            self._failed_at = now
            left = self._retry_for - (now - self._down_since)
        if begins:
            how_long = f" for {self._retry_for:g} s" if self._retry_for < math.inf else ""
            text = error_text(error, values=self._log_values)
            log.warning("%s: the other side fails; trying again%s: %s", self._name, how_long, text)
        if is_given_up or self._retry_for <= 0:
            return None
        if pause <= left:
            return pause
        return max(0.0, left) if left > 0 else (self._backoff.initial if tries.failures < LEAST_TRIES else None)

    def end(self) -> None:
        """End the outage and the stop, because the sink has taken items."""
        if self._down_since is None and self._stopped is None:
            return
        with self._lock:
            was_down, self._down_since = self._down_since is not None or self._stopped is not None, None
            self._stopped = None
        if was_down:
            log.info("%s: the other side takes items again", self._name)

    def stop(self, error: Exception) -> bool:
        """Remember a failure that cannot pass. Return whether it is the first since the sink took items."""
        with self._lock:
            known, self._stopped = self._stopped, error
        return known is None
