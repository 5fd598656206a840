"""The endpoint's thread survives slow clients, missing file descriptors, signals, and queues that end during a read."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drainq import BatchQueue, BatchQueueConfig, PartitionPolicy, SetQueue
from drainq.monitoring import MetricsServer, watch
from tests.patience import eventually

from .endpoint import PATIENCE, exchange, own_sockets, scrape

TASKS = Path("/proc/self/task")
LESS_THAN_THE_ENDPOINT_GIVES = 3.0  # seconds, of five
BELOW_ANY_FREE_ONE = 3
"""A limit of file descriptors: the standard ones are open, and what the process closes meanwhile lies above."""
needs_proc = pytest.mark.skipif(not TASKS.exists(), reason="looks at /proc")


@pytest.fixture
def thread() -> Iterator[tuple[MetricsServer, Path]]:
    """Yield an endpoint, and where the kernel tells of its thread."""
    before = set(TASKS.iterdir())
    with MetricsServer(port=0) as server:
        assert scrape(server.url)[1].startswith("# HELP")
        [task] = [task for task in set(TASKS.iterdir()) - before if name_of(task) == "drainq-metrics\n"]
        yield server, task


def name_of(task: Path) -> str:
    """Return the name of a thread; none if it has ended meanwhile, as one may that ends a queue of another test."""
    with contextlib.suppress(OSError):
        return (task / "comm").read_text()
    return ""


def connections_to(address: tuple[str, int]) -> int:
    """Return how many of this process's sockets are connected to a client's address."""
    found = 0
    for other in own_sockets():
        with contextlib.suppress(OSError):
            found += other.getpeername() == address
    return found


@needs_proc
def test_an_answer_ends_before_its_client_closes(server: MetricsServer) -> None:
    """The endpoint shuts down its sending side first, and closes its socket a second later.

    The test tries several clients, because only some look in time.
    """

    def ends_first() -> bool:
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            while client.recv(65536):
                pass
            return connections_to(client.getsockname()) == 1

    assert any(ends_first() for _ in range(4))


@pytest.mark.system
@needs_proc
def test_slow_clients_are_given_up_after_some_seconds(server: MetricsServer) -> None:
    """The endpoint waits five seconds for the end of the head, and one second for the end of an answered client: of some
    pairs of clients one is in time to see the difference."""

    def answered_is_given_up_first() -> bool:
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as silent:
            with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as answered:
                answered.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
                with answered.makefile("rb") as answer:
                    assert answer.read().endswith(b"\r\n\r\nok\n"), "it ends, although the client's own side is open"
                eventually(lambda: connections_to(answered.getsockname()) == 0, "who was answered is given up")
            if connections_to(silent.getsockname()) == 0:
                return False
            cut_off = exchange(server.port, b"GET /metrics HTTP/1.1\r\nAccept: ")
            assert silent.recv(1) == b"", "who asked nothing gets no answer"
        assert cut_off.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert cut_off.endswith(b"\r\n\r\nthe head of the request did not come in time\n")
        return True

    assert any(answered_is_given_up_first() for _ in range(4)), "who came before and was not answered has more time"
    assert scrape(server.url)[1].startswith("# HELP")


def test_a_client_that_sends_more_than_is_read_gets_its_answer_whole(server: MetricsServer) -> None:
    """Closed with unread bytes, a socket would take the answer back."""
    request = b"POST /metrics HTTP/1.1\r\nContent-Length: 4000000\r\n\r\n" + b"x" * 4_000_000
    for _ in range(5):
        answer = exchange(server.port, request)
        assert answer.startswith(b"HTTP/1.1 405 ") and answer.endswith(b"only GET and HEAD are answered\n")


def test_an_answer_that_is_larger_than_the_buffers_of_its_socket_comes_whole(server: MetricsServer) -> None:
    """Larger than Linux lets the buffer of a sending socket grow; the client's buffer is small."""
    queue = SetQueue()
    watch(queue, "long name" * 200_000)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(LESS_THAN_THE_ENDPOINT_GIVES)
        client.connect(("127.0.0.1", server.port))
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        with client.makefile("rb") as answer:
            head = b"".join(iter(answer.readline, b"\r\n"))
            body = answer.read()
    [length] = re.findall(rb"Content-Length: (\d+)\r\n", head)
    assert len(body) == int(length) > 5_000_000
    assert body.endswith(b"\n")


@needs_proc
def test_a_process_without_free_file_descriptors_answers_once_it_has_some(thread: tuple[MetricsServer, Path]) -> None:
    resource = pytest.importorskip("resource")
    server, task = thread
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (task / "status").open() as status, socket.socket() as client:

        def sleeps() -> int:
            status.seek(0)
            return int(status.read().split("\nvoluntary_ctxt_switches:")[1].split()[0])

        client.settimeout(PATIENCE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (BELOW_ANY_FREE_ONE, limits[1]))
        try:
            before = sleeps()
            client.connect(("127.0.0.1", server.port))
            eventually(lambda: sleeps() >= before + 6, "it tries to accept again and again")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        client.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        with client.makefile("rb") as answer:
            assert answer.read().endswith(b"ok\n")
    assert scrape(server.url)[1].startswith("# HELP")


class Consumer:
    """Notes on which thread it ends."""

    def __init__(self, ended: list[int]) -> None:
        self.ended = ended

    def __call__(self, batch: list[object]) -> None:
        """Is never called."""

    def __del__(self) -> None:
        self.ended.append(threading.get_ident())


@needs_proc
@pytest.mark.needs_gil("without one the finaliser of an object runs on the thread that made it")
def test_a_queue_whose_last_reference_is_the_endpoint_s_ends_all_the_same(server: MetricsServer) -> None:
    """A queue is dropped between scrapes that follow each other, until one ends elsewhere: on a thread that has the GIL.

    That thread was started before the answer was sent, and it ends with its work. So once it is no more, the queue has
    ended, or never will.
    """
    ended: list[int] = []
    scrape(server.url)
    deadline = time.monotonic() + PATIENCE
    while set(ended) <= {threading.get_ident()}:
        assert time.monotonic() < deadline, "some queue is dropped while it is read"
        ended.clear()
        many = PartitionPolicy.fixed(4096)
        queue = BatchQueue("dropped", BatchQueueConfig(threads=1, partitions=many, consumer=Consumer(ended)))
        queue.shutdown()
        with contextlib.ExitStack() as scrapes:
            clients = [
                scrapes.enter_context(socket.create_connection(("127.0.0.1", server.port), PATIENCE)) for _ in range(5)
            ]
            for client in clients:
                client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert clients[0].recv(1) == b"H"
            del queue
            for client in clients:
                while client.recv(65536):
                    pass
        eventually(lambda: "drainq-end\n" not in map(name_of, TASKS.iterdir()), "the thread that ends the queue ends")
        assert len(ended) == 1, "its consumer ends"
