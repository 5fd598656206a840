"""Runs a check in a forked child, with a time limit."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable

import pytest

LIMIT = 30
"""Seconds after which the kernel ends a child."""

needs_fork = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


def in_child(check: Callable[[], object]) -> int:
    """Run ``check`` in a forked child; its exit status: 0 if it returned, negative if it was ended."""
    child = os.fork()
    if child == 0:
        run_and_exit(check)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_and_exit(check: Callable[[], object]) -> None:
    """The child's part: it must not go on with the parent's tests."""
    status = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LIMIT)
        check()
        status = 0
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(status)
