"""Comparisons that warn, and a warning's hook that uses the queue: no lock of the queue is held meanwhile."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import warnings
from drainq import SetQueue

waiting, heard = SetQueue(), []
warnings.simplefilter("always")
warnings.showwarning = lambda *args, **kwargs: heard.append(len(waiting))
first, second = {pair}
assert hash(first) == hash(second)
assert waiting.put(first) and waiting.put(second) and not waiting.put(first) and not waiting.put(second)
assert waiting.knows(second) and first in waiting
print(len(heard) > 0, list(waiting) == [first, second])
"""


SOME_BYTES = "map(bytes, zip(range(256)))"
"""The hashes of bytes differ from process to process; one of these is the hash of a number too."""


@pytest.mark.parametrize(
    ("pair", "warns"),
    [
        ("'a', b'a'", False),
        (
            f"(lambda some: (some, hash(some)))(next(some for some in {SOME_BYTES} if 0 <= hash(some) < 2**61 - 1))",
            False,
        ),
        ("('a',), (b'a',)", True),
    ],
    ids=["text and bytes", "bytes and a number", "tuples of them"],
)
def test_under_python_b_the_hook_of_a_warning_may_use_the_queue(pair, warns):
    command = [sys.executable, "-b", "-c", PROGRAM.format(pair=pair)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{warns} True\n", "")
