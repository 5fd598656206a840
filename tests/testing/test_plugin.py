"""The pytest plugin, as pytest runs it in a project that uses drainq."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

TEST_OF_A_USER = """
import pytest
from drainq import BatchQueue, BatchQueueConfig


def queue_with(handler):
    return BatchQueue("mine", BatchQueueConfig(threads=1, consumer=handler))


def test_right(recording_handler, no_lost_items):
    with queue_with(recording_handler) as queue:
        queue.produce_many([1, 2])
    assert recording_handler.items == [1, 2]


def test_lost(recording_handler, no_lost_items):
    with queue_with(recording_handler) as queue:
        recording_handler.fail_next(OSError("away"))
        queue.produce(1)


def test_expected(recording_handler, no_lost_items):
    no_lost_items.expect(failed=1)
    with queue_with(recording_handler) as queue:
        recording_handler.fail_next(OSError("away"))
        queue.produce(1)


class Owner:
    def __init__(self, handler):
        self.queue, self.cycle = BatchQueue("dropped", linger=3600, consumer=handler), self
        self.queue.produce(1)

    def __del__(self):
        self.queue.shutdown()


def test_dropped(recording_handler, no_lost_items):
    Owner(recording_handler)


def test_a_minute_passes(delayed_queue, manual_clock):
    delayed_queue.offer_or_update("a", "later", manual_clock.now() + 60)
    assert delayed_queue.try_poll() is None
    manual_clock.advance(60)
    assert delayed_queue.try_poll().payload == "later"


@pytest.mark.usefixtures("no_lost_items")
def test_lost_without_a_queue_of_its_own():
    queue = queue_with(print)
    queue.shutdown()
    queue.produce(1)
"""


def outcome(path, code: str, *options: str) -> tuple[str, str]:
    (path / "test_mine.py").write_text(textwrap.dedent(code))
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_mine.py"],
        cwd=path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return ran.stdout, ran.stderr


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    # Where the package is installed, pytest loads the plugin by itself under the name drainq: once is enough.
    plugin = "-p", "no:drainq", "-p", "drainq.pytest_plugin"
    return outcome(tmp_path_factory.mktemp("mine"), TEST_OF_A_USER, *plugin)[0]


def test_the_fixtures_do_their_work(run):
    assert "6 passed" in run, run  # all: what was lost is found at the end of a test


def test_a_test_whose_queue_lost_an_item_fails_with_one_sentence(run):
    assert "items that batch queues lost: failed 1; expected: none" in run
    assert "items that batch queues lost: closed 1; expected: none" in run
    assert "2 errors" in run, run
