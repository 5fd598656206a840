"""A ``GroupBy`` is one thread's at a time: what another thread is told meanwhile."""

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
    assert refused and "another thread is using these groups: give each thread a GroupBy of its own" in refused[0]
    groups.add(batch)


def test_the_number_of_groups_is_that_of_before_or_after_while_a_thread_adds() -> None:
    groups = GroupBy("k", {"rows": "count"})
    batches = [pa.record_batch({"k": range(start, start + 20_000)}) for start in range(0, 400_000, 20_000)]
    adding = threading.Thread(daemon=True, target=lambda: [groups.add(batch) for batch in batches])
    seen = [len(groups)]
    adding.start()
    while adding.is_alive():
        seen.append(len(groups))
    seen.append(len(groups))
    assert set(seen) <= set(range(0, 400_001, 20_000)) and (seen[0], seen[-1]) == (0, 400_000)
    assert seen == sorted(seen), "also while they are with the thread"
