"""Two threads that use one ``GroupBy``: the second gets an error."""

from __future__ import annotations

import sys
import threading

import pytest

from drainq.columns import GroupBy

pa = pytest.importorskip("pyarrow")


def test_a_batch_is_added_without_the_gil_and_a_second_thread_is_refused():
    before = sys.getswitchinterval()
    batch = pa.record_batch({"k": list(range(200_000))})
    groups, ended, refused = GroupBy("k", {"rows": "count"}), threading.Event(), []

    def second() -> None:
        while not ended.is_set():
            try:
                groups.result()
            except RuntimeError as error:
                refused.append(str(error))
                return

    sys.setswitchinterval(1000)  # so that the other thread runs only if the GIL is given up
    try:
        thread = threading.Thread(target=second)
        thread.start()
        for _ in range(5_000):
            try:
                groups.add(batch)
            except RuntimeError as error:
                refused.append(str(error))
            if refused:
                break
    finally:
        sys.setswitchinterval(before)
        ended.set()
        thread.join()
    assert refused and "another thread is using these groups" in refused[0]
    groups.add(batch)
