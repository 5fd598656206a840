"""The boundaries between queues, to the row and to the millisecond, on every back end."""

from __future__ import annotations

import sqlite3

import pytest

from drainq.delayed import BytesCodec, DelayedQueue, QueueBroken, RetryConfig, ScheduledMessage, TimeConfig
from drainq.testing import ManualClock


def finish(queue, world, *keys):
    for key in keys:
        queue.offer_or_update(key, key, world.now)
        assert queue.try_poll().ack()


def test_a_history_is_bounded_by_its_own_queue_alone(world):
    short, long = world.open("short", history=2), world.open("long", history=4)
    finish(long, world, "a", "b", "c")
    finish(short, world, "1", "2", "3", "4")
    assert [done.key for done in short.history()] == ["4", "3"]
    assert [done.key for done in long.history()] == ["c", "b", "a"]
    finish(long, world, "d", "e")
    assert [done.key for done in long.history()] == ["e", "d", "c", "b"]
    assert [done.key for done in long.history(1)] == ["e"]
    assert [done.key for done in short.history()] == ["4", "3"]


def test_a_message_that_is_acknowledged_with_the_next_fetch_is_not_due_again(world):
    queue = world.open("fused")
    queue.offer_or_update("a", "x", world.now)
    now = int(world.now * 1000)
    held = queue.try_poll()._held()  # until the end of its lease, which is in the future
    fetched = queue._session.storage.acquire(queue._session.kind, 1, now, now + 10_000, "next", done=held)
    assert (fetched.acked, fetched.rows, fetched.next_due) == (1, [], None)


def die(queue, world, *keys):
    for key in keys:
        queue.offer_or_update(key, key, world.now)
        assert queue.try_poll().nack(error=f"{key} is odd")


@pytest.fixture
def two(world):
    """Return two queues of one table that give up at once."""
    return world.open("one", max_attempts=1), world.open("other", max_attempts=1)


def test_dead_letters_are_counted_purged_dropped_and_put_back_in_their_own_queue_alone(two, world):
    one, other = two
    die(one, world, "a", "b")
    die(other, world, "a", "c", "d")
    assert (one.stats().dead, other.stats().dead) == (2, 3)
    assert [letter.key for letter in one.dead_letters("a")] == ["a"]
    assert other.redrive(["a", "b"]) == 1 and (one.stats().dead, other.stats().dead) == (2, 2)
    assert other.drop_dead_letters(["a", "b", "c"]) == 1 and (one.stats().dead, other.stats().dead) == (2, 1)
    world.clock.advance(1)
    assert other.purge_dead(0) == 1 and (one.stats().dead, other.stats().dead) == (2, 0)
    assert one.redrive(prefix="b") == 1 and one.try_poll().payload == "b"
    assert other.contains_message("a") and one.redrive() == 1 and one.try_poll().payload == "a"


def test_a_message_that_is_put_back_has_its_priority(two, world):
    queue, _ = two
    queue.offer("first", "first", world.now, priority=-1)
    assert queue.try_poll().nack(error="odd") and queue.redrive() == 1
    queue.offer("other", "other", world.now - 1)
    assert queue.try_poll().message_id == "first"


def test_a_dead_letter_is_purged_when_it_is_older_and_not_when_it_is_as_old(two, world):
    one, _ = two
    die(one, world, "a")
    world.clock.advance(10)
    assert one.purge_dead(10) == 0
    world.clock.advance(0.001)
    assert one.purge_dead(10) == 1


def test_counts_of_a_queue_leave_out_the_other_queues_of_its_table(world):
    one, other = world.open("one"), world.open("other")
    for queue, count in ((one, 1), (other, 2)):
        queue.offer_batch([ScheduledMessage(f"due {n}", n, world.now) for n in range(2 * count)])
        queue.offer_batch([ScheduledMessage(f"later {n}", n, world.now + 60) for n in range(count)])
        queue.try_poll_many(count)
    counts = [(s.ready, s.scheduled, s.in_flight, s.redelivered) for s in (one.stats(), other.stats())]
    assert counts == [(1, 1, 1, 0), (2, 2, 2, 0)]
    assert other.drop_all_messages("Yes, please, I know what I'm doing!") == 6
    assert (one.stats().ready, one.stats().scheduled, one.stats().in_flight) == (1, 1, 1)


def test_a_message_on_loan_is_ready_again_in_the_millisecond_in_which_its_lease_ends(queue, world):
    queue.offer_or_update("a", 1, world.now)
    assert queue.try_poll() is not None
    world.clock.advance(29.999)
    assert (queue.stats().in_flight, queue.stats().ready, queue.try_poll()) == (1, 0, None)
    world.clock.advance(0.001)
    assert (queue.stats().in_flight, queue.stats().ready) == (0, 1) and queue.stats().oldest_ready_age == 0.0
    world.clock.advance(1.5)
    assert queue.stats().oldest_ready_age == 1.5
    assert queue.try_poll().attempt == 2 and queue.stats().redelivered == 1


def test_messages_that_are_updated_again_and_again_are_all_delivered(queue, world):
    queue.offer_batch([ScheduledMessage(key, 0, world.now) for key in ("first", "often", "last")])
    for n in range(1, 200):
        queue.offer_or_update("often", n, world.now)
    assert sorted(queue.try_poll_many(9).payload) == [0, 0, 199]


def test_what_was_given_back_unhandled_is_due_when_it_was_and_was_never_delivered(queue, world):
    queue.offer_or_update("a", 1, world.now - 5)
    queue.offer_or_update("b", 2, world.now - 4)
    envelope = queue.try_poll()
    queue._session.release(envelope._held())
    again = queue.try_poll()
    assert (again.payload, again.attempt) == (1, 1) and queue.stats().redelivered == 0
    assert envelope.ack() is False and again.ack() is True


def test_an_update_forgets_the_error_of_the_message_before_it(database):
    queue = database.open()
    queue.offer_or_update("a", 1, database.now)
    queue.try_poll().nack(error="odd")
    assert last_error(database) == "odd"
    queue.try_poll().nack()
    assert last_error(database) == "odd"  # of the last failure that said why
    queue.offer_or_update("a", 2, database.now)
    assert last_error(database) is None


def last_error(database):
    asked = f'SELECT "lastError" FROM "{database.table}"'
    if database.backend == "sqlite":
        with sqlite3.connect(database.url.removeprefix("sqlite:///")) as connection:
            return connection.execute(asked).fetchone()[0]
    import psycopg

    with psycopg.connect(database.url) as connection:
        return connection.execute(asked).fetchone()[0]


def test_an_offer_that_fails_half_way_undoes_itself_and_nothing_else_of_the_callers_transaction(sqlite):
    queue = sqlite.open()
    connection = sqlite3.connect(sqlite.url.removeprefix("sqlite:///"))
    connection.execute("CREATE TABLE mine (n)")
    connection.execute(
        f"""CREATE TRIGGER no_bad BEFORE INSERT ON "{sqlite.table}" WHEN NEW."pKey" = 'bad'
        BEGIN SELECT RAISE(ABORT, 'no bad keys'); END"""
    )
    connection.execute("INSERT INTO mine VALUES (1)")
    messages = [ScheduledMessage(key, 1, sqlite.now) for key in ("good", "bad")]
    with pytest.raises(sqlite3.IntegrityError, match="no bad keys"):
        queue.offer_batch(messages, connection=connection)
    connection.commit()
    assert connection.execute("SELECT n FROM mine").fetchall() == [(1,)]
    connection.close()
    assert not queue.contains_message("good")
    with pytest.raises(QueueBroken, match="refused: IntegrityError"):  # on a connection of the queue's own as well
        queue.offer_batch(messages)
    assert not queue.contains_message("good")


def test_every_option_of_open_reaches_the_queue(tmp_path):
    options = {"max_attempts": 7, "source": "post", "notify": False, "history": 3, "log_values": True}
    url, retry, clock = f"sqlite:///{tmp_path}/queue.db", RetryConfig(max_retries=2), ManualClock()
    with DelayedQueue.open(
        url, "mail", codec=BytesCodec(), time=TimeConfig(9, 8), retry=retry, clock=clock, **options
    ) as queue:
        session = queue._session
        assert {name: getattr(session, name) for name in options} == options
        assert (session.name, session.codec.type_name, session.time) == ("mail", "bytes", TimeConfig(9, 8))
        assert (session.retry, session.clock, session.migrates) == (retry, clock, True)
    plain = [DelayedQueue.open(url, "mail", migrate=False), DelayedQueue.open("memory:", "mail")]
    assert [(queue._session.time.poll_period, queue._session.migrates) for queue in plain] == [
        (3.0, False),
        (0.5, True),
    ]
    assert [queue.close() for queue in plain] == [True, True]
