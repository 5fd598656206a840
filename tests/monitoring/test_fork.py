"""A fork and the endpoint: the child does not listen, the parent continues, and no lock stays taken."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from drainq import BatchQueue, BatchQueueConfig, MultiQueue, SetQueue, ThreadPolicy
from drainq._native import read_samples
from drainq.monitoring import MetricsServer, watch

from ..forked import in_child, needs_fork
from .endpoint import PATIENCE, exchange, own_sockets, sample, samples, scrape
from .test_watch import Broken

pytestmark = needs_fork


def one_thread(**settings) -> BatchQueueConfig:
    return BatchQueueConfig(threads=ThreadPolicy.fixed(1), **settings)


def test_a_child_does_not_listen_and_can_have_an_endpoint_of_its_own(server):
    def check():
        assert not server.running
        server.close()
        with BatchQueue("in the child", one_thread()), MetricsServer(port=0) as own:
            assert sample(samples(own.url), "drainq_batch_running", queue="in the child") == 1

    assert in_child(check) == 0
    assert server.running
    assert scrape(server.url)[1].startswith("# HELP")


def listens(port: int) -> bool:
    """Return whether one of this process's file descriptors listens at the port."""
    for other in own_sockets():
        with contextlib.suppress(OSError):
            if other.getsockname()[1:2] == (port,) and other.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                return True
    return False


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="looks at /proc")
def test_a_child_closes_its_copy_of_the_socket_although_nothing_holds_the_object():
    server = MetricsServer(port=0)
    port, url = server.port, server.url
    del server
    assert listens(port)

    def check():
        assert not listens(port)

    assert in_child(check) == 0
    assert scrape(url)[1].startswith("# HELP")


@contextlib.contextmanager
def living_child() -> Iterator[None]:
    """Yield a forked child, with copies of all descriptors, that lives to the end of the block."""
    ready, end = os.pipe()
    go_on, let_go = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(end, b"x")
        os.close(let_go)
        os.read(go_on, 1)
        os._exit(0)
    os.read(ready, 1)
    try:
        yield
    finally:
        os.write(let_go, b"x")
        os.waitpid(child, 0)
        for descriptor in (ready, end, go_on, let_go):
            os.close(descriptor)


def test_the_port_is_free_once_the_parent_closes_although_a_child_lives(server):
    with living_child():
        server.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port))


def test_a_connection_ends_at_once_although_a_child_lives(server):
    with contextlib.ExitStack() as clients:

        def client() -> socket.socket:
            return clients.enter_context(socket.create_connection(("127.0.0.1", server.port)))

        oldest = client()
        assert scrape(server.url)[1].startswith("# HELP")  # it was accepted before
        clients.enter_context(living_child())
        for _ in range(32):
            client()
        assert scrape(server.url)[1].startswith("# HELP")
        oldest.setblocking(False)
        assert oldest.recv(1) == b""


def test_forks_while_it_reads_leave_no_lock_taken(server):
    """A reader that runs all the time; each child uses the locks that the reader takes."""
    unique, multi = SetQueue(), MultiQueue()
    sub = multi.add_sub_queue("a")
    watch(unique, "forked"), watch(multi, "forked")
    over = threading.Event()

    def read():
        while not over.is_set():
            exchange(server.port, b"GET /metrics HTTP/1.1\r\n\r\n")

    def check():
        unique.put(1), sub.put(1)
        assert (unique.get(), multi.get()) == (1, 1)
        with MetricsServer(port=0) as own:
            assert sample(samples(own.url), "drainq_set_put_total", queue="forked") == 1

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    assert [in_child(check) for _ in range(25)] == [0] * 25
    over.set()
    for reader in readers:
        reader.join()


ASKED_AT_A_FORK = """
import os, socket, sys
answers = []

def ask():
    with socket.create_connection(("127.0.0.1", server.port), 30) as client:
        client.sendall(b"GET /metrics HTTP/1.1\\r\\n\\r\\n")
        with client.makefile("rb") as answer:
            answers.append(answer.read())

os.register_at_fork(before=ask)  # hooks that are older run later: the fork is announced by then
from drainq.monitoring import MetricsServer
server = MetricsServer(port=0)
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
ask()
sys.stdout.buffer.write(b"\\n--\\n".join(answers))
"""


def test_a_scrape_in_the_middle_of_a_fork_is_to_be_made_again() -> None:
    asked = [sys.executable, "-c", ASKED_AT_A_FORK]
    ended = subprocess.run(asked, capture_output=True, timeout=PATIENCE, check=True)
    during, after = ended.stdout.split(b"\n--\n")
    assert during.startswith(b"HTTP/1.1 503 Service Unavailable\r\n") and b"\r\nRetry-After: 1\r\n" in during
    assert during.endswith(b"\r\n\r\nthe process forks at this moment\n")
    assert after.startswith(b"HTTP/1.1 200 OK\r\n")


def published() -> set[tuple[str, ...]]:
    return {tuple(labels) for name, labels, _ in read_samples() if name == "drainq_delayed_ready"}


def test_a_child_publishes_nothing_old():
    thing = Broken()
    watch(thing, "parent")

    def check():
        assert ("parent",) not in published()
        assert watch(thing, "parent").name == "parent"
        assert ("parent",) in published()

    assert in_child(check) == 0
    assert ("parent",) in published()
