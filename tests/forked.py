"""Runs a check in a forked child, with a time limit, and programs that fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable

import pytest

from tests.shape.project import ROOT

LIMIT = 30
"""Seconds after which the kernel ends a child."""

needs_fork = [
    pytest.mark.system,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


def in_child(check: Callable[[], object]) -> int:
    """Run ``check`` in a forked child. Return the exit status: 0, 1 if ``check`` raised, negative after a signal."""
    child = os.fork()
    if child == 0:
        run_and_exit(check)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_and_exit(check: Callable[[], object]) -> None:
    """Do the child's part and exit, so that the child does not continue with the parent's tests."""
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


FORK = """
import os, sys, threading, warnings
from tests.forked import in_child
warnings.simplefilter("ignore")

def fork(child):
    assert in_child(child) == 0
"""


def output_of(program: str, *arguments: str, silent: bool = True) -> str:
    """Return the output of a program that calls ``fork(child)``. It must exit with 0, if ``silent`` without stderr."""
    command = [sys.executable, "-c", FORK + program, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and not (silent and done.stderr), done.stderr
    return done.stdout
