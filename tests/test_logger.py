"""The receivers of the log: the program if it configured logging, else standard error. No line appears twice."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

import drainq.fork  # noqa: F401 - with it comes the handler

PROGRAM = """
import logging
from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
{configure}
def fail(batch):
    raise ValueError("cannot")
with BatchQueue("numbers", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=fail)) as queue:
    queue.produce(1)
"""
OWN = "logging.getLogger('{}').addHandler(logging.{}())"

CONFIGURED = {
    "not at all": ("", 1),
    "for the root": ("logging.basicConfig()", 1),
    "for drainq": (OWN.format("drainq", "StreamHandler"), 1),
    "for drainq, to be silent": (OWN.format("drainq", "NullHandler"), 0),
    "by a level": ("logging.getLogger('drainq').setLevel(logging.CRITICAL)", 0),
    "without a last resort": ("logging.lastResort = None", 0),
    "for the root, which does not hear drainq": (
        "logging.basicConfig(); logging.getLogger('drainq').propagate = False",
        1,
    ),
}


@pytest.mark.parametrize(("configure", "lines"), CONFIGURED.values(), ids=CONFIGURED)
def test_an_error_is_written_once_unless_the_program_wants_silence(configure, lines):
    program = PROGRAM.format(configure=configure)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr.count("ValueError: cannot") == lines
    assert ended.stderr.count("raised on a batch of 1") == lines
    assert ended.stdout == ""


def test_a_logger_below_is_heard_as_well_and_once(capfd):
    below = logging.getLogger("drainq.below")
    handler = logging.StreamHandler(sys.stderr)
    kept, logging.root.handlers[:] = logging.root.handlers[:], []  # pytest's
    try:
        below.warning("first")
        below.addHandler(handler)
        below.warning("second")
    finally:
        below.removeHandler(handler)
        logging.root.handlers[:] = kept
    assert capfd.readouterr().err.split() == ["first", "second"]


def test_the_package_adds_one_handler_and_that_is_a_null_handler():
    [handler] = logging.getLogger("drainq").handlers
    assert isinstance(handler, logging.NullHandler)
