"""The scan floor, below which a poll of PostgreSQL does not read: when it is set, and that it never hides a message."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from drainq.delayed import CronMessage, ScheduledMessage
from drainq.delayed.storage.postgres.scan_floor import IN_A_ROW, IN_VAIN, LOWEST, MANY, REST, SLACK_MS, ScanFloor
from drainq.delayed.storage.records import LONG_AGO, Row

SLOWLY, QUICKLY = 1.0, 0.0005


class Time:
    """Real time, by hand."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def mark(time):
    return ScanFloor(3.0, monotonic=time)


def row(due):
    return Row(1, "a", b"", due, 0, 1, due, True)


def poll(mark, seconds, *rows, now=100_000):
    start = mark.start()
    mark.polled(start, seconds, rows, now)
    return start


def make_slow(mark, *rows):
    poll(mark, QUICKLY, *rows)
    for _ in range(IN_A_ROW):
        assert poll(mark, SLOWLY, *rows) == LOWEST


def test_quick_polls_look_at_everything(mark):
    for _ in range(10):
        assert poll(mark, QUICKLY, row(50_000)) == LOWEST
    assert mark.start() == LOWEST


def test_a_queue_with_groups_has_a_mark_at_once_and_keeps_it(mark, time):
    mark.pass_over_groups()
    assert poll(mark, QUICKLY, row(50_000)) == LOWEST
    for _ in range(2 * IN_VAIN):
        assert poll(mark, SLOWLY, row(60_000)) in (50_000 - SLACK_MS, 60_000 - SLACK_MS)
    mark.offered(10_000)
    assert mark.start() == 10_000
    time.now = 3.0
    assert mark.start() == LOWEST, "once in a period everything is searched"


def test_one_slow_poll_changes_nothing(mark):
    for _ in range(10):
        for seconds in (QUICKLY, SLOWLY, SLOWLY):
            assert poll(mark, seconds, row(50_000)) == LOWEST


def test_after_some_slow_polls_in_a_row_polls_begin_at_the_earliest_live_message(mark):
    make_slow(mark, row(50_000), row(60_000))
    assert mark.start() == 50_000 - SLACK_MS


def test_after_slow_empty_polls_they_begin_at_the_present(mark):
    make_slow(mark)
    assert mark.start() == 100_000 - SLACK_MS


def test_the_mark_follows_the_earliest_live_message_and_never_goes_back_by_itself(mark):
    make_slow(mark, row(50_000))
    poll(mark, QUICKLY, row(70_000))
    assert mark.start() == 70_000 - SLACK_MS
    poll(mark, QUICKLY, row(60_000))
    assert mark.start() == 70_000 - SLACK_MS


def test_an_offer_of_this_process_is_never_below_the_mark(mark):
    make_slow(mark, row(50_000))
    mark.offered(20_000)
    assert mark.start() == 20_000
    mark.offered(30_000)
    assert mark.start() == 20_000


def test_a_poll_that_began_at_a_mark_which_is_gone_when_it_ends_sets_none(mark):
    make_slow(mark, row(50_000))
    start = mark.start()
    mark.offered(LONG_AGO)
    mark.polled(start, QUICKLY, [row(70_000)], 100_000)
    assert mark.start() == LOWEST


def test_once_a_period_a_poll_looks_at_everything(mark, time):
    make_slow(mark, row(50_000))
    time.now = 2.9
    assert poll(mark, QUICKLY) == 50_000 - SLACK_MS
    time.now = 3.0
    assert poll(mark, SLOWLY, row(80_000)) == LOWEST
    assert mark.start() == 80_000 - SLACK_MS


def test_when_a_poll_of_everything_is_quick_again_the_mark_is_off(mark, time):
    make_slow(mark, row(50_000))
    time.now = 3.0
    assert poll(mark, QUICKLY, row(80_000)) == LOWEST
    time.now = 3.1
    assert mark.start() == LOWEST


def test_a_consumer_that_never_saw_a_quick_poll_gets_the_mark_too(mark):
    for _ in range(IN_A_ROW):
        assert poll(mark, SLOWLY, row(50_000)) == LOWEST
    assert mark.start() == 50_000 - SLACK_MS


def test_a_mark_that_does_not_help_goes_and_stays_away_for_a_while(mark, time):
    """A database far away: every poll takes long, wherever it begins."""
    starts = [poll(mark, 0.05, row(50_000)) for _ in range(100)]
    assert starts == [LOWEST] * IN_A_ROW + [50_000 - SLACK_MS] * IN_VAIN + [LOWEST] * (100 - IN_A_ROW - IN_VAIN)
    time.now = REST * 3.0
    assert [poll(mark, 0.05, row(50_000)) for _ in range(IN_A_ROW + 1)][-1] != LOWEST, "it is tried again"


def test_the_quickest_of_the_slow_polls_is_what_a_mark_must_beat(mark):
    for seconds in (0.02, 0.05, 0.05):
        assert poll(mark, seconds, row(50_000)) == LOWEST
    starts = [poll(mark, 0.02, row(50_000)) for _ in range(IN_VAIN + 1)]
    assert starts == [50_000 - SLACK_MS] * IN_VAIN + [LOWEST]


def test_a_poll_from_the_mark_that_finds_nothing_is_believed_once_one_of_everything_found_nothing(mark):
    make_slow(mark, row(50_000))
    assert poll(mark, QUICKLY) != LOWEST
    assert not mark.is_empty()
    mark.heard()
    assert poll(mark, SLOWLY) == LOWEST
    assert mark.is_empty()
    assert poll(mark, QUICKLY) != LOWEST
    assert mark.is_empty()
    poll(mark, QUICKLY, row(99_000))
    assert not mark.is_empty()


def test_after_news_of_an_offer_the_next_poll_looks_at_everything(mark):
    make_slow(mark, row(50_000))
    mark.heard()
    assert poll(mark, SLOWLY, row(20_000)) == LOWEST
    assert poll(mark, QUICKLY, row(20_000)) == 20_000 - SLACK_MS


def test_now_and_then_a_slow_poll_does_not_take_the_mark_away(mark):
    make_slow(mark, row(50_000))
    for _ in range(10):
        for seconds in (SLOWLY, SLOWLY, QUICKLY):
            assert poll(mark, seconds, row(50_000)) == 50_000 - SLACK_MS


def test_polls_of_many_rows_are_slow_by_themselves_and_neither_set_the_mark_nor_take_it_away(mark, time):
    batch = [row(50_000 + n) for n in range(MANY)]
    for _ in range(10):
        assert poll(mark, SLOWLY, *batch) == LOWEST
    make_slow(mark)
    for _ in range(2 * IN_VAIN):
        assert poll(mark, SLOWLY, *[row(99_500)] * MANY) == 100_000 - SLACK_MS
    mark.heard()
    assert poll(mark, SLOWLY, *batch) == LOWEST
    assert poll(mark, QUICKLY) == 50_000 - SLACK_MS  # more may wait where these came from
    assert mark.start() == 50_000 - SLACK_MS


class Told(ScanFloor):
    """Notes what it is told."""

    def __init__(self):
        super().__init__(3.0)
        self.news = []

    def offered(self, due_at):
        self.news.append(due_at)

    def heard(self):
        self.news.append("heard")

    def polled(self, *poll):
        """Judge no poll: on a busy machine three slow ones would turn the mark on."""


def test_each_call_that_makes_a_message_due_tells_the_floor_since_when_and_no_other_call_does(postgres, monkeypatch):
    queue, now = postgres.open(max_attempts=3), round(postgres.now * 1000)
    session, told = queue._session, Told()
    session.storage._marks[session.kind] = told
    monkeypatch.setattr("drainq.delayed.storage.postgres.listen.Listener.subscribe", lambda self, channel, heard: heard)
    hear = session.storage.listen(session.kind, told.news.append)

    def since(act):
        told.news.clear()
        act()
        return [time if isinstance(time, str) or time <= LONG_AGO else time - now for time in told.news]

    def at(*seconds):
        return [postgres.now + each for each in seconds]

    def schedules(*seconds):
        return [CronMessage(each, datetime.fromtimestamp(each, timezone.utc)) for each in at(*seconds)]

    queue.cron.install_periodic_tick("hourly", 3600, str).close()
    start = datetime.fromtimestamp(postgres.now // 3600 * 3600 - 9 * 3600, timezone.utc)
    calls = [
        (lambda: queue.offer_batch([ScheduledMessage(f"{s}", s, s) for s in at(900, 500, 700)]), [500_000]),
        (lambda: queue.offer_or_update("a", "A", postgres.now - 2), [-2000]),
        (lambda: queue.try_poll().extend(60), [60_000]),
        (lambda: postgres.clock.advance(61), []),
        (lambda: session.release(queue.try_poll()._held()), [LONG_AGO]),
        (lambda: queue.try_poll().nack(7, error="no"), [68_000]),
        (lambda: postgres.clock.advance(8), []),
        (lambda: queue.try_poll().nack(error="for good"), []),
        (lambda: queue.redrive(), [69_000]),
        (lambda: queue.try_poll().ack(), []),
        (lambda: queue.offer("b", "B", delay=400), [469_000]),
        (lambda: queue.reschedule("b", at=postgres.now - 5), [64_000]),
        (lambda: queue.try_poll(), []),
        (lambda: queue.release("b"), [69_000]),
        (lambda: queue.cron.install_tick("hash", "own", schedules(30, 20, 40)), [89_000]),
        (lambda: queue.cron.backfill("hourly", start, start + timedelta(hours=9)), [start.timestamp() * 1000 - now]),
        (lambda: hear("news"), ["heard", "news"]),
        (lambda: (queue.pause(), queue.resume()), ["heard", "heard"]),
        (lambda: (queue.stats(), queue.drop_message("a")), []),
    ]
    assert [since(act) for act, _ in calls] == [told for _, told in calls]
