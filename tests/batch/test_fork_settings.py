"""The child of a fork keeps the settings of a queue and none of its counts."""

import os

import pytest

from tests.batch.test_fork import forks

pytestmark = [pytest.mark.system, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]


def in_child(before, check):
    """Run `before`, then fork; the child's lines of output, which must have ended well."""
    body = "\n".join("        " + line for line in check.strip().splitlines())
    lines = forks(f"""
{before}
child = os.fork()
if child == 0:
    status = 9
    try:
{body}
        status = 0
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        os._exit(status)
print("child", waited(child), flush=True)
""")
    assert lines[-1] == "child 0", lines
    return lines[:-1]


@pytest.mark.parametrize("settings", ["config()", "config(2)", "pooled()"])
def test_a_queue_that_was_shut_down_stays_so(settings):
    in_child(
        f"""
def pooled():
    return BatchQueueConfig(shared_scheduler=("io", ThreadPolicy.fixed(1)))
queue = BatchQueue("closed", {settings})
queue.add_handler(int, print)
queue.produce_many([1.0, 2.0])
assert queue.shutdown(20)
open_one = BatchQueue("open", {settings})
""",
        """
assert not queue.running and open_one.running
assert queue.produce(1) is False and queue.produce_many([1, 2]) == 0
stats = queue.stats()
assert (stats.offered, stats.accepted, stats.rejected["closed"], stats.unrouted) == (3, 0, 3, 0), stats
assert queue.shutdown(20) is True
assert open_one.produce(1) and open_one.flush(20) and open_one.stats().unrouted == 1
assert open_one.shutdown(20)
""",
    )


def test_its_counters_begin_at_zero_and_its_types_have_their_names():
    in_child(
        """
got = []
queue = BatchQueue("counts", config(3, dispatch_key=lambda item: item[0]))
queue.add_handler("a", got.extend)
queue.add_handler("fails", lambda batch: 1 / 0)
assert queue.produce_many([("a", 1), ("fails", 2), ("unknown", 3)]) == 3 and queue.flush(20)
parent = queue.stats()
assert (parent.handled, parent.failed, parent.unrouted) == (1, 1, 1)
""",
        """
del got[:]
fresh = queue.stats()
counters = fresh.as_dict()
assert set(counters.pop("rejected").values()) | set(counters.values()) == {0}
assert (fresh.partition_count, fresh.buffer_size, queue.thread_count) == (3, parent.buffer_size, 3)
assert sum(count for _, count in fresh.gil_waits) == fresh.gil_yields == fresh.rebalances == 0
assert queue.produce_many([("a", 1), ("a", 2), ("fails", 2), ("unknown", 3), ("new", 4)]) == 5
assert queue.flush(20)
stats = queue.stats()
counts = {name: (it.accepted, it.handled, it.failed, it.unrouted) for name, it in stats.per_type.items()}
assert counts == {"a": (2, 2, 0, 0), "fails": (1, 0, 1, 0), "unknown": (1, 0, 0, 1), "new": (1, 0, 0, 1)}, counts
assert (stats.offered, stats.accepted, stats.balanced) == (5, 5, True)
assert got == [("a", 1), ("a", 2)]
""",
    )


def test_partitions_that_were_added_for_handlers_are_there():
    in_child(
        """
queue = BatchQueue("grown", BatchQueueConfig(threads=ThreadPolicy.fixed(1), partitions=PartitionPolicy.adaptive(2)))
kinds = [type(f"Kind{number}", (), {}) for number in range(10)]
got = []
for kind in kinds:
    queue.add_handler(kind, got.extend, weight=3)
grown = queue.partition_count
assert grown > 10
assert queue.produce_many([kind() for kind in kinds]) == 10 and queue.flush(20)
""",
        """
assert queue.partition_count == grown == len(queue.stats().top_n(99))
del got[:]
mine = [kind() for kind in kinds for _ in range(3)]
assert queue.produce_many(mine) == 30 and queue.flush(20)
assert sorted(map(id, got)) == sorted(map(id, mine))
for number in range(10):
    queue.add_handler(type(f"More{number}", (), {}), got.extend)
assert queue.partition_count > grown
""",
    )


@pytest.mark.parametrize("given, calls", [(0, 0), (3, 1)])
@pytest.mark.parametrize(
    "settings", ["config(2, ", "BatchQueueConfig(shared_scheduler=('io', ThreadPolicy.fixed(2)), "]
)
def test_its_on_close_is_called_if_it_took_something(settings, given, calls):
    """A queue that takes nothing in the child starts nothing there: what its parent opened is its parent's to close."""
    in_child(
        f"""
class Closes:
    calls = taken = 0
    def consume(self, batch):
        self.taken += len(batch)
    def on_close(self):
        self.calls += 1
closes = Closes()
queue = BatchQueue("closes", {settings}consumer=closes))
""",
        f"""
assert queue.produce_many(range({given})) == {given}
assert queue.shutdown(20) is True and queue.shutdown(20) is True
assert (closes.taken, closes.calls) == ({given}, {calls}), (closes.taken, closes.calls)
""",
    )
