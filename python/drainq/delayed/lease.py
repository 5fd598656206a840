"""Extending a lease while a handler runs.

One thread a consumer: it looks every sixth of the lease and extends what has been held for a third of it, so a lease
never gets older than half its length while the process lives. A handler that ends in time costs it nothing.

# Invariant

After :meth:`LeaseKeeper.let_go` returns, no extension of that envelope is under way or will begin.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from drainq.errors import ShutDown

if TYPE_CHECKING:
    from drainq.delayed.access import Access
    from drainq.delayed.envelope import AckEnvelope

_log = logging.getLogger("drainq")
_LONGEST_PAUSE = 1.0


class LeaseKeeper:
    """Keeps the lease of the one envelope that its consumer works on; a context manager."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lease = access.time.acquire_timeout
        self._lock = threading.Lock()
        self._envelope: AckEnvelope[Any] | None = None
        self._held_since = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"drainq-lease-{access.name}", daemon=True)

    def hold(self, envelope: AckEnvelope[Any]) -> None:
        """Begin to keep this envelope's lease."""
        with self._lock:
            self._envelope, self._held_since = envelope, self._access.clock.now()

    def let_go(self) -> None:
        """Keep it no longer."""
        with self._lock:
            self._envelope = None

    def __enter__(self) -> LeaseKeeper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(min(self._lease / 6, _LONGEST_PAUSE)):
            with self._lock:
                if self._envelope is not None and self._access.clock.now() - self._held_since >= self._lease / 3:
                    self._extend(self._envelope)

    def _extend(self, envelope: AckEnvelope[Any]) -> None:
        if envelope._settled:
            return
        try:
            kept = envelope.extend(self._lease)
        except ShutDown:
            return
        except Exception:
            _log.exception("could not extend the lease of %r; it may be delivered twice", envelope.message_id)
            return
        self._held_since = self._access.clock.now()
        if not kept:
            self._envelope = None
            _log.warning("%r was updated or taken over while its handler runs", envelope.message_id)
