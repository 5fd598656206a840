"""SQLite and PostgreSQL do what the plain model does, whatever the order of calls.

Each step is done on both; what comes back is compared, and after each step so is everything that is stored.
"""

from __future__ import annotations

import itertools
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from drainq.delayed import AckBatch, BytesCodec, DelayedQueue, MsgspecCodec, ScheduledMessage, TimeConfig
from drainq.delayed.cron.tick_key import tick_key
from drainq.delayed.queue_settings import QueueSettings
from drainq.delayed.storage.records import Tick
from drainq.testing import ManualClock
from tests.delayed.conftest import World
from tests.delayed.model import Model

KEYS = st.sampled_from(["a", "b", "c", "A", "é"])
PAYLOADS = st.integers(0, 2)
DELAYS = st.sampled_from([-5, 0, 0, 3, 12])
PRIORITIES = st.sampled_from([0, 0, 0, 0, -1, 7])
GROUPS = st.sampled_from([None, None, "x", "y"])
TRIES = st.sampled_from([None, None, None, 1, 2, 6])
PREFIXES = st.sampled_from(["p", "p/x", "P", "p_", "%"])
HASHES = st.sampled_from(["h", "g", "h/1"])
START = 1_700_000_000
_names = itertools.count(1)


class Garbled(BytesCodec):
    """Offers bytes that the default codec cannot read."""

    type_name = MsgspecCodec().type_name


class Comparison(RuleBasedStateMachine):
    """Two pairs of queues, one on the back end under test, one the model."""

    database: World

    @initialize()
    def begin(self) -> None:
        self.clock = ManualClock(START)
        name = f"q{next(_names)}"
        options: dict[str, Any] = {"clock": self.clock, "max_attempts": 4, "history": 1000}
        options["time"] = TimeConfig(acquire_timeout=10, poll_period=1)
        places = [lambda **more: DelayedQueue.open(self.database.url, name, table=self.database.table, **more)]
        model = Model()
        places.append(lambda **more: DelayedQueue(model, QueueSettings.of(name, **more)))
        self.queues = [place(**options) for place in places]
        self.garbled = [place(**options, codec=Garbled()) for place in places]
        self.envelopes: list[list[Any]] = []

    def both(self, call) -> Any:
        """Do it on both; return what both say, which must be the same."""
        real, model = (call(queue) for queue in self.queues)
        assert real == model
        return model

    @rule(
        key=KEYS, payload=PAYLOADS, delay=DELAYS, update=st.booleans(), priority=PRIORITIES, tries=TRIES, group=GROUPS
    )
    def offer(self, key, payload, delay, update, priority, tries, group):
        at = self.clock.now() + delay
        offer = DelayedQueue.offer_or_update if update else DelayedQueue.offer_if_not_exists
        self.both(lambda q: offer(q, key, payload, at, priority=priority, max_attempts=tries, group=group))

    @rule(messages=st.lists(st.tuples(KEYS, PAYLOADS, DELAYS, st.booleans(), PRIORITIES, TRIES, GROUPS), max_size=8))
    def offer_batch(self, messages):
        now = self.clock.now()
        batch = [ScheduledMessage(key, payload, now + delay, *more) for key, payload, delay, *more in messages]
        self.both(lambda q: q.offer_batch(batch))

    @rule(paused=st.booleans())
    def pause(self, paused):
        self.both(lambda q: q.pause() if paused else q.resume())
        assert self.both(lambda q: q.paused) is paused

    @rule(n=st.integers(1, 4), limits=st.dictionaries(st.sampled_from(["", "a", "A"]), st.integers(1, 3), min_size=1))
    def take_within(self, n, limits):
        taken = [queue._session.take_once(None, n, limits)[0].rows for queue in self.queues]
        assert [row._replace(id=0) for row in taken[0]] == [row._replace(id=0) for row in taken[1]]

    @rule(key=KEYS)
    def offer_garbage(self, key):
        for queue in self.garbled:
            queue.offer_or_update(key, b"\xff", self.clock.now())

    @rule(n=st.integers(0, 4))
    def poll(self, n):
        self.take([queue.try_poll_many(n) if n else queue.try_poll() for queue in self.queues])

    @rule(key=KEYS)
    def read(self, key):
        def look(queue):
            try:
                return queue.read(key)
            except ValueError as error:
                return str(error)

        found = [look(queue) for queue in self.queues]
        if isinstance(found[1], str):
            assert found[0] == found[1]
        else:
            self.take(found)

    def take(self, found):
        real, model = found
        assert (real is None) is (model is None)
        if model is not None:
            assert describe(real) == describe(model)
            self.envelopes.append([real, model])

    @precondition(lambda self: self.envelopes)
    @rule(
        data=st.data(),
        call=st.sampled_from(["ack", "nack", "snooze", "extend", "ack_first", "done"]),
        seconds=st.sampled_from([0, 4, 20]),
    )
    def settle(self, data, call, seconds):
        pair = data.draw(st.sampled_from(self.envelopes), label="envelope")
        if call == "ack":
            outcomes = [envelope.ack() for envelope in pair]
        elif call == "nack":
            outcomes = [envelope.nack(delay=seconds, error="given back") for envelope in pair]
        elif call == "snooze":
            outcomes = [envelope.snooze(seconds) for envelope in pair]
        elif call == "extend":
            outcomes = [envelope.extend(seconds) for envelope in pair]
        elif call == "done":
            outcomes = [queue.done([envelope]) for queue, envelope in zip(self.queues, pair)]
        else:
            keys = [[row.key for row in envelope._rows[:1]] for envelope in pair]
            batches = isinstance(pair[0], AckBatch)
            outcomes = [it.ack_some(first) if batches else it.ack() for it, first in zip(pair, keys)]
        assert outcomes[0] == outcomes[1]

    @precondition(lambda self: self.envelopes)
    @rule(data=st.data())
    def release(self, data):
        pair = data.draw(st.sampled_from(self.envelopes), label="envelope")
        if pair[0]._lock is not None and pair[0]._rows:
            for queue, envelope in zip(self.queues, pair):
                queue._session.release(envelope._held())

    @precondition(lambda self: self.envelopes)
    @rule(data=st.data(), n=st.integers(1, 3))
    def ack_and_acquire(self, data, n):
        pair = data.draw(st.sampled_from(self.envelopes), label="envelope")
        if pair[0]._lock is None or not pair[0]._rows:
            return
        now = int(self.clock.now() * 1000)
        fetched = [
            queue._session.storage.acquire(queue._session.kind, n, now, now + 10_000, "fused", done=envelope._held())
            for queue, envelope in zip(self.queues, pair)
        ]
        assert fetched[0].acked == fetched[1].acked
        real, model = (answer.next_due for answer in fetched)
        assert real == model or (real is None and model > now + 1000), "PostgreSQL looks a poll period ahead"
        assert [row._replace(id=0) for row in fetched[0].rows] == [row._replace(id=0) for row in fetched[1].rows]

    @rule(seconds=st.sampled_from([0.001, 1, 10, 100]))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @rule(key=KEYS)
    def drop(self, key):
        self.both(lambda q: q.drop_message(key))

    @rule()
    def drop_all(self):
        self.both(lambda q: q.drop_all_messages("Yes, please, I know what I'm doing!"))

    @rule(which=st.sampled_from(["key", "prefix"]), key=KEYS, delay=DELAYS)
    def reschedule(self, which, key, delay):
        at = self.clock.now() + delay
        self.both(lambda q: q.reschedule(**{which: key}, at=at))

    @rule(which=st.sampled_from(["key", "prefix"]), key=KEYS)
    def free(self, which, key):
        self.both(lambda q: q.release(**{which: key}))

    @rule(key=KEYS)
    def drop_messages(self, key):
        self.both(lambda q: q.drop_messages(key))

    @rule(keys=st.none() | st.lists(KEYS, max_size=3))
    def redrive(self, keys):
        self.both(lambda q: q.redrive(keys))

    @rule(keys=st.none() | st.lists(KEYS, max_size=3))
    def drop_dead(self, keys):
        self.both(lambda q: q.drop_dead_letters(keys, everything=keys is None))

    @rule(
        prefix=PREFIXES,
        config_hash=HASHES,
        offsets=st.lists(st.sampled_from([-200_000, -1, 0, 1, 60]), max_size=4),
        update=st.booleans(),
        payload=st.sampled_from([b"1", b"2"]),
        skew=st.sampled_from([0, 0, -30, 4 * 24 * 3600]),
    )
    def install_ticks(self, prefix, config_hash, offsets, update, payload, skew):
        ticks = []
        for offset in offsets:
            nominal = (START + offset) * 1_000_000
            ticks.append(Tick(tick_key(prefix, config_hash, nominal), payload, nominal, nominal // 1000))
        now = int((self.clock.now() + skew) * 1000)
        self.both(
            lambda q: q._session.storage.install_ticks(
                q._session.kind, prefix=prefix, config_hash=config_hash, ticks=ticks, now=now, update=update
            )
        )

    @rule(prefix=PREFIXES, config_hash=HASHES)
    def uninstall_ticks(self, prefix, config_hash):
        self.both(lambda q: q._session.storage.uninstall_ticks(q._session.kind, prefix=prefix, config_hash=config_hash))

    @rule(prefix=PREFIXES, config_hash=HASHES)
    def last_tick(self, prefix, config_hash):
        self.both(
            lambda q: q._session.storage.last_tick(q._session.kind, prefix=prefix, config_hash=config_hash, until=2**62)
        )

    @rule(after=DELAYS)
    def next_due(self, after):
        self.both(lambda q: q._session.storage.next_due(q._session.kind, int((self.clock.now() + after) * 1000)))

    @invariant()
    def both_store_the_same(self):
        if hasattr(self, "queues"):
            self.both(lambda q: q.stats())
            self.both(lambda q: sorted(q.peek(1000)))
            self.both(lambda q: [letter._replace(id=0) for letter in q.dead_letters(limit=1000)])
            self.both(lambda q: sorted(q.history(1000), key=str))

    def teardown(self):
        for queue in [*getattr(self, "queues", []), *getattr(self, "garbled", [])]:
            queue.close()


def describe(envelope):
    """Return what an envelope shows."""
    return (
        envelope.payload,
        envelope.message_id,
        envelope.attempt,
        envelope.delivery_types,
        envelope.schedule_at,
        envelope.timestamp,
    )


def test_a_database_does_what_the_model_does(database):
    class Machine(Comparison):
        pass

    Machine.database = database
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=25 if database.backend == "sqlite" else 10,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking on a database takes minutes
            report_multiple_bugs=False,
        ),
    )
