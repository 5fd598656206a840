"""The HTTP endpoint: its answers need no GIL, and no client, fork or exit harms it."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import inspect
import os
import re
import socket
import subprocess
import sys
import threading

import pytest

from drainq import BatchQueue, BatchQueueConfig, BufferStrategy, MultiQueue, PartitionPolicy, ThreadPolicy
from drainq._native import metric_families
from drainq.monitoring import MetricsServer, metrics_target, watch

from .endpoint import OPENMETRICS, PATIENCE, exchange, sample, samples, scrape

FORMATS = ["text/plain", OPENMETRICS]


@pytest.mark.parametrize("accept", FORMATS)
def test_each_partition_is_shown_with_its_items_and_its_owner(server, accept):
    config = BatchQueueConfig(
        threads=ThreadPolicy.fixed(3),
        partitions=PartitionPolicy.fixed(6),
        partition_selector=lambda item, count: int(item),
    )
    entered, leave = threading.Semaphore(0), threading.Event()

    def hold(batch):
        entered.release()
        leave.wait(20)

    with BatchQueue("parts", config) as queue, contextlib.ExitStack() as over:
        over.callback(leave.set)
        for item in (0, "1", 2.0):  # each thread is busy with an item of its own type
            queue.add_handler(type(item), hold)
            queue.produce(item)
            assert entered.acquire(timeout=20)
        for partition in range(6):
            queue.produce_many([partition] * partition)
        stats, found = queue.stats(), samples(server.url, accept)

        def shown(what):
            return [sample(found, f"drainq_batch_partition_{what}", queue="parts", partition=str(n)) for n in range(6)]

        assert shown("used") == [stats.partition_used(n) for n in range(6)] == [0, 1, 2, 3, 4, 5]
        assert sample(found, "drainq_batch_capacity", queue="parts") == stats.total_capacity == 6 * stats.buffer_size
        owners = {n: thread for thread, owned in enumerate(queue.assignments()) for n in owned}
        assert shown("owner") == [owners[n] for n in range(6)] and set(owners.values()) == {0, 1, 2}


def one_thread(**settings) -> BatchQueueConfig:
    return BatchQueueConfig(threads=ThreadPolicy.fixed(1), **settings)


@pytest.mark.parametrize("accept", FORMATS)
def test_the_counters_of_a_batch_queue_are_those_of_its_stats(server, accept):
    def refuse_words(batch):
        if isinstance(batch[0], str):
            raise ValueError("no words")

    config = one_thread(strategy=BufferStrategy.IF_POSSIBLE, on_error=lambda batch, error: None)
    with BatchQueue("counted", config) as queue:
        queue.add_handler(int, refuse_words)
        queue.add_handler(str, refuse_words)
        queue.produce_many([1, 2, 3, "a", "b", 1.5])
        queue.flush()
        stats, found, later = queue.stats(), samples(server.url, accept), queue.stats()
        for counter in (
            "accepted",
            "handled",
            "failed",
            "unrouted",
            "dead_lettered",
            "abandoned",
            "rebalances",
            "gil_yields",
        ):
            assert sample(found, f"drainq_batch_{counter}_total", queue="counted") == getattr(stats, counter)
        assert (stats.handled, stats.failed, stats.unrouted) == (3, 2, 1)
        assert sample(found, "drainq_batch_queued", queue="counted") == 0
        assert sample(found, "drainq_batch_capacity", queue="counted") == stats.total_capacity
        assert sample(found, "drainq_batch_partition_used", queue="counted", partition="0") == 0
        assert sample(found, "drainq_batch_thread_handled_total", queue="counted", thread="0") == 3
        passes = sample(found, "drainq_batch_thread_passes_total", queue="counted", thread="0")
        # The drain thread may make one more pass after a flush, the one that finds nothing.
        assert stats.threads[0].cycles <= passes <= later.threads[0].cycles
        waits = sample(found, "drainq_batch_gil_waits_total", queue="counted")
        assert sum(count for _, count in stats.gil_waits) <= waits <= sum(count for _, count in later.gil_waits)
        busy = sample(found, "drainq_batch_thread_busy_seconds_total", queue="counted", thread="0")
        assert stats.threads[0].busy_seconds <= busy <= later.threads[0].busy_seconds
    queue.produce(1)
    found = samples(server.url, accept)
    assert sample(found, "drainq_batch_rejected_total", queue="counted", reason="closed") == 1
    assert sample(found, "drainq_batch_running", queue="counted") == 0


@pytest.mark.parametrize("accept", FORMATS)
def test_every_sample_is_of_the_catalogue(server, accept):
    queue = BatchQueue("catalogue", one_thread(consumer=lambda batch: None))
    families = {name: kind for name, kind, _, _ in metric_families()}
    names = {name for name, _ in samples(server.url, accept)}
    ends = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
    known = {family + end for family, kind in families.items() for end in ends[kind]}
    assert len(names) > 20
    assert names <= known
    queue.shutdown()


ASK_AND_LET_GO = """
import sys, urllib.request
url, pipe = sys.argv[1:]
with open(pipe, "wb") as held:  # waits for the handler, which opens the other end
    text = urllib.request.urlopen(url, timeout=20).read().decode()
print(text)
"""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_it_answers_while_a_handler_holds_the_gil(server, tmp_path):
    """The handler keeps the GIL until the client has its answer, so without an answer there is no end."""
    pipe = tmp_path / "held"
    os.mkfifo(pipe)
    libc = ctypes.PyDLL(None)  # a call through PyDLL keeps the GIL

    def hold(batch):
        descriptor = libc.open(bytes(pipe), os.O_RDONLY)
        libc.read(descriptor, ctypes.create_string_buffer(1), 1)
        libc.close(descriptor)

    command = [sys.executable, "-c", ASK_AND_LET_GO, server.url, pipe]
    with BatchQueue("holds", one_thread(consumer=hold)) as queue:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
            queue.produce("item")  # soon no Python code runs here, until the client closes its end of the pipe
            shown, complaint = client.communicate()
        queue.flush()
    assert client.returncode == 0, complaint
    assert 'drainq_batch_accepted_total{queue="holds"} 1' in shown
    assert 'drainq_batch_thread_in_flight{queue="holds",thread="0"} 1' in shown


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        (b"GET /metrics?name=x HTTP/1.0\r\n\r\n", 200),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\n\r\n", 200),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET /metrics\r\n\r\n", 400),
        (b"GET /metrics HTTP/2\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET /healthz HTTP/1.1\r\na: " + b"b" * (8192 - 30) + b"\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.1\r\na: " + b"b" * (8193 - 30) + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 100 + b"\r\n", 431),
    ],
)
def test_a_request_gets_its_status(server, request_bytes, status):
    answer = exchange(server.port, request_bytes)
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:80]
    head, _, body = answer.partition(b"\r\n\r\n")
    length = int(re.search(rb"Content-Length: (\d+)", head)[1])
    assert len(body) == (0 if request_bytes.startswith(b"HEAD") else length)
    assert b"Connection: close" in head


@pytest.mark.parametrize(
    ("accept", "is_openmetrics"),
    [
        ("*/*", False),
        ("text/plain", False),
        (OPENMETRICS, True),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2", True),
        ("application/openmetrics-text;q=0.1,text/plain;q=0.9", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=nonsense", False),
        ("application/openmetrics-text;q=inf", False),
        ("application/openmetrics-text;q=nan", False),
        ("application/openmetrics-text;q=-1", False),
        ("text/plain;q=inf,application/openmetrics-text;q=0.1", True),
        ("text/plain;q=0.5,application/openmetrics-text;q=0.5", True),
        ("text/plain;q=0,application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=0.2,text/plain;q=0.5,application/openmetrics-text;q=0.9", True),
        ("application/openmetrics-text;q=0.2,text/plain;q=0.5,text/plain;q=0.1", False),
        (" Application/OpenMetrics-Text ; charset=utf-8 ; q=0.4 , text/plain ; q=0.3", True),
        ("application/openmetrics-text-2", False),
    ],
)
def test_the_format_is_the_one_that_the_client_prefers(server, accept, is_openmetrics):
    content_type, text = scrape(server.url, accept)
    assert content_type.startswith("application/openmetrics-text" if is_openmetrics else "text/plain; version=0.0.4")
    assert text.endswith("# EOF\n") is is_openmetrics


def test_clients_that_send_nothing_keep_nobody_out(server):
    with contextlib.ExitStack() as silent:
        clients = [silent.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(100)]
        for client in clients[-10:]:
            client.sendall(b"GET /metrics HT")
        assert scrape(server.url)[1].startswith("# HELP")
        for client in clients[: 100 + 1 - 32]:
            client.setblocking(False)
            assert client.recv(1) == b"", "each took the place of the oldest, at once"


def test_a_client_that_goes_away_harms_nobody(server):
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    assert scrape(server.url)[1].startswith("# HELP")


def test_a_taken_port_is_one_error_that_says_what_to_do(server):
    with pytest.raises(OSError, match=rf"cannot listen at 127.0.0.1:{server.port}: .* pass another port=") as raised:
        MetricsServer(port=server.port)
    assert raised.value.errno == errno.EADDRINUSE


def test_the_usual_port_is_the_one_of_its_signature():
    usual = inspect.signature(MetricsServer).parameters["port"].default
    assert usual == 9464
    try:
        with MetricsServer() as server:
            assert server.port == usual
    except OSError as taken:  # by another program of this machine
        assert taken.errno == errno.EADDRINUSE and f"127.0.0.1:{usual}: " in str(taken)


def test_the_end_of_the_block_closes_it_whatever_happened_there():
    with pytest.raises(KeyError), MetricsServer(port=0) as server:
        assert server.running
        raise KeyError
    assert not server.running


def test_after_the_close_the_port_is_free_and_a_second_close_does_nothing():
    server = MetricsServer(port=0)
    assert server.close() and server.close(timeout=0)
    assert not server.running
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))
    with MetricsServer(port=server.port) as again:
        assert scrape(again.url)[1].startswith("# HELP")


def test_a_close_after_one_that_did_not_wait_waits_until_the_port_is_free():
    server = MetricsServer(port=0)
    server.close(timeout=0)
    assert not server.running and server.close()
    MetricsServer(port=server.port).close()


def test_the_end_of_the_async_block_closes_it_and_hides_no_exception():
    async def main():
        async with MetricsServer(port=0) as server:
            assert server.running
        assert not server.running and await server.close_async(timeout=5)
        async with MetricsServer(port=0):
            raise KeyError

    with pytest.raises(KeyError):
        asyncio.run(main())


def test_queues_that_end_while_it_reads_lose_nothing(server):
    over, handled = threading.Event(), []

    def read():
        while not over.is_set():
            exchange(server.port, b"GET /metrics HTTP/1.1\r\n\r\n")

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(100):
        with BatchQueue(f"short-{number}", one_thread(consumer=handled.extend)) as queue:
            queue.produce_many(range(10))
        multi = MultiQueue()
        multi.add_sub_queue("a").put(number)
        watch(multi, f"short-{number}")
        del queue, multi
    over.set()
    reader.join()
    assert len(handled) == 1000


EXIT = """
import socket
from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
from drainq.monitoring import MetricsServer
server = MetricsServer(port=0)
queue = BatchQueue("last", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=lambda batch: print(*batch, sep="\\n")))
client = socket.create_connection(("127.0.0.1", server.port))
client.sendall(b"GET /met")
queue.produce_many(range(3))
"""


@pytest.mark.system
def test_a_process_ends_with_its_endpoint_open():
    ended = subprocess.run([sys.executable, "-c", EXIT], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "0\n1\n2\n", "")


def test_each_way_in_which_an_item_ends_has_a_counter_of_its_own(server):
    """All counts are different, so none can stand for another."""

    def keep_three(batch, error):
        return 3

    keep_three.dead_letters = True
    held, entered = threading.Event(), threading.Event()

    def hold(batch):
        entered.set()
        assert held.wait(PATIENCE)

    config = one_thread(dispatch_key=lambda item: item[0], on_error=keep_three, len_of=lambda item: item[1])
    queue = BatchQueue("ends", config)
    queue.add_handler("good", lambda batch: None)
    queue.add_handler("fails", lambda batch: 1 / 0)
    queue.add_handler("held", hold)
    for item in (("good", 40), ("fails", 8), ("unknown", 7)):
        assert queue.produce(item)
        assert queue.flush(PATIENCE)
    assert queue.produce(("held", 6))
    assert entered.wait(PATIENCE)
    assert queue.produce(("good", 5))
    assert queue.shutdown(0) is False
    assert queue.produce(("good", 2)) is False
    found = samples(server.url)
    ends = {"accepted": 66, "handled": 40, "failed": 5, "dead_lettered": 3, "unrouted": 7, "abandoned": 11}
    for name, count in ends.items():
        assert sample(found, f"drainq_batch_{name}_total", queue="ends") == count, name
        assert getattr(queue.stats(), name) == count
    assert sample(found, "drainq_batch_queued", queue="ends") == 0
    assert sample(found, "drainq_batch_running", queue="ends") == 0
    for reason, count in queue.stats().rejected.items():
        assert sample(found, "drainq_batch_rejected_total", queue="ends", reason=reason) == count
    assert queue.stats().rejected["closed"] == 2
    held.set()


def test_the_file_of_a_target_goes_with_its_endpoint_however_the_block_ends(tmp_path):
    with pytest.raises(KeyboardInterrupt), metrics_target(tmp_path):
        assert [file.name for file in tmp_path.iterdir()] == [f"{os.getpid()}.json"]
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
