"""Resends a worker's dead letters: every few seconds, and when the worker is flushed.

1. One resending round runs at a time, on a thread of the shared timer. A round ends at the first failure of the sink.
2. :meth:`Resender.flush` waits for a round that begins after the call, until its deadline at most.
3. The timer does not keep a worker alive. The rounds end when the worker is garbage-collected.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any

from drainq.delivery.dead_letters import RESEND_INTERVAL, DeadLetters
from drainq.delivery.sink_contract import Sink
from drainq.timer import Repeat


class Resender:
    """Resends the messages in the delayed queue of one worker.

    Args:
        owner: the worker; resending ends when it is garbage-collected.
        dead_letters: the worker's delayed queue. sink: gets the items.
    """

    def __init__(self, owner: Any, dead_letters: DeadLetters, sink: Sink) -> None:
        self._dead_letters, self._sink = dead_letters, sink
        self._owner = weakref.ref(owner)
        self.renew()

    def renew(self) -> None:
        """Reset the state, at the start or in a forked child."""
        self._turned = threading.Condition()
        self._begun = self._ended = 0
        self._stopped = False
        owner, mine = self._owner, weakref.ref(self)

        def turn() -> float | None:
            resender = mine()
            return None if resender is None or owner() is None else resender._turn()

        self._repeat = Repeat(turn)
        self._repeat.wake_after(RESEND_INTERVAL)

    def flush(self, deadline: float | None) -> bool:
        """Send the messages that are due. Return False if the deadline, on the monotonic clock, passed first."""
        with self._turned:
            wanted = self._begun + 1  # a round that begins from now on
            self._repeat.wake()
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            return self._turned.wait_for(lambda: self._ended >= wanted or self._stopped, wait)

    def now(self) -> None:
        """Send the messages that are due, in this thread."""
        self._dead_letters.resend(self._sink)

    def give_up(self) -> None:
        """Send no further message."""
        self._dead_letters.stop()
        with self._turned:
            self._stopped = True
            self._turned.notify_all()

    def stop(self, deadline: float | None) -> None:
        """End resending, and wait until the deadline for the round that is running."""
        self.give_up()
        self._repeat.stop(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def _turn(self) -> float:
        with self._turned:
            self._begun += 1
        try:
            self._dead_letters.resend(self._sink)
        except Exception as error:  # the delayed queue has retries of its own
            self._dead_letters.log_failure("%s: what is kept in the delayed queue could not be sent again", error)
        finally:
            with self._turned:
                self._ended = self._begun
                self._turned.notify_all()
        return RESEND_INTERVAL
