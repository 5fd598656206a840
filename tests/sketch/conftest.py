"""No test of the sketch waits for ever, for a lock of its own, say."""

from tests.time_limit import no_standstill  # noqa: F401
