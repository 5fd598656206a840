"""Every sample of a multi-queue and of a set queue: each counter under its own name, and none besides."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from drainq import MultiQueue, SetQueue, ShutDown, __version__
from drainq._native import observe_native, publish_samples, read_samples, unobserve_native, withdraw_samples
from drainq.monitoring import watch
from tests.patience import Call, eventually


def of(name: str) -> dict[tuple[str, ...], float]:
    """Return the samples of the queue: the family and the other labels, without ``drainq_``."""
    found: dict[tuple[str, ...], float] = {}
    for family, labels, value in read_samples():
        if labels[:1] == [name]:
            key = (family.removeprefix("drainq_"), *labels[1:])
            assert key not in found
            found[key] = value
    return found


def blocked(calls: list[Callable[[], object]], waiting: Callable[[], int]) -> list[Call]:
    """Return threads in these calls; all of them wait."""
    threads = [Call(call) for call in calls]
    eventually(lambda: waiting() == len(threads))
    return threads


def set_samples(**values: float) -> dict[tuple[str], float]:
    names = ("size", "in_flight", "put", "got", "duplicates", "blocked_getters", "blocked_putters")
    return {(f"set_{name}",): values.get(name, 0) for name in names}


def test_a_set_queue_has_these_samples_and_no_others() -> None:
    """Each number is another one, so that none can take the place of another."""
    full, bare = SetQueue(4, in_flight="ack"), SetQueue()
    watch(full, "full-set"), watch(bare, "bare-set")
    assert (of("full-set"), of("bare-set")) == (set_samples(), set_samples())
    assert full.put_many(range(4)) == 4 and full.get_many(3) == [0, 1, 2] and full.put_many(range(10, 13)) == 3
    assert full.put_many([3, 10, 11, 0, 1, 2, 12, 3, 3]) == 0 and full.done([0]) == 1
    threads = blocked([lambda n=n: full.put(n) for n in range(20, 25)], lambda: full.stats().blocked_putters)
    threads += blocked([bare.get] * 6, lambda: bare.stats().blocked_getters)
    assert of("full-set") == set_samples(size=4, in_flight=2, put=7, got=3, duplicates=9, blocked_putters=5)
    assert of("bare-set") == set_samples(blocked_getters=6)
    full.shutdown(), bare.shutdown()
    assert {type(thread.exception()) for thread in threads} == {ShutDown}
    assert of("full-set") == set_samples(size=4, in_flight=2, put=7, got=3, duplicates=9)


def multi_samples(of_subs: dict[str, dict[str, float]], **values: float) -> dict[tuple[str, ...], float]:
    names = ("depth", "high_water", "put", "got", "rejected", "removed")
    names += ("blocked_putters", "blocked_getters", "sub_queues", "oldest_age_seconds")
    made: dict[tuple[str, ...], float] = {(f"multi_{name}",): values.get(name, 0) for name in names}
    for key, counts in of_subs.items():
        for name in ("depth", "put", "got", "rejected", "oldest_age_seconds"):
            made[f"multi_sub_queue_{name}", key] = counts.get(name, 0)
    return made


def test_a_multi_queue_has_these_samples_and_no_others() -> None:
    """Each number is another one, so that none can take the place of another."""
    queue = MultiQueue()
    watch(queue, "all-multi")
    assert of("all-multi") == multi_samples({})
    getters = blocked([queue.get] * 7, lambda: queue.stats().blocked_getters)
    assert of("all-multi") == multi_samples({}, blocked_getters=7)
    sub, off = queue.add_sub_queue("a", capacity=8), queue.add_sub_queue("off", enabled=False, capacity=2)
    off.put_many([1, 2])
    assert off.put_many([3, 4, 5], block=False) == 0 and off.remove(2)
    putters = blocked([lambda: off.put_many([1, 2])] * 9, lambda: queue.stats().blocked_putters)
    found, ages = of("all-multi"), {("multi_oldest_age_seconds",), ("multi_sub_queue_oldest_age_seconds", "off")}
    assert {key for key in found if found[key] >= 0} == set(found) >= ages
    expected = multi_samples(
        {"a": {}, "off": {"depth": 2, "put": 3, "rejected": 3}},
        depth=2, high_water=2, put=3, rejected=3, removed=1, blocked_putters=9, blocked_getters=7, sub_queues=2,
    )  # fmt: skip
    assert {key: found[key] for key in found.keys() - ages} == {key: expected[key] for key in expected.keys() - ages}
    eventually(lambda: all(of("all-multi")[age] > 0 for age in ages))
    queue.shutdown(immediate=True)
    assert {type(thread.exception()) for thread in getters + putters} == {ShutDown}
    rejected = 3 + 9 + 8
    assert of("all-multi") == multi_samples(
        {"a": {}, "off": {"put": 3, "rejected": rejected}},
        high_water=2, put=3, rejected=rejected, removed=3, sub_queues=2,
    )  # fmt: skip
    assert sub.stats().rejected == 0


def test_the_first_thousand_sub_queues_have_samples_of_their_own() -> None:
    queue = MultiQueue()
    for key in range(1002):
        queue.add_sub_queue(key).put("item")
    watch(queue, "many-multi")
    found = of("many-multi")
    assert found["multi_sub_queues",] == found["multi_depth",] == 1002
    depths = {key[1]: value for key, value in found.items() if key[0] == "multi_sub_queue_depth"}
    assert depths == {str(key): 1 for key in range(1000)}


def test_the_label_of_a_sub_queue_is_its_text_or_integer_or_the_class_of_its_key_and_200_characters_at_most() -> None:
    class Tenant:
        def __repr__(self):
            raise RuntimeError("no code of the key's runs")

    texts = {
        Tenant(): "<Tenant>", Tenant(): "<Tenant>-2", 1: "1", "1": "1-2", "mail": "mail", "": "", -5: "-5", 10**300: str(10**300)[:200], "é" * 201: "é" * 200, "é" * 200: "é" * 200 + "-2",
        False: "<bool>", None: "<NoneType>", ("mail",): "<tuple>", b"mail": "<bytes>", 2.5: "<float>",
    }  # fmt: skip
    queue = MultiQueue()
    for key in texts:
        queue.add_sub_queue(key)
    watch(queue, "labels-multi")
    assert [key[1] for key in of("labels-multi") if key[0] == "multi_sub_queue_depth"] == list(texts.values())


@pytest.mark.parametrize("make", [MultiQueue, SetQueue])
def test_a_queue_that_was_shut_down_or_is_gone_gives_its_name_up(make: type) -> None:
    name = f"one-of-{make.__name__}"
    queues = [make() for _ in range(6)]
    assert [observe_native(queue, name) for queue in queues[:3]] == [name, f"{name}-2", f"{name}-3"]
    queues[1].shutdown()
    assert of(f"{name}-2") != {}, "it is read until another one takes the name"
    assert observe_native(queues[3], f"{name}-2") == f"{name}-2"
    queues[0] = None
    assert of(name) == {}
    assert observe_native(queues[4], name) == name
    assert observe_native(queues[4], name) == name, "its own name is not taken"
    assert observe_native(queues[4], f"{name}-new") == f"{name}-new"
    assert of(name) == {} and of(f"{name}-new") != {}
    unobserve_native(queues[5])
    unobserve_native(queues[4])
    assert of(f"{name}-new") == {} and of(f"{name}-3") != {}
    for queue in queues[2:4]:
        unobserve_native(queue)
    assert not [labels for _, labels, _ in read_samples() if labels and labels[0].startswith(name)]


@pytest.mark.parametrize("make", [MultiQueue, SetQueue])
def test_a_number_is_free_again_once_its_queue_is_gone(make: type) -> None:
    name = f"again-{make.__name__}"
    first, second = make(), make()
    assert [observe_native(queue, name) for queue in (first, second)] == [name, f"{name}-2"]
    del second
    third, fourth = make(), make()
    assert [observe_native(queue, name) for queue in (third, fourth)] == [f"{name}-2", f"{name}-3"]


def test_the_version_is_a_label_and_the_age_of_published_samples_counts_from_the_last_ones() -> None:
    def age() -> float:
        (value,) = (value for family, labels, value in read_samples("drainq_sample_age_seconds") if "aged" in labels)
        return value

    assert read_samples("drainq_build_info") == [("drainq_build_info", [__version__], 1.0)]
    try:
        publish_samples("delayed", "aged", [])
        eventually(lambda: age() >= 0.2)
        before = time.monotonic()
        publish_samples("delayed", "aged", [])
        assert 0 <= age() <= time.monotonic() - before
    finally:
        withdraw_samples("delayed", "aged")


def test_one_name_may_stand_for_a_queue_of_each_kind() -> None:
    multi, unique = MultiQueue(), SetQueue()
    assert (observe_native(multi, "of-each"), observe_native(unique, "of-each")) == ("of-each", "of-each")
    assert of("of-each") == {**multi_samples({}), **set_samples()}
    assert observe_native(object(), "of-each") is None
    unobserve_native(object())
    unobserve_native(multi)
    assert of("of-each") == set_samples()
