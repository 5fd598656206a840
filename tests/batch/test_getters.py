"""Native dispatch keys, and routes by name: the same result as a call of the key, which is made once an item."""

import collections
import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drainq import BatchQueue, BatchQueueConfig, PartitionPolicy, ThreadPolicy
from tests.batch.conftest import PATIENCE, Gate, accounts

Pair = collections.namedtuple("Pair", "kind value")


class Reader:
    """An item that says itself what it has, and counts how often it is asked."""

    def __init__(self, kind):
        self.hidden, self.asked = kind, 0

    def __getitem__(self, key):
        self.asked += 1
        return (self.hidden, key)

    @property
    def kind(self):
        self.asked += 1
        return self.hidden


class Twisted(tuple):
    """A tuple whose items are not what the tuple holds."""

    def __getitem__(self, key):
        return ("twisted", key)


class TwistedDict(dict):
    """A dict whose items are not what the dict holds."""

    def __getitem__(self, key):
        return ("twisted", key)


class Missing(dict):
    """A dict with an answer for every key."""

    def __missing__(self, key):
        return f"no {key}"


KINDS = st.sampled_from(["GET", "POST", "".join(["G", "ET"]), 1, 1.0, True, 10**20, None, ("a", 1)])
ITEMS = st.one_of(
    st.tuples(KINDS, KINDS),
    st.tuples(KINDS, KINDS, KINDS),
    st.tuples(KINDS),
    st.just(()),
    st.builds(Pair, KINDS, st.just(0)),
    st.builds(lambda kind: Twisted((kind,)), KINDS),
    st.builds(lambda kind: {"kind": kind, 0: kind}, KINDS),
    st.builds(lambda kind: TwistedDict({"kind": kind, 0: kind}), KINDS),
    st.builds(lambda kind: Missing(other=kind), KINDS),
    st.builds(lambda kind: [kind, kind], KINDS),
    st.builds(Reader, KINDS),
    st.text(max_size=2),
    st.integers(),
)
GETTERS = [
    operator.itemgetter(0),
    operator.itemgetter(1),
    operator.itemgetter(-1),
    operator.itemgetter(True),
    operator.itemgetter("kind"),
    operator.itemgetter(0, 1),
    operator.itemgetter(slice(0, 1)),
    operator.itemgetter(10**30),
    operator.attrgetter("kind"),
    operator.attrgetter("value"),
    operator.attrgetter("kind.real"),
    operator.attrgetter("kind", "value"),
]


def outcomes(dispatch_key, items, produce):
    """Return what became of each item, and how many each type got."""
    config = BatchQueueConfig(
        threads=ThreadPolicy.fixed(1), partitions=PartitionPolicy.fixed(3), dispatch_key=dispatch_key, consumer=len
    )
    told = []
    with BatchQueue("getters", config) as queue:
        for item in items:
            try:
                told.append(produce(queue, item))
            except Exception as error:
                told.append((type(error), str(error)))
        assert queue.flush(PATIENCE)
        stats = queue.stats()
    accounts(stats)
    return told, {name: counts.accepted for name, counts in stats.per_type.items()}


@pytest.mark.parametrize("getter", GETTERS, ids=str)
@pytest.mark.parametrize(
    "produce", [BatchQueue.produce, BatchQueue.offer, lambda queue, item: queue.produce_many([item])]
)
@settings(max_examples=20)
@given(items=st.lists(ITEMS, max_size=12))
def test_a_getter_gives_what_its_call_gives(getter, produce, items):
    assert outcomes(getter, items, produce) == outcomes(lambda item: getter(item), items, produce)


@pytest.mark.parametrize("getter", [operator.itemgetter("x"), operator.attrgetter("kind"), lambda item: item.kind])
def test_an_item_is_asked_once(make_queue, getter):
    """For a new type, by the cached route, and where there is no room."""
    queue = make_queue(dispatch_key=getter, consumer=(gate := Gate(is_open=False)), buffer_size=2)
    items = [Reader("a") for _ in range(5)]
    assert queue.produce(items[0])
    gate.wait_entered()
    assert [queue.offer(item, timeout=0) for item in items[1:]] == [True, True, False, False]
    assert [item.asked for item in items] == [1] * 5
    gate.open()


def test_equal_names_are_one_type_on_every_path(make_queue):
    """Names that are the first, equal strings, equal numbers of other classes, and equal objects."""

    class Name(str):
        __slots__ = ()

    queue = make_queue(dispatch_key=operator.itemgetter(0), buffer_size=1_000)
    queue.add_handler("name", texts := Gate())
    queue.add_handler(1000, numbers := Gate())
    names = ["name", "".join(["na", "me"]), Name("name")]
    values = [1000, int("1000"), 1000.0]
    for _ in range(3):
        assert all(queue.produce((name, 0)) for name in names + values)
    assert queue.produce_many([(name, 0) for name in names + values]) == 6
    assert queue.flush(PATIENCE)
    assert len(texts.items) == len(numbers.items) == 12
    assert queue.stats().per_type.keys() == {"name", 1000}


def test_a_dispatch_key_that_returns_classes_does_not_route_by_the_class_of_an_item(make_queue):
    queue = make_queue(dispatch_key=lambda item: int if item else str)
    queue.add_handler(int, trues := Gate())
    queue.add_handler(str, falses := Gate())
    items = [0, 1, 2, 0, 3, "", "a", 0]
    assert all(queue.produce(item) for item in items * 2)
    assert queue.flush(PATIENCE)
    assert trues.items == [1, 2, 3, "a"] * 2 and falses.items == [0, 0, "", 0] * 2
