"""A good neighbour on a PostgreSQL server: behind poolers, beside readers, with few rights, next to frozen schedulers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from drainq import Backoff
from drainq.delayed import DelayedQueue, QueueUnavailable, RetryConfig, ScheduledMessage, TimeConfig
from drainq.delayed.storage.postgres.migrate import PostgresMigration
from drainq.delayed.storage.postgres.pool import PoolExhausted
from drainq.delayed.storage.postgres.ticks import _Install
from drainq.delayed.storage.records import Tick
from drainq.threads import start_aside
from tests.delayed.test_migrate import SOURCES_POSTGRES
from tests.pgbouncer import PgbouncerMissing, pgbouncer, version
from tests.soak.ledger import wait_until

psycopg = pytest.importorskip("psycopg")

SETTINGS = ("statement_timeout", "enable_seqscan", "plan_cache_mode", "jit", "default_transaction_isolation",
            "idle_in_transaction_session_timeout", "lock_timeout")  # fmt: skip
TIME = TimeConfig(acquire_timeout=30, poll_period=0.05)
QUICK = RetryConfig(Backoff(0.02, 0.1, jitter=0))


# --- poolers


@pytest.fixture(params=["options refused", "options ignored"])
def bouncer(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[str]:
    """Yield the URL of a pgbouncer in transaction mode; startup options it refuses, as by default, or swallows."""
    more = {"ignore_startup_parameters": "options,extra_float_digits"} if request.param == "options ignored" else {}
    try:
        with pgbouncer(postgres_url, **more) as url:
            yield url
    except PgbouncerMissing as missing:
        pytest.skip(str(missing))


def settings_of_the_next(bouncer: str) -> list[dict[str, str]]:
    """Return what other applications find on the server connections of the pooler, all of them."""
    with psycopg.connect(bouncer) as one, psycopg.connect(bouncer) as two:  # each inside a transaction: both are held
        found = []
        for connection in (one, two):
            connection.prepare_threshold = None
            found.append({name: connection.execute(f"SHOW {name}").fetchone()[0] for name in SETTINGS})
            assert connection.execute("SELECT count(*) FROM pg_listening_channels()").fetchone() == (0,)
        pids = {connection.execute("SELECT pg_backend_pid()").fetchone() for connection in (one, two)}
        assert len(pids) == 2
        return found


@pytest.mark.parametrize("prepare", [None, False, True])
def test_another_program_behind_the_same_pooler_sees_default_settings(bouncer, postgres, prepare):
    before = settings_of_the_next(bouncer)
    unsupported = prepare is True and version() < (1, 21)  # calls may then fail, and still harm nobody else
    queue = DelayedQueue.open(
        bouncer, "mail", table=postgres.table, time=TIME, retry=QUICK, prepare=prepare, notify=True
    )
    with queue:
        for call in (
            lambda: queue.offer_or_update("a", 1, 0),
            lambda: queue.offer_batch([ScheduledMessage(f"{n}", n, 0, bool(n % 2)) for n in range(5)]),
            lambda: queue.cron.install_tick("hash", "prefix", []),
            lambda: queue.try_poll_many(10).ack(),
            lambda: queue.stats(),
            lambda: queue.poll(timeout=0.01),
        ):
            with suppress(*[QueueUnavailable] if unsupported else []):
                call()
    assert settings_of_the_next(bouncer) == before
    assert len({tuple(found.values()) for found in before}) == 1


def test_many_threads_behind_a_pooler_without_prepared_statements_never_fail(bouncer, postgres):
    with DelayedQueue.open(bouncer, "mail", table=postgres.table, time=TIME) as queue:
        assert all(connection.behind_a_pooler for connection in queue._session.storage._pool._idle)

        def work(name: int) -> int:
            done = 0
            for round in range(15):
                queue.offer_or_update(f"{name}/{round}", round, 0)
                batch = queue.try_poll_many(3)
                assert batch.ack()
                done += len(batch.payload)
            return done

        with ThreadPoolExecutor(8) as pool:
            taken = sum(pool.map(work, range(8)))
        while rest := queue.try_poll_many(100).payload:
            taken += len(rest)
        assert taken == 8 * 15


def test_directly_at_a_server_nothing_is_set_on_a_connection_either(postgres):
    """Our settings came with the start of the session: RESET ALL leaves them as they are."""
    queue = postgres.open()
    queue.offer_or_update("a", 1, postgres.now)
    with queue._session.storage._pool.cursor() as cursor:
        assert not cursor.connection.behind_a_pooler
        before = [cursor.execute(f"SHOW {name}").fetchone() for name in SETTINGS]
        cursor.execute("RESET ALL")
        assert [cursor.execute(f"SHOW {name}").fetchone() for name in SETTINGS] == before
        assert before[1] == ("off",)


def test_statements_are_prepared_at_a_server_unless_that_is_switched_off(postgres):
    for prepare, expected in ((None, True), (True, True), (False, False)):
        queue = postgres.open(prepare=prepare)
        for n in range(8):
            queue.offer_or_update(f"{n}", n, postgres.now)
            queue.offer_batch([ScheduledMessage("a", n, 0), ScheduledMessage("b", n, 0)])
        with queue._session.storage._pool.cursor() as cursor:
            count = cursor.execute("SELECT count(*) FROM pg_prepared_statements", prepare=False).fetchone()[0]
        assert (count > 0) is expected


def test_after_a_rollback_the_next_calls_succeed_at_once_on_the_same_connection(postgres):
    """A driver that has prepared a statement itself deallocates all of the connection then, also those of drainq."""
    queue = postgres.open(max_connections=1, retry=RetryConfig(max_retries=0))
    pool = queue._session.storage._pool
    batch = [ScheduledMessage("b", 1, 0), ScheduledMessage("c", 1, 0)]
    calls = (
        lambda: queue.offer_or_update("a", 1, 0),
        lambda: queue.offer_batch(batch),
        lambda: queue.contains_message("a"),
    )
    for next_one in (*calls, lambda: queue.try_poll().ack()):
        for call in calls:  # prepared by both
            call()
        before = [id(connection) for connection in pool._idle]
        with pytest.raises(psycopg.errors.DivisionByZero), pool.transaction() as cursor:
            cursor.execute("SELECT 1 / 0")
        assert next_one()
        assert [id(connection) for connection in pool._idle] == before


def test_no_more_connections_are_open_than_allowed_and_who_finds_none_free_is_told_so(postgres):
    queue = postgres.open(max_connections=2, retry=RetryConfig(max_retries=0, try_timeout=1))
    pool = queue._session.storage._pool
    with pool.cursor(), pool.cursor():
        with pytest.raises(QueueUnavailable, match="max_connections") as unavailable:
            queue.stats()
        assert isinstance(unavailable.value.__cause__, PoolExhausted)
    queue._session.retry = RetryConfig()  # so that the threads below wait for a connection for as long as it takes
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: queue.offer_or_update(f"{n}", n, 0), range(40)))
    assert len(pool._idle) <= 2
    with pytest.raises(ValueError, match="max_connections"):
        postgres.open(max_connections=0)


# --- schedules


def test_a_frozen_scheduler_keeps_no_consumer_and_no_call_waiting(postgres):
    """It froze inside its transaction, with the locks of the schedules; twenty schedules here wait for those locks."""
    queue = postgres.open(clock=None, time=TIME, retry=RetryConfig(Backoff(0.02, jitter=0), try_timeout=5))
    for n in range(20):
        queue.cron.install_tick("hash", f"s{n}", [])
    frozen = psycopg.connect(postgres.url)
    frozen.execute(f'SELECT FROM "{postgres.table}__schedules" FOR UPDATE')
    stop, handled, enough = threading.Event(), [], threading.Event()

    def handle(envelope):
        handled.append(envelope.message_id)
        if len(handled) == 50:
            enough.set()
            stop.set()

    with ThreadPoolExecutor(21) as threads:
        looking = [threads.submit(queue.cron.install_tick, "hash", f"s{n}", []) for n in range(20)]
        consuming = threads.submit(queue.consume, handle, stop=stop)
        with psycopg.connect(postgres.url, autocommit=True) as watcher:
            waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"
            wait_until(lambda: watcher.execute(waits).fetchone()[0] >= 1, "a schedule to wait for a lock")
        for n in range(50):
            queue.offer_or_update(f"{n}", n, 0)
        assert enough.wait(60)
        assert not any(look.done() and look.exception() is None for look in looking)
        frozen.rollback()
        frozen.close()
        assert consuming.result(60) == 50
        queue.cron.install_tick("hash", "after", [])


def test_schedulers_of_one_prefix_take_turns_and_those_of_another_do_not_wait_for_them(postgres, monkeypatch):
    """So two configurations that are installed at the same time do not both keep their ticks."""
    monkeypatch.setattr("drainq.delayed.storage.postgres.ticks.LOCK_TIMEOUT_MS", 50)
    queue = postgres.open(retry=RetryConfig(max_retries=0))
    for prefix in "pr":
        queue.cron.install_tick("hash", prefix, [])
    storage, kind = queue._session.storage, queue._session.kind
    ours = {"prefix": "p", "config_hash": "hash"}
    ticks = {"ticks": [Tick("p/hash/19700101-000002.000000000", b"x", 2_000_000, 2000)], "now": 1000}
    calls = (
        lambda: storage.install_ticks(kind, **ours, **ticks),
        lambda: storage.backfill_ticks(kind, **ours, **ticks),
        lambda: storage.uninstall_ticks(kind, **ours),
        lambda: storage.forget_schedule(kind, prefix="p"),
    )
    with psycopg.connect(postgres.url) as another:
        another.execute(f"""SELECT FROM "{postgres.table}__schedules" WHERE "keyPrefix" = 'p' FOR NO KEY UPDATE""")
        for call in calls:
            with pytest.raises(psycopg.errors.LockNotAvailable):
                call()
        assert storage.install_ticks(kind, **{**ours, "prefix": "r"}, ticks=[], now=1000) == 0
    assert [call() for call in calls] == [1, 0, 1, 0]


def test_the_locks_of_several_schedules_are_taken_in_the_order_of_their_prefixes(postgres):
    """In whatever order the calls came: two processes would else wait for each other."""
    queue = postgres.open()
    for prefix in "pr":
        queue.cron.install_tick("hash", prefix, [])
    storage, table = queue._session.storage, f"{postgres.table}__schedules"
    installs = [_Install(prefix, "hash", [], 1000, False, None) for prefix in "rp"]
    lock = f"""SELECT FROM "{table}" WHERE "keyPrefix" = %s FOR NO KEY UPDATE NOWAIT"""
    waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"
    with psycopg.connect(postgres.url) as first, psycopg.connect(postgres.url, autocommit=True) as watcher:
        first.execute(lock, ("p",))
        joint = start_aside(lambda: storage._install(queue._session.kind, installs))
        wait_until(lambda: watcher.execute(waits).fetchone()[0] >= 1, "the joint call to wait for the first lock")
        watcher.execute(lock, ("r",))
        first.rollback()
        assert joint.result(30) == [0, 0]


def test_a_consumer_that_waits_for_its_turn_says_so_and_goes_on_when_it_comes(postgres, caplog):
    queue = postgres.open(clock=None, time=TIME, retry=RetryConfig(Backoff(0.02, jitter=0), try_timeout=0.2))
    queue.offer_or_update("a", 1, 0)
    stop = threading.Event()
    with psycopg.connect(postgres.url) as other:
        other.execute(f"""SELECT FROM "{postgres.table}__queues" FOR UPDATE""")
        consumer = start_aside(lambda: queue.consume(lambda envelope: stop.set(), stop=stop, max_in_flight=1))
        wait_until(lambda: "waits for its database (QueryCanceled [57014]: canceling" in caplog.text, "a warning")
        assert not stop.is_set()
    consumer.result(30)
    assert stop.is_set() and queue.stats().ready == 0


def test_a_consumer_with_a_limit_whose_queue_lost_its_name_is_refused(postgres):
    queue = postgres.open()
    with psycopg.connect(postgres.url, autocommit=True) as other:
        other.execute(f"""DELETE FROM "{postgres.table}__queues\"""")
    with pytest.raises(LookupError, match="limits need the queue's name"):
        queue.consume(print, max_in_flight=1, until="empty")


def test_only_migrations_take_a_lock_that_a_stranger_can_take_by_knowing_a_text(postgres):
    statements = postgres.open()._session.storage._sql
    assert [name for name, text in statements.items() if "advisory" in text] == ["LOCK_MIGRATION"]


def test_a_transaction_of_ours_that_freezes_is_ended_by_the_server(postgres):
    queue = postgres.open()
    for pool in (queue._session.storage._pool, queue._session.storage._schedules):
        with pool.transaction() as cursor:
            assert cursor.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("10s",)


# --- migrations


def adopted(postgres) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        for statement in SOURCES_POSTGRES.format(t=postgres.table).split(";"):
            connection.execute(statement)


def test_while_a_long_reader_keeps_a_migration_waiting_other_programs_write(postgres):
    adopted(postgres)
    retry = RetryConfig(Backoff(0.01, 0.05, jitter=0))
    with psycopg.connect(postgres.url) as reader, psycopg.connect(postgres.url, autocommit=True) as writer:
        reader.execute(f'SELECT count(*) FROM "{postgres.table}"')
        with ThreadPoolExecutor(1) as threads:
            opening = threads.submit(postgres.open, retry=retry)
            waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
            wait_until(lambda: writer.execute(waits).fetchone()[0] == 1, "the migration to wait for its lock")
            writer.execute("SET statement_timeout = '20s'")
            try:
                for n in range(3):
                    writer.execute(
                        f'INSERT INTO "{postgres.table}" ("pKey", "pKind", payload, "scheduledAt", "scheduledAtInitially", "createdAt")'
                        " VALUES (%s, 'k', '', 1, 1, 1)", (str(n),))  # fmt: skip
                assert not opening.done()
            finally:
                reader.rollback()
            assert opening.result(60).stats().ready == 0


@pytest.mark.parametrize("locks", [
    'SELECT count(*) FROM "{}"', "SELECT pg_advisory_xact_lock(hashtextextended('drainq migrate {}', 0))"
])  # fmt: skip
def test_a_migration_that_never_gets_its_lock_is_given_up_on_as_unavailable(postgres, locks):
    adopted(postgres)
    with psycopg.connect(postgres.url) as other:
        other.execute(locks.format(postgres.table))
        with pytest.raises(QueueUnavailable) as unavailable:
            postgres.open(retry=RetryConfig(max_retries=0))
        assert unavailable.value.__cause__.sqlstate == "55P03"


def test_an_open_of_a_table_that_is_up_to_date_waits_for_no_lock(postgres):
    postgres.open().close()
    with psycopg.connect(postgres.url) as other:
        other.execute(f'LOCK TABLE "{postgres.table}" IN SHARE ROW EXCLUSIVE MODE')
        with postgres.open(retry=RetryConfig(max_retries=0, try_timeout=5)) as queue:
            assert queue.stats().ready == 0


def indexes(connection, table: str) -> dict[str, bool]:
    found = connection.execute(
        "SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = %s::regclass",
        (f'"{table}"',),
    )
    return dict(found.fetchall())


def test_an_index_on_a_table_in_use_is_built_beside_its_writers_and_a_broken_one_again(postgres):
    postgres.open().close()
    index = f"{postgres.table}__LockUuidPlusIdIndex"
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        assert indexes(admin, postgres.table)[index] is True
        admin.execute(f'DROP INDEX "{index}"')
        admin.execute(f'DELETE FROM "{postgres.table}__migrations" WHERE number = 6')
        admin.execute(f'CREATE INDEX "{index}" ON "{postgres.table}" ("lockUuid", "id")')
        admin.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", (f'"{index}"',))
        queue = postgres.open()
        assert "CREATE INDEX CONCURRENTLY" not in queue._session.storage.migration_sql()
        assert indexes(admin, postgres.table)[index] is True
        definition = admin.execute("SELECT pg_get_indexdef(%s::regclass)", (f'"{index}"',)).fetchone()[0]
        assert "WHERE" in definition, "the broken one was dropped, and ours was built"


def test_two_programs_that_build_the_same_index_both_open(postgres, monkeypatch):
    """An index is built without a lock, so another program may be done with it, and write it down, a moment before."""
    postgres.open().close()
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        admin.execute(f'DELETE FROM "{postgres.table}__migrations" WHERE number = 6')
    write_down, written = PostgresMigration._record_migration, []

    def later(storage, cursor, migration):
        written.append(migration.number)
        if len(written) == 1:
            postgres.open()
        write_down(storage, cursor, migration)

    monkeypatch.setattr(PostgresMigration, "_record_migration", later)
    assert postgres.open().stats().ready == 0
    assert written == [6, 6]
    with psycopg.connect(postgres.url) as admin:
        [(times,)] = admin.execute(f'SELECT count(*) FROM "{postgres.table}__migrations" WHERE number = 6').fetchall()
    assert times == 1


def test_the_script_builds_indexes_of_a_table_in_use_after_the_transaction(postgres):
    postgres.open().close()
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        admin.execute(f'DELETE FROM "{postgres.table}__migrations" WHERE number = 6')
    queue = postgres.open(migrate=False)
    transaction, _, after = queue._session.storage.migration_sql().partition("COMMIT;\n")
    assert "CONCURRENTLY" not in transaction and "CREATE INDEX CONCURRENTLY" in after


# --- rights


def test_a_role_with_just_the_documented_rights_can_do_everything(own_postgres, caplog):
    page = (Path(__file__).parents[2] / "docs" / "howto" / "delayed.md").read_text()
    (grants,) = [sql for block in page.split("```sql\n")[1:] if "GRANT" in (sql := block.partition("```")[0])]
    assert grants.count("GRANT") == 5
    DelayedQueue.open(own_postgres.url, "mail").close()
    with psycopg.connect(own_postgres.url, autocommit=True) as admin:
        admin.execute(
            "REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA public TO app"
        )
        admin.execute(grants)
    url = own_postgres.url.replace("drainq@", "app@")
    with DelayedQueue.open(url, "mail", max_attempts=1, retry=RetryConfig(max_retries=0), notify=True) as queue:
        assert queue.offer_or_update("a", 1, 0).value == "created"
        assert [
            o.value for o in queue.offer_batch([ScheduledMessage(f"{n}", n, 0, bool(n % 2)) for n in range(1500)])
        ] == ["created"] * 1500
        queue.try_poll().nack(error="x")
        assert queue.stats().dead == 1
        assert queue.redrive() == 1
        batch = queue.try_poll_many(10)
        assert batch.extend(10) and batch.ack()
        assert queue.cron.install_tick("hash", "prefix", []) == 0
        assert queue.cron.uninstall_tick("hash", "prefix") == 0
        assert queue.cron.forget("prefix") == 0
        assert queue.pause() and queue.resume()
        assert queue.drop_message("1400") and queue.read("1401").ack()
        assert queue.drop_all_messages("Yes, please, I know what I'm doing!") > 1000
        assert queue.drop_dead_letters(everything=True) == 0
        with DelayedQueue.open(url, "kept", history=1) as kept:
            for n in range(3):
                kept.offer(f"{n}", n)
                kept.try_poll().ack()
            assert [row.key for row in kept.history()] == ["2"]
        queue.offer_or_update("urgent", 1, 0, priority=-1)
        queue.offer_or_update("plain", 1, 0)
        assert [queue.try_poll().message_id for _ in range(2)] == ["urgent", "plain"]
    with psycopg.connect(url, autocommit=True) as app:
        (outcome,) = app.execute("SELECT delayed_queue_offer('kept', 'by SQL', '1', priority => 1)").fetchone()
        assert outcome == "created"
    with psycopg.connect(own_postgres.url, autocommit=True) as admin:
        admin.execute('DROP INDEX "delayed_queue__KindPlusPriorityIndex"')
        admin.execute('DELETE FROM "delayed_queue__migrations" WHERE "number" = 11')
    caplog.clear()
    with DelayedQueue.open(url, "mail") as queue:  # an index is missing that this role may not make
        assert queue.stats().in_flight == 2
    assert "KindPlusPriorityIndex" in caplog.text


SPIES = {
    "hashtextextended": "text, integer",
    "starts_with": "varchar, text",
    "pg_notify": "varchar, varchar",
    "to_regclass": "varchar",
    "max": "bigint, VARIADIC integer[]",
}
"""Functions that match some call better than PostgreSQL's own of that name, or nearly so."""


def test_no_function_of_a_stranger_is_called(postgres):
    """Who may create functions in a schema of the search path gets none of them run with the program's rights."""
    with psycopg.connect(postgres.url, autocommit=True) as stranger:
        for name, types in SPIES.items():
            stranger.execute(f"CREATE FUNCTION public.{name}({types}) RETURNS bigint LANGUAGE sql AS 'SELECT 1 / 0'")
        try:
            queue = postgres.open("mail", max_attempts=1, notify=True)
            with queue.cron.install_cron("nightly", "0 3 * * *", lambda at: "x") as handle:
                handle.look()
            queue.offer_batch([ScheduledMessage(key, key, postgres.now) for key in "ab"])
            assert queue.try_poll().nack(error="no")
            assert [dead.key for dead in queue.dead_letters("a")] == ["a"] and queue.redrive(prefix="a") == 1
            stop = threading.Event()
            queue.consume(lambda envelope: stop.set(), stop=stop, max_in_flight={"a": 1, "b": 1})
            assert queue.offer_or_update("c", 1, postgres.now)
        finally:
            for name, types in SPIES.items():
                stranger.execute(f"DROP FUNCTION public.{name}({types})")
