"""Settings of the interpreter that a queue never touches by itself."""

from __future__ import annotations

import sys

from drainq.arguments import Seconds, seconds


def tune(*, switch_interval: Seconds) -> float:
    """Set how long a thread may keep the GIL while another wants it.

    The interval is the whole interpreter's, so nothing in drainq changes it unasked. With a shorter
    interval drain threads get the GIL sooner while producers run Python code, and throughput falls
    while all threads are busy: with 0.0005 s by up to a third in some saturated runs. A producer
    whose partition fills up yields the GIL in any case, so most programs need no tuning.

    Args:
        switch_interval: seconds, above 0; CPython's default is 0.005.

    Returns:
        The interval before the call, to set it back.

    Raises:
        ValueError: ``switch_interval`` is not above 0.

    Example:
        >>> before = tune(switch_interval=0.001)
        >>> tune(switch_interval=before)
        0.001

    Source: ``sys.setswitchinterval``.
    """
    interval = seconds("switch_interval", switch_interval, positive=True)
    before = sys.getswitchinterval()
    sys.setswitchinterval(interval)
    return before
