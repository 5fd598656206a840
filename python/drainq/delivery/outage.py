"""Outage: tracks how long a sink fails or is silent. It decides the pause until the next try, and when to give up.

1. An outage begins with the first try that fails for a temporary reason, or that is not answered, and ends when the
   sink takes items. A try that fails long after the last failure begins a new outage.
2. A batch is tried until the outage has lasted ``retry_for`` seconds. It is tried at least twice, unless its first try
   took all the time of a batch. :meth:`Outage.seconds` returns how long a try may take.
3. The log says when the wait begins, and once a minute that it continues.
4. :attr:`Outage.stopped` keeps a permanent failure until something is sent.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Iterator

from drainq.backoff import Backoff, Tries
from drainq.clock import Clock
from drainq.delivery.sink_contract import error_text
from drainq.timer import SHARED, Alarm

log = logging.getLogger("drainq")

LEAST_TRIES = 2  # tries of a batch in any outage, because the first may only find a broken connection
LEAST_TIME, TIME = 1.0, 10.0  # seconds of a try, and of a batch, however long the outage has lasted
SILENT = 5.0  # seconds without an answer after which the log says so
SAY_AGAIN = 60.0  # seconds between two log lines of an outage


class Outage:
    """The outages of one sink. Several threads may fail at once.

    Args:
        name: the worker's name in log lines.
        retry_for: seconds to wait out an outage. 0: no second try. Infinite: as long as failures are temporary.
        backoff: the pauses between the tries.
        clock: measures the outage.
        log_values: show whole texts of errors.
    """

    def __init__(self, name: str, retry_for: float, backoff: Backoff, clock: Clock, log_values: bool) -> None:
        self._name, self._retry_for, self._backoff, self._clock = name, retry_for, backoff, clock
        self._log_values = log_values
        self._time_of_batch = min(max(retry_for, LEAST_TIME), TIME) if retry_for else TIME
        self._lock = threading.Lock()
        self._down_since: float | None = None
        self._failed_at = self._said_at = 0.0
        self._stopped: Exception | None = None

    @property
    def stopped(self) -> Exception | None:
        """The permanent failure, or None."""
        return self._stopped

    def tries(self) -> Tries:
        """Return the counter of tries for a new batch."""
        return Tries(self._backoff, clock=self._clock)

    def seconds(self, tries: Tries) -> float | None:
        """Return how long the next try may take: at least a second, and the rest of ``retry_for`` or of the batch's
        time, whichever is longer. None: as long as it takes."""
        now = self._clock.now()
        with self._lock:
            since = now if self._down_since is None or self._is_new(now) else self._down_since
        seconds = max(self._retry_for - (now - since), self._time_of_batch - tries.spent(), LEAST_TIME)
        return seconds if seconds < math.inf else None

    def pause_after(self, error: Exception, tries: Tries, began: float, *, is_given_up: bool) -> float | None:
        """Note a failed try. Return the seconds until the next, or None to give up.

        Args:
            error: the temporary failure.
            tries: the batch's tries.
            began: the time at which the try began.
            is_given_up: whether the time of ``close`` is over.
        """
        pause = tries.failed(error) or 0.0
        left = self._note(began, "fails; trying again", f": {error_text(error, values=self._log_values)}")
        if is_given_up or self._retry_for <= 0:
            return None
        if left > 0:
            return min(pause, left)
        has_time = tries.failures < LEAST_TRIES and tries.spent() < self._time_of_batch
        return self._backoff.initial if has_time else None

    @contextlib.contextmanager
    def watched(self, began: float) -> Iterator[None]:
        """Log that the other side is silent, if the block takes longer than 5 seconds."""
        alarm: Alarm
        is_over = False

        def say() -> None:
            nonlocal alarm
            if not is_over:
                self._note(began, "does not answer; waiting", "")
                alarm = SHARED.after(SAY_AGAIN, say)

        alarm = SHARED.after(SILENT, say)
        try:
            yield
        finally:
            is_over = True
            alarm.cancel()

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
        """Remember a permanent failure. Return whether it is the first since the sink took items."""
        with self._lock:
            known, self._stopped = self._stopped, error
        return known is None

    def _is_new(self, began: float) -> bool:
        """Return whether a failed try at ``began`` starts an outage: none is on, or its last failure is long ago."""
        return self._down_since is None or began - self._failed_at > max(self._retry_for, self._backoff.maximum)

    def _note(self, began: float, what: str, why: str) -> float:
        """Note that the sink fails. Log it if the outage is new or was last logged a minute ago. Return what is left of
        ``retry_for``."""
        now = self._clock.now()
        with self._lock:
            is_new = self._is_new(began)
            since = self._down_since = began if is_new or self._down_since is None else self._down_since
            self._failed_at = now
            is_to_say = is_new or now - self._said_at >= SAY_AGAIN
            if is_to_say:
                self._said_at = now
        left = self._retry_for - (now - since)
        if is_to_say:
            so_far = "" if is_new else f", since {now - since:.0f} s"
            how_long = f" for {round(max(0.0, left), 1):g} s" if left < math.inf else ""
            log.warning("%s: the other side %s%s%s%s", self._name, what, how_long, so_far, why)
        return left
