"""What the child of a fork finds of groups that a thread of its parent was using."""

from __future__ import annotations

import contextlib
import sys
import threading

import numpy as np
import pytest

from drainq.columns import GroupBy
from tests.forked import in_child, needs_fork

pa = pytest.importorskip("pyarrow")
pytestmark = needs_fork


def test_a_child_that_is_forked_while_a_thread_adds_is_told_to_make_its_own() -> None:
    """The main thread keeps the GIL from the refusal to the fork, so the groups are still with the other thread."""
    batch = pa.record_batch({"k": np.arange(500_000)})
    groups, begun, ended = GroupBy("k", {"rows": "count"}), threading.Event(), threading.Event()

    def add() -> None:
        while not ended.is_set():
            begun.set()
            with contextlib.suppress(RuntimeError):
                groups.add(batch)

    def check() -> None:
        for call in (groups.result, groups.take, lambda: groups.add(batch), lambda: groups.merge(groups)):
            with pytest.raises(RuntimeError, match="this process was forked while another thread used these groups"):
                call()
        assert len(groups) in (0, 500_000)

    before = sys.getswitchinterval()
    adding = threading.Thread(target=add)
    sys.setswitchinterval(1000)
    try:
        adding.start()
        with pytest.raises(RuntimeError, match="another thread is using these groups"):
            for _ in range(1000):
                assert begun.wait(30)
                begun.clear()
                groups.result()
        assert in_child(check) == 0
    finally:
        sys.setswitchinterval(before)
        ended.set()
        adding.join()
    assert len(groups) == 500_000
