"""The interpreter's exit while the finaliser of a user's object runs because native code let go of the object.

A daemon thread is in each call that may hold the last reference. The finaliser gives the GIL up until the thread ends.
"""

import pytest

from tests.batch.test_exit import HEAD
from tests.batch.test_lifecycle import run

pytestmark = pytest.mark.system

PLACES = {
    "the key of an item that a set queue refuses": """
        kept = SetQueue(capacity=1, key=lambda item: ended())
        kept.put(0)
        daemon(lambda: kept.put(1, timeout=0))""",
    "the key of an item that a set queue knows": """
        kept = SetQueue(key=lambda item: same())
        kept.put(0)
        daemon(lambda: kept.put(1))""",
    "the key of an item of put_many": """
        kept = SetQueue(key=lambda item: same())
        daemon(lambda: kept.put_many([0, 1]))""",
    "the key of an item that leaves a set queue": """
        kept = SetQueue(key=lambda item: ended())
        kept.put(0)
        daemon(kept.get)""",
    "the keys of items that leave a set queue": """
        kept = SetQueue(key=lambda item: ended())
        kept.put(0)
        daemon(lambda: kept.get_many(2))""",
    "the key of an item that is done": """
        kept = SetQueue(in_flight="ack", key=lambda item: same())
        kept.put(0)
        kept.get()
        daemon(lambda: kept.done([0]))""",
    "the keys of a set queue that is cleared": """
        kept = SetQueue(key=lambda item: ended())
        kept.put(0)
        daemon(kept.clear)""",
    "the key of an item that is searched in a set queue": """
        kept = SetQueue(key=lambda item: same())
        kept.put(0)
        daemon(lambda: 1 in kept)""",
    "a clock's answer": """
        kept = SetQueue(in_flight="ttl", ttl=1, clock=having(now=lambda: number())())
        kept.put(0)
        daemon(lambda: kept.get(timeout=1))""",
    "an item of an iterator that a sub-queue refuses": """
        kept = MultiQueue().add_sub_queue("a", capacity=1)
        daemon(lambda: kept.put_many((ended() for n in range(3)), timeout=0))""",
    "an answer of a predicate": """
        kept = MultiQueue().add_sub_queue("a")
        kept.put(1)
        daemon(lambda: kept.remove_if(lambda item: ended()))""",
    "an answer of a comparison": """
        kept = MultiQueue().add_sub_queue("a")
        kept.put(having(__eq__=lambda: ended())())
        daemon(lambda: kept.remove(object()))""",
    "an answer of a selection": """
        kept = MultiQueue(selection=having(select=ended)())
        kept.add_sub_queue("a").put(1)
        daemon(kept.get)""",
    "an error of a selection's key": """
        kept = MultiQueue()
        daemon(lambda: kept.get_sub_queue(having(__hash__=raising)()))""",
    "the items of a multi-queue that ends": """
        kept = [MultiQueue()]
        kept[0].add_sub_queue("a").put(ended())
        daemon(kept.clear)""",
    "the items that a shutdown throws away": """
        kept = MultiQueue()
        kept.add_sub_queue("a").put(ended())
        daemon(lambda: kept.shutdown(immediate=True))""",
    "the item of a put that no loop awaits": """
        kept = MultiQueue().add_sub_queue("a")
        daemon(lambda: kept.put_async(ended()).close())""",
    "a dispatch key's answer": """
        kept = queue(dispatch_key=lambda item: same(), consumer=nothing)
        kept.produce(0)
        daemon(lambda: kept.produce(1))""",
    "a selector's answer": "kept = queue(partition_selector=lambda *_: number()); daemon(lambda: kept.produce(1))",
    "a selector key's answer": """
        kept = queue(partition_selector=PartitionSelector.by(lambda item: ended()))
        daemon(lambda: kept.produce(1))""",
    "len_of's answer": "kept = queue(len_of=lambda item: number()); daemon(lambda: kept.produce(1))",
    "an item of an iterator for a queue": """
        kept = queue()
        daemon(lambda: kept.produce_many(ended() for n in range(3)))""",
    "an item that a closed queue rejects": """
        kept = queue()
        kept.shutdown()
        daemon(lambda: kept.produce_many(ended() for n in range(3)))""",
    "a handler's answer": "queue(consumer=lambda batch: ended()).produce(1)",
    "a handler's error": "queue(consumer=raising).produce(1)",
    "an error handler's answer": "queue(consumer=fail, on_error=lambda *_: ended()).produce(1)",
    "on_drop's answer": "kept = queue(on_drop=lambda *_: ended()); kept.produce(1)",
    "a balancer's answer": """
        many = PartitionPolicy.fixed(2)
        kept = queue(2, partitions=many, consumer=nothing, balancer=lambda *_: ended(), rebalance_interval=0.001)""",
    "the batch of a handler": "queue(consumer=nothing).produce(ended())",
    "a queue's handlers": """
        kept = [queue(consumer=having(__call__=nothing, __del__=retry)())]
        daemon(kept.clear)""",
}  # fmt: skip

MORE = """
ended = having(__del__=retry)
number = type("Number", (float,), {"__del__": retry})
same = having(__hash__=lambda: 1, __eq__=lambda: True, __del__=retry)
def raising(*_):
    raise type("Ended", (ValueError,), {"__del__": retry})
"""

# In short waits: without a GIL an object may end on the main thread, which made it, and only between two of its waits.
LEFT = "\nassert any(entered.wait(0.01) for _ in range(2000))\nprint('left')\n"


MADE_ELSEWHERE = pytest.mark.needs_gil(
    "without one an object ends on the thread that made it, here the main one, which waits"
)
OF_MAIN_THREAD = {"the keys of items that leave a set queue", "a queue's handlers"}


@pytest.mark.parametrize(
    "place", [pytest.param(place, marks=[MADE_ELSEWHERE] if place in OF_MAIN_THREAD else []) for place in PLACES]
)
def test_the_process_ends_well_while_native_code_lets_go_of(place):
    body = "\n".join(line.strip() for line in PLACES[place].splitlines())
    assert run(HEAD + MORE + body + LEFT) == "left\n"
