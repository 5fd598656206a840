"""A queue in the hands of an operator: pause, limit, history, dead letters. On every back end."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest

from drainq.delayed import BytesCodec, DelayedQueue, DeliveryType, QueueInfo, ScheduledMessage
from drainq.delayed.database_clock import DatabaseClock
from drainq.delayed.storage.records import DeadLetter, FinishedAttempt, Held, StoredMessage
from drainq.testing import ManualClock

from ..patience import PATIENCE


def offer(queue, world, keys):
    queue.offer_batch([ScheduledMessage(key, key, world.now) for key in keys])


# --- pausing


def test_a_paused_queue_tells_who_paused_it_when_and_why_until_it_is_resumed(world):
    queue, storage = world.open(), world.open()._session.storage
    at = datetime.fromtimestamp(world.now, timezone.utc)

    def paused_by():
        return storage.overview(0)[0].paused_by

    for reason, shown in (("", ""), ("the mail server moves", ": the mail server moves")):
        assert paused_by() is None and queue.pause(reason)
        assert paused_by() == f"{storage.holder} at {at:%Y-%m-%d %H:%M:%S} UTC{shown}"
        assert not queue.pause("another reason") and paused_by().endswith(f" UTC{shown}")
        assert queue.resume()


@pytest.mark.parametrize("reason", [None, 5, "a\0b", "\ud800"])
def test_a_reason_that_no_database_stores_is_refused(queue, reason):
    with pytest.raises((TypeError, ValueError), match="reason must"):
        queue.pause(reason)
    assert not queue.paused


def test_a_paused_queue_delivers_to_no_consumer_and_takes_offers(world):
    queue, other, apart = world.open(), world.open(), world.open("apart")
    offer(queue, world, "ab")
    held = queue.try_poll()
    assert other.pause() is True
    assert (queue.paused, other.paused, apart.paused) == (True, True, False)
    assert queue.pause("another reason") is False
    assert queue.try_poll() is None
    assert other.try_poll_many(10).payload == []
    assert queue.get_next_batch(10) == []
    offer(queue, world, "c")
    assert held.ack() is True
    offer(apart, world, "x")
    assert apart.try_poll().payload == "x"
    assert queue.resume() is True
    assert queue.resume() is False
    assert other.paused is False
    assert queue.try_poll_many(10).payload == ["b", "c"]


def test_consume_acknowledges_the_last_message_of_a_queue_that_its_handler_pauses(queue, world):
    offer(queue, world, "abc")
    stop, handled = threading.Event(), []

    def handle(envelope):
        handled.append(envelope.payload)
        if len(handled) == 1:
            queue.pause()
        if len(handled) == 3:
            stop.set()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(queue.consume, handle, stop=stop)
        for _ in range(600):
            if not queue.contains_message("a"):
                break
            threading.Event().wait(0.05)  # the consumer is idle: there is no event for what it does not do
        assert handled == ["a"]
        queue.resume()
        assert running.result(60) == 3
    assert handled == ["a", "b", "c"]


def test_schedules_go_on_while_their_queue_is_paused(queue, world):
    queue.pause()
    with queue.cron.install_periodic_tick("p", 60, lambda at: "tick") as handle:
        world.clock.advance(60)
        handle.look()
        assert queue.try_poll() is None
        assert queue.stats().ready == 1
    queue.resume()
    assert queue.try_poll().payload == "tick"


# --- names


def test_queues_are_listed_by_name(database):
    paused = database.open("mail")
    paused.pause("later")
    by = f"{paused._session.storage.holder} at {datetime.fromtimestamp(database.now, timezone.utc):%Y-%m-%d %H:%M:%S} UTC: later"
    database.open("mail")
    database.open("mail", codec=BytesCodec())
    database.open("bills")
    assert DelayedQueue.queues(database.url, table=database.table) == [
        QueueInfo("bills", "json", False, None, 0, 0, 0, 0.0, 0),
        QueueInfo("mail", "bytes", False, None, 0, 0, 0, 0.0, 0),
        QueueInfo("mail", "json", True, by, 0, 0, 0, 0.0, 0),
    ]


def test_listing_queues_creates_nothing(tmp_path):
    with pytest.raises(ValueError, match=r"no file .*missing\.db"):
        DelayedQueue.queues(f"sqlite:///{tmp_path}/missing.db")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="in memory"):
        DelayedQueue.queues("memory:")


# --- a limit of what is in flight


def test_a_limit_of_messages_in_flight_holds_for_all_consumers_together(world):
    queues = [world.open() for _ in range(3)]
    offer(queues[0], world, [f"{n:02}" for n in range(40)])
    lock, stop = threading.Lock(), threading.Event()
    seen, now_in_flight, most = [], 0, 0

    def handle(envelope):
        nonlocal now_in_flight, most
        with lock:
            now_in_flight += 1
            most = max(most, now_in_flight)
            seen.append(envelope.payload)
        threading.Event().wait(0.002)  # so that handlers would overlap if they could
        with lock:
            now_in_flight -= 1
            if len(seen) == 40:
                stop.set()

    with ThreadPoolExecutor(6) as pool:
        running = [pool.submit(queues[n % 3].consume, handle, stop=stop, max_in_flight=2) for n in range(6)]
        assert sum(consumer.result(120) for consumer in running) == 40
    assert sorted(seen) == [f"{n:02}" for n in range(40)]
    assert 1 <= most <= 2
    assert queues[0].stats().in_flight == 0


def taken_within(queue, n, limits):
    return [row.key for row in queue._session.take_once(None, n, limits)[0].rows]


def test_consumers_with_limits_whose_turns_come_together_share_one(postgres, monkeypatch):
    queue = postgres.open()
    storage, kind, now = queue._session.storage, queue._session.kind, int(postgres.now * 1000)
    offer(queue, postgres, ["1", "2", "3", "4", "5"])
    groups, begun, go_on, run = [], threading.Event(), threading.Event(), storage._acquire_within
    none = Held("", ())

    def held(kind, limits, takers):
        groups.append(len(takers))
        begun.set()
        assert go_on.wait(PATIENCE)
        return run(kind, limits, takers)

    monkeypatch.setattr(storage, "_acquire_within", held)

    def take(lock, limit, done=none):
        return storage.acquire_within(kind, done, {"": 4}, limit, now, now + 30_000, lock)

    with ThreadPoolExecutor(4) as pool:
        one = pool.submit(take, "one", 1)
        assert begun.wait(PATIENCE)
        others = []
        for lock, limit in (("two", 2), ("three", 9)):
            others.append(pool.submit(take, lock, limit))
            while len(storage._takers[kind, ("", 4)]._waiting) < len(others):
                threading.Event().wait(0.001)
        go_on.set()
        answers = [each.result(PATIENCE) for each in (one, *others)]
    assert groups == [1, 2]
    assert [[row.key for row in answer.rows] for answer in answers] == [["1"], ["2", "3"], ["4"]], "4 are in flight"
    assert (take("four", 9).rows, groups) == ([], [1, 2, 1])
    done = Held("two", tuple(row.id for row in answers[1].rows))
    last = take("five", 9, done)
    assert (last.acked, [row.key for row in last.rows]) == (2, ["5"])
    assert storage.ack(kind, Held("three", (answers[2].rows[0].id,))) == 1  # each has a lock of its own


def test_a_prefix_has_a_limit_of_its_own_and_a_full_one_holds_up_no_other(world):
    queue = world.open()
    offer(queue, world, ["mail/1", "mail/2", "mail/3", "sms/1", "sms/2", "x"])
    limits = {"mail/": 2, "sms/": 1}
    assert taken_within(queue, 1, limits) == ["mail/1"]
    assert taken_within(queue, 10, limits) == ["mail/2", "sms/1", "x"]
    assert taken_within(queue, 10, limits) == []
    world.clock.advance(31)
    assert taken_within(queue, 2, limits) == ["mail/3", "sms/2"], "before those whose leases have just run out"
    assert taken_within(queue, 10, {"": 4, **limits}) == ["mail/1", "x"]


@pytest.mark.parametrize("limits", [{"": 3, "low": 1}, {"low": 1, "none": 1}])
def test_limits_keep_the_order_of_priorities(world, limits):
    queue = world.open()
    for number, (key, priority) in enumerate([("low 1", 9), ("low 2", 9), ("plain", 0), ("high", -9)]):
        queue.offer_or_update(key, key, world.now - 100 + number, priority=priority)
    assert taken_within(queue, 3, limits) == ["high", "plain", "low 1"]


def test_consumers_with_prefix_limits_never_exceed_them_and_handle_everything(world):
    queues = [world.open(clock=None) for _ in range(2)]
    queues[0].offer_batch([ScheduledMessage(f"{n % 3}/{n}", n, 0) for n in range(45)])
    limits, lock, running, most, seen = {"0/": 1, "1/": 2}, threading.Lock(), Counter(), Counter(), []
    stop = threading.Event()

    def handle(envelope):
        prefix = envelope.message_id[:2]
        with lock:
            running[prefix] += 1
            most[prefix] = max(most[prefix], running[prefix])
        threading.Event().wait(0.001)
        with lock:
            running[prefix] -= 1
            seen.append(envelope.payload)
            if len(seen) == 45:
                stop.set()

    with ThreadPoolExecutor(6) as pool:
        work = [pool.submit(queues[n % 2].consume, handle, stop=stop, max_in_flight=limits) for n in range(6)]
        assert sum(consumer.result(120) for consumer in work) == 45
    assert sorted(seen) == list(range(45))
    assert most["0/"] == 1 and most["1/"] <= 2


def test_a_message_takes_room_of_each_prefix_that_its_key_begins_with(queue, world):
    queue.offer_batch([ScheduledMessage(key, 1, world.now) for key in ("mail/a", "mail/b", "mail/c", "x", "y")])
    batches = []
    queue.consume(
        lambda envelope: batches.append(envelope.message_id),
        batch_size=5, max_in_flight={"": 3, "mail/": 2}, until="empty",
    )  # fmt: skip
    assert batches == [["mail/a", "mail/b", "x"], ["mail/c", "y"]]


@pytest.mark.parametrize(
    ("max_in_flight", "where"),
    [({"a": 0}, " for the prefix 'a'"), ({"a": True}, " for the prefix 'a'"), ({"": 1.5}, "")],
)
def test_a_limit_of_a_prefix_that_is_none_is_refused(queue, max_in_flight, where):
    with pytest.raises(ValueError, match=f"max_in_flight must be a whole number .*, got [^ ]*{where}$"):
        queue.consume(print, max_in_flight=max_in_flight)
    with pytest.raises(TypeError, match="prefixes"):
        queue.consume(print, max_in_flight={1: 1})


@pytest.mark.parametrize("max_in_flight", [0, -1, 1.5, True])
def test_a_limit_in_flight_that_is_none_is_refused(queue, max_in_flight):
    with pytest.raises(ValueError, match="max_in_flight"):
        queue.consume(print, max_in_flight=max_in_flight)


# --- dead letters


def bury(world, keys):
    queue = world.open(max_attempts=1)
    offer(queue, world, keys)
    for _ in keys:
        queue.try_poll().nack(error="no")
    return queue


def test_dead_letters_are_filtered_and_put_back_by_the_beginning_of_their_keys(world):
    queue = bury(world, ["mail/a", "mail/b", "mail_/c", "Mail/d", "m%"])
    assert [letter.key for letter in queue.dead_letters("mail/")] == ["mail/b", "mail/a"]
    assert [letter.key for letter in queue.dead_letters(prefix="m", limit=2)] == ["m%", "mail_/c"]
    assert len(queue.dead_letters(prefix="")) == 5
    assert queue.redrive(prefix="mail/") == 2
    assert sorted(queue.try_poll_many(10).payload) == ["mail/a", "mail/b"]
    assert queue.redrive(prefix="x") == 0
    assert queue.redrive(prefix="") == 3
    with pytest.raises(ValueError, match="not both"):
        queue.redrive(["a"], prefix="a")
    with pytest.raises(TypeError, match="prefix"):
        queue.dead_letters(5)


def test_dead_letters_of_some_age_are_purged(world):
    queue = bury(world, ["old"])
    world.clock.advance(100)
    bury(world, ["new"])
    assert queue.purge_dead(older_than=101) == 0
    assert world.open("other").purge_dead(0) == 0
    assert queue.purge_dead(timedelta(seconds=50)) == 1
    assert [letter.key for letter in queue.dead_letters()] == ["new"]
    with pytest.raises(ValueError, match="older_than"):
        queue.purge_dead(-1)


# --- the database's time


def test_with_the_databases_time_a_clock_that_is_ahead_takes_nothing_early(database):
    ahead, right = ManualClock(time.time() + 3600), database.open(clock=None)
    now = right._session.storage.database_time()
    right.offer_or_update("due", 1, now - 5)
    right.offer_or_update("later", 2, now + 600)
    consumer = database.open(clock=ahead, database_time=True)
    assert consumer.try_poll_many(10).payload == [1]
    assert abs(consumer.clock.now() - now) < 300
    assert database.open(clock=ahead).try_poll_many(10).payload != []


def test_the_databases_time_goes_on_between_questions_and_is_never_ahead_of_the_answer():
    real, database = [100.0], [5000.0]
    answers = []

    def ask():
        answer = database[0]
        real[0] += 2.0  # the answer takes that long
        database[0] += 2.0
        answers.append(answer)
        return answer

    clock = DatabaseClock(ask, monotonic=lambda: real[0])
    assert clock.now() == 5000.0 < database[0]
    for passed in (1, 3, 3.5):
        real[0] += passed
        database[0] += passed
        assert clock.now() <= database[0]
    assert len(answers) == 1
    real[0], database[0] = real[0] + 1, database[0] - 100  # the database's clock was put right
    assert clock.now() == answers[1] and len(answers) == 2


def test_a_database_that_cannot_be_asked_again_leaves_the_time_going_on():
    real, broken = [100.0], [False]

    def ask():
        if broken[0]:
            raise OSError("away")
        return 5000.0

    clock = DatabaseClock(ask, monotonic=lambda: real[0])
    assert clock.now() == 5000.0
    broken[0], real[0] = True, 200.0
    assert clock.now() == 5100.0
    with pytest.raises(OSError, match="away"):
        DatabaseClock(ask).now()


# --- numbers that no database takes


@pytest.mark.parametrize("ask", [
    lambda queue: queue.peek(2**31),
    lambda queue: queue.history(10**30),
    lambda queue: queue.dead_letters(limit=2**70),
    lambda queue: queue.try_poll_many(10**30),
    lambda queue: queue.purge_dead(float("inf")),
    lambda queue: queue.purge_dead(10**30),
])  # fmt: skip
def test_a_number_beyond_what_a_database_takes_is_a_value_error_that_shows_it(world, ask):
    queue = world.open()
    offer(queue, world, "a")
    with pytest.raises(ValueError, match=r"got (2147483648|1\d{30}|1180591620717411303424|inf)"):
        ask(queue)
    assert queue.try_poll().ack() is True


@pytest.mark.parametrize("start", [datetime.min, datetime.max - timedelta(days=3)], ids=["first year", "last year"])
def test_a_backfill_at_the_end_of_the_calendar_is_a_value_error(world, start):
    queue = world.open()
    start = start.replace(tzinfo=timezone.utc)
    with (
        queue.cron.install_cron("early", "30 6 * * *", lambda at: "x"),
        pytest.raises(ValueError, match="years 2 to 9998"),
    ):
        queue.cron.backfill("early", start, start + timedelta(days=3))


def test_pausing_says_whether_it_changes_anything_also_of_a_queue_that_nobody_has_opened(world):
    storage = world.open()._session.storage
    changed = [
        storage.set_paused("new", name="n", type_name="t", paused=on) for on in (False, True, True, False, False)
    ]
    assert changed == [False, True, False, True, False]


# --- what is shown of a message


def test_all_that_is_known_of_a_message_is_shown_while_it_waits_flies_is_done_or_dead(world):
    queue, start = world.open(history=2, max_attempts=1, codec=BytesCodec()), world.now
    at = [datetime.fromtimestamp(start + seconds, timezone.utc) for seconds in range(200)]
    queue.offer_batch([ScheduledMessage("a", b"A", start + 10, priority=2), ScheduledMessage("b", b"B", start + 5)])
    world.clock.advance(20)
    (held,) = queue.get_next_batch(1)
    assert queue.peek() == [
        StoredMessage("a", b"A", at[10], at[10], at[0], 0, False, 2),
        StoredMessage("b", b"B", at[5], at[50], at[0], 1, True, 0, None, queue._session.storage.holder, at[20]),
    ]
    there = queue.read("b")
    assert (there.payload, there.attempt, there.schedule_at, there.timestamp) == (b"B", 1, at[5], at[20])
    assert (held.delivery_type, there.delivery_type) == (DeliveryType.FIRST_DELIVERY, DeliveryType.REDELIVERY)
    assert (there.extend(5), there.nack(), queue.try_poll_many(0).extend(5)) == (False, False, True)
    world.clock.advance(1)
    assert held.ack() and not there.ack()
    holder = queue._session.storage.holder
    assert queue.history() == [FinishedAttempt("b", at[5], 1, at[21], "acknowledged", at[20], None, holder)]
    queue.offer_or_update("c", b"C", start + 100)
    assert queue.read("c").ack() and queue.stats().scheduled == 0
    world.clock.advance(1)
    queue.try_poll().nack(error="no good")
    (letter,) = queue.dead_letters()
    assert letter == DeadLetter(letter.id, "a", b"A", at[10], 1, "no good", at[22], 2)
    assert queue.redrive() == 1
    assert queue.peek(key="a") == [StoredMessage("a", b"A", at[22], at[22], at[22], 0, False, 2)]
    (held,) = queue.get_next_batch(1)
    assert queue.read("a").ack() and not held.ack()  # one that flies can be deleted, too


def test_what_may_read_or_change_a_whole_queue_is_asked_patiently_and_schedules_apart(sqlite, monkeypatch):
    queue = sqlite.open()
    storage, asked = queue._session.storage, {}
    plain = {"_ask": storage._ask, "_do": storage._do}
    for way in plain:
        for kind in ("", "_patiently", "_for_schedules"):

            def noted(name, values, *, way=way, kind=kind):
                asked.setdefault(kind, set()).add(name)
                return plain[way](name, values)

            monkeypatch.setattr(storage, way + kind, noted)
    offer(queue, sqlite, "ab")
    queue._enter_name()  # it is there, and the database may be one to read only
    queue.try_poll().ack()
    queue.try_poll().nack(3)
    queue.stats(), queue.dead_letters(), queue.dead_letters("a"), queue.drop_message("a"), queue.peek(), queue.history()
    with queue.cron.install_periodic_tick("p", 60, str, catch_up="all"):
        queue.cron.forget("p")  # it still runs, so it is listed again
    queue.drop_dead_letters(["a"]), queue.purge_dead(60)
    queue.drop_all_messages("Yes, please, I know what I'm doing!")
    assert asked == {
        "": {"ACK", "NACK", "HISTORY", "DEAD", "DEAD_OF", "DROP", "QUEUES"},
        "_patiently": {"COUNTS", "DROP_ALL", "DROP_DEAD", "PEEK", "PURGE_DEAD"},
        "_for_schedules": {"LAST_TICK", "NAME_SCHEDULE", "SCHEDULE_STATE"},
    }
