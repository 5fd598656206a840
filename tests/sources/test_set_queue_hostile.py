"""Comparisons that warn, and a warning's hook that uses the queue: no lock of the queue is held meanwhile."""

from __future__ import annotations

import subprocess
import sys

import pytest

from drainq import SetQueue

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


def test_an_exception_without_room_for_the_count_is_raised_all_the_same(monkeypatch):
    """``accepted`` cannot be set: what that raises is reported, and does not take the exception's place."""

    class Sealed(Exception):
        def __setattr__(self, name, value):
            raise TypeError(f"no room for {name}")

    def items():
        yield from (1, 2, 1)
        raise Sealed("the source broke")

    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: told.append((type(what.exc_value), str(what.exc_value))))
    queue = SetQueue()
    with pytest.raises(Sealed, match="the source broke") as caught:
        queue.put_many(items())
    assert not hasattr(caught.value, "accepted")
    assert told == [(TypeError, "no room for accepted")]
    assert (list(queue), queue.stats().put, queue.stats().duplicates) == ([1, 2], 2, 1)


@pytest.mark.parametrize("kind", [int, float, str, bytes])
def test_an_eq_of_a_class_derived_from_a_built_in_one_is_asked_once_and_may_raise(kind):
    """It is foreign code, and runs without the lock: it is not asked for a first answer under the lock."""
    asked = []

    class Derived(kind):
        __hash__ = kind.__hash__

        def __eq__(self, other):
            asked.append(type(other))
            raise RuntimeError("not today")

    waiting, plain = SetQueue(), kind()
    assert waiting.put(Derived())
    for call in (waiting.put, waiting.knows, waiting.__contains__):
        with pytest.raises(RuntimeError, match="not today"):
            call(plain)
    assert (asked, len(waiting), waiting.stats().duplicates) == ([kind] * 3, 1, 0)
