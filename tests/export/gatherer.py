"""A remote handler that records its items, a client of servers, and the counters of a server."""

from __future__ import annotations

import threading

from drainq.export import RemoteClient

LOCAL = "127.0.0.1:0"


class Gatherer:
    """A handler that keeps what it got, and can be made to wait or to fail."""

    def __init__(self):
        self.items = []
        self.calls = threading.Condition()
        self.gate = threading.Event()
        self.gate.set()
        self.entered = 0
        self.errors = []

    def __call__(self, items):
        with self.calls:
            self.entered += 1
            self.calls.notify_all()
        self.gate.wait(60)
        if self.errors:
            raise self.errors.pop(0)
        self.items += items

    def wait_until_entered(self, times):
        with self.calls:
            assert self.calls.wait_for(lambda: self.entered >= times, 60)


def client_to(*servers, **more):
    addresses = [getattr(server, "address", server) for server in servers]
    return RemoteClient(**{"address": addresses, "retry_for": 30.0, **more})


def server_books(server):
    stats = server.stats()
    assert stats.received == stats.handled + stats.failed + stats.refused + stats.pending
    return stats
