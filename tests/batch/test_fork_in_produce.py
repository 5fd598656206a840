"""A produce call whose callable forks goes on in both processes: the child hands out what it takes in the rest of the call."""

import os

import pytest

from tests.batch.test_fork import forks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

CALLS = {
    "produce": "queue.produce(7)",
    "offer": "queue.offer(7, timeout=5)",
    "produce_many": "queue.produce_many([7])",
    "an attempt": "queue._attempt(7).try_now()",
}


@pytest.mark.parametrize("settings", ["", "dispatch_key=type, ", "partition_selector=lambda item, count: 0, "])
@pytest.mark.parametrize("call", CALLS)
def test_an_item_whose_len_of_forks_is_handled_in_both_processes(call, settings):
    lines = forks(f"""
children, seen = [], []
def len_of(item):
    if not children:
        children.append(os.fork())
    return 3
queue = BatchQueue("forks", config({settings}len_of=len_of, consumer=seen.extend))
accepted = {CALLS[call]}
if children == [0]:
    print(accepted == 1, queue.flush(10), queue.stats().handled, seen, flush=True)
    os._exit(7)
print(waited(children.pop()), accepted == 1, queue.flush(10), queue.stats().handled, seen)
""")
    assert lines == ["True True 3 [7]", "7 True True 3 [7]"]


def test_a_run_of_one_class_during_which_an_on_drop_forks_is_handled_in_the_child():
    """An item is rejected after the GIL was yielded, and the run goes on, only if a second drain thread wants the GIL by
    then. So there are many, and the program tries until a child took something."""
    lines = forks("""
import sys, time
MANY = 16
def child_of_a_run():
    entered, leave, children = threading.Event(), threading.Event(), []
    def stuck(batch):
        entered.set()
        leave.wait()
    def fork(reason, count):
        if not children:
            children.append(os.fork())
    queue = BatchQueue("runs", config(MANY, buffer_size=1, strategy="if_possible", on_drop=fork))
    kinds = [type(f"Kind{number}", (), {}) for number in range(MANY)]
    for kind in kinds:
        queue.add_handler(kind, stuck if kind is kinds[0] else lambda batch: None)
    queue.produce(kinds[0]())
    entered.wait()
    queue.produce(kinds[0]())
    attempt, usual = queue._attempt(kinds[0]()), sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    for kind in kinds[1:]:
        queue.produce(kind())
    end = time.perf_counter() + 0.2
    while not attempt.is_crowded() and time.perf_counter() < end:  # until a drain thread waits for the GIL
        pass
    accepted = queue.produce_many([kinds[0]() for _ in range(4)])
    sys.setswitchinterval(usual)
    leave.set()
    if children == [0]:
        handled = queue.flush(10) and queue.stats().handled == accepted
        os._exit((1 if accepted else 2) if handled else 3)
    assert queue.shutdown(20)
    return waited(children.pop())
for _ in range(200):
    faulthandler.dump_traceback_later(50, exit=True)
    status = child_of_a_run()
    if status != 2:
        break
print(status)
""")
    assert lines == ["1"]
