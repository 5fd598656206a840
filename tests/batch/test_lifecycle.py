"""Interpreter exit, Ctrl-C and fork, each in a process of its own."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.system

PATIENCE = 60


def run(code, stderr=subprocess.PIPE, **options):
    """Run `code` in a fresh interpreter and return its output."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True, **options,
    ) as program:  # fmt: skip
        try:
            out, err = program.communicate(timeout=PATIENCE)
        except BaseException:
            if hasattr(os, "killpg"):
                os.killpg(program.pid, signal.SIGKILL)  # with the children that it forked: they hold the pipes
            program.kill()
            raise
    assert program.returncode == 0, err
    return out


def test_interpreter_exit_delivers_everything_by_itself():
    out = run(
        """
        import os
        from drainq import BatchQueue, BatchQueueConfig, BatchQueueManager, PartitionPolicy, ThreadPolicy
        config = BatchQueueConfig(threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.fixed(2))
        own, named = BatchQueue("own", config), BatchQueueManager.create("named", config)
        for queue in (own, named):
            queue.add_handler(int, lambda batch: os.write(1, b"%d\\n" % len(batch)))
            queue.produce_many(range(50_000))
        """
    )
    assert sum(map(int, out.split())) == 100_000


def test_producers_and_executors_work_until_they_end_before_the_exit():
    out = run(
        """
        import threading
        from concurrent.futures import ThreadPoolExecutor
        from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
        queue = BatchQueue("exit", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=lambda batch: print(len(batch))))
        pool = ThreadPoolExecutor(2)
        go = threading.Event()
        def produce():
            go.wait()
            for n in range(1_000):
                assert queue.produce(n)
        threading.Thread(target=produce).start()
        pool.submit(produce)
        go.set()
        """
    )
    assert sum(map(int, out.split())) == 2_000


starts_threads_at_exit = pytest.mark.skipif(
    (3, 12) <= sys.version_info < (3, 12, 3), reason="CPython 3.12.0 to 3.12.2 start no thread at the exit (gh-113964)"
)


@starts_threads_at_exit
def test_an_executor_that_a_handler_uses_works_until_the_queue_is_empty_at_the_exit():
    out = run(
        """
        import time
        from concurrent.futures import ThreadPoolExecutor
        from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
        pool = ThreadPoolExecutor(1)
        class Handler:
            done = 0
            def consume(self, batch):
                for item in batch:
                    pool.submit(time.sleep, 0.001).result()
                    self.done += 1
            def on_close(self):
                print(self.done, queue.stats().handled)
        queue = BatchQueue("exit", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=Handler()))
        queue.produce_many(range(200))
        """
    )
    assert out == "200 200\n"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(
    "blocked", ["queue.produce(3)", "queue.offer(3, timeout=50)", "queue.flush()", "queue.shutdown()",
                "queue.produce_many([3, 4])", "queue.remove_handler(int)"],
)  # fmt: skip
def test_ctrl_c_ends_every_wait_and_loses_nothing(blocked):
    code = f"""
        import os, signal, sys, threading
        from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
        entered, leave, seen = threading.Event(), threading.Event(), []
        def handler(batch):
            seen.extend(batch)
            entered.set()
            leave.wait()
        queue = BatchQueue("c", BatchQueueConfig(threads=ThreadPolicy.fixed(1), buffer_size=1))
        queue.add_handler(int, handler)
        queue.produce(1)
        entered.wait()
        queue.produce(2)
        try:
            print("blocked", flush=True)
            {blocked}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        leave.set()
        assert queue.shutdown(30)
        stats = queue.stats()
        assert stats.offered == stats.accepted + sum(stats.rejected.values()), stats
        print(seen, stats.accepted, stats.rejected["full"])
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "blocked\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    # The signal may arrive just before the call: then nothing more was offered.
    rejected = {"0", "1"} if "3" in blocked else {"0"}
    interrupted, totals = out.splitlines()
    assert interrupted == "interrupted", err
    assert totals in {f"[1, 2] 2 {count}" for count in rejected}, err


def test_an_interrupted_produce_counts_its_item_as_rejected():
    """The interrupt comes for certain after the call began: the iterable itself asks for it, in C."""
    run(
        """
        import _thread, signal, sys, threading
        from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
        signal.signal(signal.SIGINT, signal.default_int_handler)
        entered, leave, told = threading.Event(), threading.Event(), []
        def handler(batch):
            entered.set()
            leave.wait()
        queue = BatchQueue("c", BatchQueueConfig(threads=ThreadPolicy.fixed(1), buffer_size=1, consumer=handler,
                                                 on_drop=lambda reason, count: told.append((reason, count))))
        queue.produce(None)
        entered.wait()
        queue.produce(None)
        try:
            queue.produce_many(map(_thread.interrupt_main, [signal.SIGINT]))
        except KeyboardInterrupt:
            pass
        else:
            sys.exit("not interrupted")
        stats = queue.stats()
        leave.set()
        assert queue.shutdown(30)
        assert (stats.offered, stats.accepted, stats.rejected["full"]) == (3, 2, 1), stats
        assert told == [("full", 1)], told
        """
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_never_produces_exits_at_once():
    out = run(
        """
        import os, threading
        from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
        queue = BatchQueue("fork", BatchQueueConfig(threads=ThreadPolicy.fixed(1),
                           consumer=lambda batch: print(batch, flush=True)))  # a fork copies what is not written yet
        queue.produce("parent")
        assert queue.flush(30)
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            print(os.waitstatus_to_exitcode(status))
        """
    )
    assert out == "['parent']\n0\n"


@pytest.mark.parametrize("kind", ["isolated", "legacy"])
def test_a_sub_interpreter_is_refused_and_the_first_one_goes_on(kind):
    out = run(
        f"""
        import importlib, sys
        from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
        module = importlib.import_module("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
        isolated = {kind == "isolated"}
        if sys.version_info >= (3, 13):
            second = module.create("isolated" if isolated else "legacy")
        else:
            second = module.create(isolated=isolated)
        seen = []
        queue = BatchQueue("first", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=seen.extend))
        code = "import sys; sys.path[:] = " + repr(sys.path) + "; import drainq"
        try:
            refusal = getattr(module, "exec", getattr(module, "run_string", None))(second, code)
        except Exception as error:
            refusal = error
        assert "ImportError" in str(refusal) or "support" in str(refusal), refusal
        print("one interpreter" in str(refusal) or "subinterpreters" in str(refusal))
        module.destroy(second)
        queue.produce(1)
        print(queue.shutdown(30), seen)
        """
    )
    assert out == "True\nTrue [1]\n"


def test_a_finaliser_that_runs_after_everything_may_make_every_call_of_a_queue_that_it_has():
    """None of them waits; one that would import something raises."""
    out = run(
        """
        import builtins, os
        from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
        queue = BatchQueue("late", BatchQueueConfig(threads=ThreadPolicy.fixed(1)))
        queue.add_handler(int, len)
        class Last:
            def __del__(self, queue=queue, write=os.write):
                calls = [
                    lambda: queue.shutdown(), lambda: queue.shutdown(9), lambda: queue.flush(), lambda: queue.offer(1, 9),
                    lambda: queue.add_handler(str, len), lambda: queue.remove_handler(int), lambda: queue.rebalance(),
                    lambda: queue.__exit__(None, None, None),
                ]
                for call in calls:
                    try:
                        answer = str(call())
                    except Exception:
                        answer = "raised"
                    write(1, answer.encode() + b"\\n")
        builtins.last = Last()
        """
    )
    assert out.splitlines() == ["True", "True", "True", "False", "raised", "True", "0", "None"]


def test_the_exit_waits_for_a_handler_that_hangs_as_long_as_its_queue_says():
    """By default the exit waits 30 seconds for a queue; this queue asks for less."""
    code = """
import threading
from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
entered = threading.Event()
def hang(batch):
    entered.set()
    threading.Event().wait()
queue = BatchQueue("hang", BatchQueueConfig(threads=ThreadPolicy.fixed(1), shutdown_timeout=0.1, consumer=hang))
queue.produce(1)
entered.wait()
print("ends")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=29)
    assert (ended.returncode, ended.stdout) == (0, "ends\n")


@starts_threads_at_exit
def test_a_queue_that_is_made_after_the_exit_callback_is_refused_and_one_before_it_is_served():
    """Callbacks of atexit run in reverse: the first registered comes last, after drainq's own."""
    out = run(
        """
        import atexit
        from drainq import BatchQueue, BatchQueueConfig, DrainqError, ThreadPolicy
        def make(name):
            config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=lambda batch: print(name, *batch, flush=True))
            queue = BatchQueue(name, config)
            assert queue.produce(1)
        def refused():
            try:
                make("late")
            except DrainqError as error:
                print(error)
            try:
                first.produce(2)
            finally:
                print(first.running, first.stats().rejected["closed"])
        atexit.register(refused)
        first = BatchQueue("first", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=lambda batch: None))
        atexit.register(make, "in time")
        """
    )
    lines = out.splitlines()
    assert lines[0] == "in time 1"
    assert lines[1].startswith('queue "late" comes too late: the interpreter is going away')
    assert lines[2:] == ["False 1"]
