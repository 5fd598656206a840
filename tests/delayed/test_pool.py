"""Connections without a server: how one is opened, when its wait ends, and which one the pool keeps or closes."""

from __future__ import annotations

import contextlib
import types

import pytest

pytest.importorskip("psycopg")

import psycopg

from drainq.delayed.deadline import set_deadline
from drainq.delayed.storage.postgres import connection as connections
from drainq.delayed.storage.postgres import direct_libpq
from drainq.delayed.storage.postgres import pool as module
from drainq.delayed.storage.postgres.connection import BoundedConnection, Opener, PoolExhausted, TryTimedOut
from drainq.delayed.storage.postgres.connections import PostgresConnections
from drainq.delayed.storage.postgres.pool import PostgresPool
from drainq.delayed.storage.postgres.storage import PostgresStorage
from drainq.delayed.storage.records import Held, Offer, Past
from drainq.errors import ShutDown
from drainq.sql.url import DatabaseUrl

IDLE, BUSY = psycopg.pq.TransactionStatus.IDLE, psycopg.pq.TransactionStatus.INTRANS


class Connection:
    """What the pool asks of a connection."""

    round, closed, spoken, used_at, patient, behind_a_pooler = 0, False, False, 0.0, False, False

    def __init__(self, opened_at):
        self.opened_at, self.pgconn, self.said = opened_at, types.SimpleNamespace(transaction_status=IDLE), []
        self.transaction = contextlib.nullcontext

    def execute(self, statement, *, prepare):
        self.said.append(statement)

    def cursor(self):
        return contextlib.nullcontext(types.SimpleNamespace(connection=self, execute=self.execute))

    def was_spoken_to(self):
        return self.spoken

    def forget_prepared(self):
        self.said.append("forget")

    def close(self):
        self.closed = True


@pytest.fixture
def now(monkeypatch):
    now = [1000.0]
    clock = types.SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(module, "time", clock)
    yield now
    set_deadline(None)


@pytest.fixture
def pool(now):
    pool = PostgresPool(DatabaseUrl.parse("postgresql://nowhere/db"), try_timeout=None, max_connections=3)
    pool.opener = types.SimpleNamespace(open=lambda settings=None: Connection(now[0]))
    return pool


def taken(pool, count):
    return [pool._take() for _ in range(count)]


def give_back(pool, connections):
    for connection in connections:
        pool._give_back(connection)


def test_the_last_connection_that_came_back_is_taken_first_and_one_that_cannot_be_used_is_closed(pool):
    first, second, third = kept = taken(pool, 3)
    give_back(pool, kept)
    assert taken(pool, 3) == [third, second, first]
    first.pgconn.transaction_status = BUSY
    give_back(pool, kept)
    assert (first.closed, second.closed, third.closed) == (True, False, False)
    third.spoken = True
    assert taken(pool, 1) == [second] and third.closed
    give_back(pool, [second])
    second.closed = True
    assert pool._take() not in kept


def test_no_more_than_allowed_are_open_whatever_becomes_of_them(pool, monkeypatch):
    def refuse():
        raise psycopg.OperationalError("away")

    set_deadline(0.0)  # of the caller's try, which comes before the pool's own
    monkeypatch.setattr(pool.opener, "open", refuse)
    for _ in range(4):
        with pytest.raises(psycopg.OperationalError, match="away"):
            pool._take()
    monkeypatch.setattr(pool.opener, "open", lambda: Connection(0.0))
    for _ in range(2):
        three = taken(pool, 3)
        with pytest.raises(PoolExhausted, match="all 3 connections"):
            pool._take()
        three[0].pgconn.transaction_status = BUSY
        give_back(pool, three)


def test_a_connection_is_closed_after_an_hour_or_ten_minutes_of_rest(pool, now):
    old, rests, used = taken(pool, 3)
    give_back(pool, [old, rests, used])
    now[0] += 600.0
    assert taken(pool, 1) == [used]
    give_back(pool, [used])
    assert not old.closed
    now[0] += 60.0
    give_back(pool, taken(pool, 1))
    assert (old.closed, rests.closed, used.closed) == (True, True, False)
    for now[0], closed in ((1000.0 + 3599.0, False), (1000.0 + 3600.0, True)):
        give_back(pool, taken(pool, 1))
        assert used.closed is closed


def test_a_dead_connection_ends_the_round_of_all_that_are_as_old_and_no_later_one(pool):
    refused, gone = psycopg.errors.UniqueViolation(), psycopg.errors.AdminShutdown()
    one, other, third = three = taken(pool, 3)
    for connection, error in ((one, KeyError()), (one, refused)):
        pool._note(connection, error)
    give_back(pool, three)
    assert taken(pool, 3) == [third, other, one]
    give_back(pool, [third])
    one.closed = True
    pool._note(one, refused)
    assert (one.round, pool._round) == (-1, 1)
    pool._note(other, gone)  # of the same round, which has ended
    give_back(pool, [one, other])
    (new,) = taken(pool, 1)
    assert other.closed and third.closed and not new.closed
    pool._note(other, gone)
    give_back(pool, [new])
    assert taken(pool, 1) == [new]
    pool._note(new, gone)
    give_back(pool, [new])
    assert new.closed


def test_each_call_that_finds_its_connection_dead_ends_the_round(pool):
    def dies(*_):
        raise psycopg.errors.AdminShutdown

    calls = {"ask": lambda: pool.ask(None, {}), "ask_both": lambda: pool.ask_both(None, {}, None, {})}
    for number, call in enumerate(calls.values(), 1):
        used, kept = taken(pool, 2)
        used.ask = used.ask_both = dies
        give_back(pool, [kept, used])
        with pytest.raises(psycopg.errors.AdminShutdown):
            call()
        assert (used.closed, pool._round) == (True, number)
        (new,) = taken(pool, 1)
        assert kept.closed and not new.closed
        give_back(pool, [new])


def test_a_closed_pool_closes_each_connection_and_opens_none(pool):
    idle, used = taken(pool, 2)
    give_back(pool, [idle])
    with pytest.raises(KeyError), pool._borrowed() as borrowed:
        borrowed.patient = True
        raise KeyError
    assert borrowed is idle and not idle.patient and idle.said == ["forget"]
    idle.behind_a_pooler = True
    with pytest.raises(KeyError), pool._borrowed():
        raise KeyError
    assert idle.said == ["forget"], "a pooler keeps account of what is prepared"
    pool.close()
    assert idle.closed and not used.closed
    give_back(pool, [used])
    assert used.closed
    asked = []
    pool._room = types.SimpleNamespace(get=lambda timeout: asked.append(timeout), put=asked.append)
    with pytest.raises(ShutDown, match="are closed"):
        pool._take()
    assert asked == [30.0, None]


def test_each_block_has_the_time_limits_that_it_says_and_leaves_a_connection_with_all_of_them(pool):
    (connection,) = taken(pool, 1)
    connection.behind_a_pooler, pool.opener.set_local = True, "SET LOCAL a = 1"
    give_back(pool, [connection])
    for block, patient in ((pool.transaction(), False), (pool.patient(), True), (pool.cursor(patient=True), True)):
        with block as cursor:
            assert cursor.connection is connection and connection.patient is patient
        assert not connection.patient
    patiently = "SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = on; "
    patiently += "SET LOCAL plan_cache_mode = force_custom_plan"
    assert connection.said == ["SET LOCAL a = 1", "SET LOCAL a = 1", patiently]
    with pool._among_others(connection), contextlib.suppress(psycopg.Error), pool._among_others(connection):
        raise psycopg.OperationalError
    begin = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL a = 1"
    assert connection.said[3:] == [begin, begin, "ROLLBACK", "COMMIT"]
    with pytest.raises(psycopg.OperationalError), pool._among_others(connection):
        connection.closed = True
        raise psycopg.OperationalError
    assert connection.said[7:] == [begin]


def test_a_connection_for_one_work_has_its_settings_no_time_limit_and_an_end(pool):
    made = []
    pool.opener.open = lambda settings: made.append((Connection(0.0), settings)) or made[0][0]
    with pytest.raises(KeyError), pool.alone(lock_timeout=5) as cursor:
        assert cursor.connection.patient and made[0][1] == {"lock_timeout": 5}
        raise KeyError
    assert made[0][0].closed
    made[0][0].behind_a_pooler = True
    with pool.alone() as cursor:
        assert cursor is None


def test_an_opener_tells_the_server_its_limits_and_remembers_a_pooler_that_refuses_them(now, monkeypatch):
    told, first, second, broken = [], Connection(0.0), Connection(0.0), Connection(0.0)
    answers = [psycopg.OperationalError("unsupported startup parameter: options"), first, second, broken]

    def connect(url, *, timeout, connection_class, options=""):
        told.append((timeout, options))
        if isinstance(answers[0], Exception):
            raise answers.pop(0)
        return answers.pop(0)

    monkeypatch.setattr(connections, "connect_postgres", connect)
    url = DatabaseUrl.parse("postgresql://nowhere/db")
    opener = Opener(url, try_timeout=2.5, prepare=None)
    set_deadline(0.0)
    assert [opener.open({"lock_timeout": 7}), opener.open()] == [first, second]
    assert told[1:] == [(0.0, ""), (0.0, "")]
    assert opener.settings == {
        "statement_timeout": "2500",
        "idle_in_transaction_session_timeout": "10000",
        "plan_cache_mode": "force_generic_plan",
        "enable_seqscan": "off",
        "jit": "off",
    }
    assert opener.set_local == "; ".join(f"SET LOCAL {name} = {value}" for name, value in opener.settings.items())
    asked = {**opener.settings, "lock_timeout": "7", "default_transaction_isolation": r"read\ committed"}
    assert told[0] == (0.0, " ".join(f"-c {name}={value}" for name, value in asked.items()))
    for opened in (first, second):
        assert opened.behind_a_pooler and opened.prepare_threshold is None and opened.opened_at > 0.0
    with pytest.raises(AttributeError):  # it answers no statement
        Opener(url, try_timeout=None, prepare=None).open()
    assert broken.closed and "-c statement_timeout=0 " in told[-1][1]


@pytest.mark.parametrize("pooler", [False, True])
@pytest.mark.parametrize("prepare", [None, False, True])
def test_statements_are_prepared_unless_told_otherwise_or_behind_a_pooler(now, monkeypatch, pooler, prepare):
    connection = Connection(0.0)
    connection.prepare_threshold, connection.info = 5, types.SimpleNamespace(backend_pid=7)
    connection.execute = lambda statement, prepare: types.SimpleNamespace(fetchone=lambda: (8 if pooler else 7,))
    monkeypatch.setattr(connections, "connect_postgres", lambda *url, **options: connection)
    Opener(DatabaseUrl.parse("postgresql://nowhere/db"), try_timeout=None, prepare=prepare).open()
    assert connection.behind_a_pooler is pooler
    assert connection.isolation_level is psycopg.IsolationLevel.READ_COMMITTED
    assert (connection.prepare_threshold is None) is (prepare is False or (prepare is None and pooler))


def test_an_interrupted_statement_is_cancelled_and_its_connection_closed_unless_it_has_ended(monkeypatch):
    monkeypatch.setattr(direct_libpq, "time", types.SimpleNamespace(monotonic=lambda: 100.0))
    for error, ended in ((psycopg.errors.QueryCanceled(), []), (None, []), (TryTimedOut(), ["finish"])):
        told = []

        def answer(until, error=error, told=told):
            told.append(until)
            if error:
                raise error

        connection = types.SimpleNamespace(
            cancel_safe=lambda timeout, told=told: told.append(timeout),
            _answer=answer,
            pgconn=types.SimpleNamespace(finish=lambda told=told: told.append("finish")),
        )
        direct_libpq.DirectConnection._give_up_on_it(connection)
        assert told == [5.0, 105.0, *ended]


def test_a_wait_for_a_socket_is_told_its_milliseconds_and_what_to_watch(monkeypatch):
    told, found, select = [], [], direct_libpq.select
    poll = types.SimpleNamespace(register=lambda *of: told.append(of), poll=lambda ms: told.append(ms) or found)
    monkeypatch.setattr(direct_libpq, "select", types.SimpleNamespace(poll=lambda: poll, POLLIN=1, POLLOUT=4))
    watch = direct_libpq._watch(7, to_send=True)
    for events, answer in ((None, (False, False)), (1, (True, False)), (4, (False, True)), (16, (True, False))):
        found[:] = [(7, events)] if events else []
        assert watch(0.25) == answer
    direct_libpq._watch(8)(None)
    assert told == [(7, 5), 250.0, 250.0, 250.0, 250.0, (8, 1), None] and select.POLLIN == 1
    windows = types.SimpleNamespace(select=lambda *of: told.append(of) or ([], [9], []))
    monkeypatch.setattr(direct_libpq, "select", windows)
    assert direct_libpq._watch(9, to_send=True)(1.5) == (False, True) and told[-1] == ([9], [9], [], 1.5)


@pytest.mark.parametrize(
    ("state", "text", "kind", "says"),
    [
        (b"23505", b"", psycopg.errors.UniqueViolation, ""),
        (None, b" gone \n", psycopg.OperationalError, "gone"),
        (None, b"", psycopg.OperationalError, "the connection was lost"),
    ],
)
def test_an_answer_that_is_an_error_is_raised_as_the_drivers(state, text, kind, says):
    answer = types.SimpleNamespace(error_field=lambda field: state, error_message=text, status=None)
    connection = types.SimpleNamespace(pgconn=types.SimpleNamespace(error_message=text))
    if state:
        error = psycopg.errors.lookup(state.decode())()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(psycopg.errors, "error_from_result", lambda result: error)
            assert direct_libpq.DirectConnection._error(connection, answer) is error
        return
    for given in (answer, None):
        error = direct_libpq.DirectConnection._error(connection, given)
        assert type(error) is kind and str(error) == says


def test_a_wait_that_is_not_patient_ends_at_the_deadline_and_with_it_the_connection(now, monkeypatch):
    monkeypatch.setattr(psycopg.Connection, "wait", lambda self, steps: list(steps))
    finished, connection = [], BoundedConnection.__new__(BoundedConnection)
    connection.pgconn = types.SimpleNamespace(finish=lambda: finished.append(1), status=psycopg.pq.ConnStatus.BAD)
    for until, connection.patient in ((None, False), (float("inf"), False), (0.0, True)):
        set_deadline(until)
        assert connection.wait(step for step in range(3)) == [0, 1, 2]
    assert connection._until() is None
    connection.patient = False
    assert connection._until() == connections.GRACE
    with pytest.raises(TryTimedOut):
        connection.wait(step for step in range(3))
    assert finished == [1]


@pytest.fixture
def storage():
    url = DatabaseUrl.parse("postgresql://nowhere/db")
    return PostgresStorage(PostgresConnections(url, try_timeout=2.0, max_connections=3, prepare=False), table="t")


def test_schedules_have_a_connection_of_their_own_with_the_same_options(storage, monkeypatch):
    pools = storage._pool, storage._schedules
    assert [(pool._max_connections, pool.opener._prepare) for pool in pools] == [(3, False), (1, False)]
    assert {pool.opener.settings["statement_timeout"] for pool in pools} == {"2000"} and storage.most_calls == 3
    told, answer = [], types.SimpleNamespace(rowcount=1, fetchall=lambda: [(7,)])
    monkeypatch.setattr(storage._pool, "run", pytest.fail)
    monkeypatch.setattr(storage._schedules, "run", lambda statement, values, **more: told.append(statement) or answer)
    storage.name_schedule("k", prefix="p", config_hash="h", description="d", now=1)
    assert storage.last_tick("k", prefix="p", config_hash="h", until=9) == 7
    assert told == [storage._sql["NAME_SCHEDULE"], storage._sql["LAST_TICK"]]
    storage.close()
    assert [pool._closed for pool in pools] == [True, True]


def test_a_history_that_cannot_be_trimmed_now_is_trimmed_later_and_any_other_failure_is_raised(storage, monkeypatch):
    told = []

    def do(name, values):
        told.append(name)
        if name == "TRIM_HISTORY":
            raise error
        return 1

    monkeypatch.setattr(storage, "_do", do)
    error: Exception = psycopg.errors.DeadlockDetected()
    assert storage.ack("k", Held("lock", (1,)), past=Past(5, 3)) == 1
    error = psycopg.errors.UndefinedTable()
    with pytest.raises(psycopg.errors.UndefinedTable):
        storage.ack("k", Held("lock", (1,)), past=Past(5, 3))
    assert told == ["ACK_AND_REMEMBER", "TRIM_HISTORY"] * 2


def test_a_mixed_batch_on_the_callers_connection_sends_what_each_message_may(storage):
    told = []
    cursor = types.SimpleNamespace(execute=lambda *of: told.append(of), fetchall=lambda: [("a", False), ("c", True)])
    offers = [Offer("a", b"1", 5, True, 2), Offer("b", b"2", 6, False, 0, 3), Offer("c", b"3", 7, True, 0, None, "g")]
    outcomes = storage._offer_by_cursor(cursor, "OFFER_MANY_MIXED", "k", offers, [8, 9, 10], 4)
    assert [outcome.name for outcome in outcomes] == ["UPDATED", "IGNORED", "CREATED"]
    columns = {"keys": list("abc"), "payloads": [b"1", b"2", b"3"], "times": [5, 6, 7], "ids": [8, 9, 10]}
    columns |= {"tries": [None, 3, None], "groups": [None, None, "g"]}
    values = {"kind": "k", "now": 4, **columns, "ranks": [2, 0, 0], "may": [True, False, True]}
    assert told == [(storage._sql["OFFER_MANY_MIXED"], values)]
