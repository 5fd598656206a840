"""Sources in a forked child: they start empty and work; the parent keeps its items; nothing is delivered twice."""

from __future__ import annotations

import pytest

from tests.forked import needs_fork, output_of

pytestmark = needs_fork

SOURCES = """
from drainq.sources import Fair, ItemState, ItemTracker, PrefetchSource, SourceScheduler
"""


def run(program: str, *arguments: str) -> None:
    assert output_of(f"{SOURCES}{program}\nprint('ok')", *arguments) == "ok\n"


def test_a_source_that_can_be_asked_is_asked_anew_by_the_child_whatever_was_locked():
    run(
        """
from drainq.sources.prefetch_refill import TIMER

source = PrefetchSource(lambda n: [os.getpid()], 4, 0)
assert source.wait(30)

def child():
    stats = source.stats()
    assert (stats.size, stats.fetched, stats.refills, stats.refilling) == (0, 0, 0, False), stats
    assert source.wait(30)
    assert source.get_next_batch(9) == [os.getpid()]
    assert source.close(30)

held, release = threading.Event(), threading.Event()

def hold_every_lock():
    with source._state, TIMER._earlier, source._clock._lock:
        held.set()
        release.wait()

threading.Thread(target=hold_every_lock).start()
held.wait()
fork(child)
release.set()
assert source.get_next_batch(9) == [os.getpid()]
assert source.close(30)
"""
    )


def test_a_child_forked_during_a_refill_refills_by_itself():
    run(
        """
asked, release = threading.Event(), threading.Event()

def slow(n):
    if os.getpid() == parent:
        asked.set()
        assert release.wait(30)
    return [os.getpid()]

parent = os.getpid()
source = PrefetchSource(slow, 4, 0, eager=True)
assert asked.wait(30)

def child():
    assert not source.stats().refilling
    assert source.wait(30)
    assert source.get_next_batch(9) == [os.getpid()]

fork(child)
release.set()
assert source.wait(30)
assert source.get_next_batch(9) == [parent]
"""
    )


def test_a_batch_that_is_half_read_is_not_ended_by_the_child():
    run(
        """
def rows(n):
    try:
        while True:
            yield os.getpid()
    finally:
        os.write(1, b"ended by the child\\n" if os.getpid() != parent else b"")

parent = os.getpid()
source = PrefetchSource(rows, 2, 0, key=lambda row: object())
source.get_next_batch(0)
while source.stats().refilling or not len(source):
    source.wait(30)

def child():
    import gc
    gc.collect()
    assert source.wait(30)
    assert source.get_next_batch(1) == [os.getpid()]

fork(child)
"""
    )


def test_a_scheduler_starts_empty_and_stopped_and_can_be_started():
    run(
        """
seen, enough = [], threading.Event()
sources = {"iterator": iter(range(6)), "asked": lambda n: enough.set() or [os.getpid()] * (n + 2)}
scheduler = SourceScheduler(sources, lambda name, items: seen.extend(items), Fair(*sources), batch_size=3)
scheduler.start()
assert enough.wait(30)

def child():
    seen.clear()
    enough.clear()
    stats = scheduler.stats()
    assert (stats.moved, stats.steps, sum(counts.held for counts in stats.sources.values())) == (0, 0, 0)
    assert not scheduler._loop.running and scheduler.step() == 3
    scheduler.start()
    assert enough.wait(30) and scheduler.close(30) and set(seen) == {os.getpid()}

with scheduler._stepping:
    fork(child)
assert scheduler.close(30)
while not set(range(6)) <= set(seen):
    scheduler.step()
"""
    )


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_tracker_in_a_database_opens_a_connection_of_its_own(database, request, tmp_path):
    url = request.getfixturevalue("postgres_url") if database == "postgres" else f"sqlite:///{tmp_path}/items.db"
    run(
        """
tracker = ItemTracker.open(sys.argv[1], table="items_of_a_fork")
tracker.mark("x", ["1"], ItemState.SENT)

def child():
    assert tracker.in_flight() == 1
    tracker.mark("x", ["2"], ItemState.SENT)
    tracker.close()

with tracker._store._lock:
    fork(child)
tracker.mark("x", ["3"], ItemState.SENT)
assert tracker.in_flight() == 3
tracker.close()
""",
        url,
    )
