"""The thread that listens for the offers of other processes, without a server."""

from __future__ import annotations

import socket
import threading
from queue import SimpleQueue
from types import SimpleNamespace

import pytest

pytest.importorskip("psycopg")

import psycopg

from drainq.delayed.storage.postgres import listen
from drainq.delayed.storage.postgres.listen import Listener

from ..patience import PATIENCE


class Server:
    """Opens connections, notes their statements, and sends notices, or errors, on the last one."""

    def __init__(self, *, pooled=False, refuses=0):
        self.pooled, self.refuses = pooled, refuses
        self.statements, self.opens, self.closed, self.opened = SimpleQueue(), SimpleQueue(), [], 0

    def open(self):
        self.opened += 1
        if self.opened <= self.refuses:
            raise psycopg.OperationalError
        self.here, self.there = socket.socketpair()
        self.sent = []
        self.opens.put(self.opened)
        return self

    behind_a_pooler = property(lambda self: self.pooled)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.here.close(), self.there.close()
        self.closed.append(self.opened)

    def execute(self, statements, *, prepare):
        self.statements.put(sorted(statements.split("; ")))

    def fileno(self):
        return self.there.fileno()

    def send(self, *notices):
        self.sent.append([SimpleNamespace(channel=channel, payload=payload) for channel, payload in notices])
        self.here.send(b".")

    def notifies(self, *, timeout):
        assert timeout == 0
        if not self.sent:
            return []
        self.there.recv(1)
        notices = self.sent.pop(0)
        if not notices:
            raise psycopg.OperationalError
        return notices

    def next_statements(self):
        return self.statements.get(timeout=PATIENCE)


@pytest.fixture
def threads(monkeypatch):
    monkeypatch.setattr(listen, "_RECONNECT_AFTER", 0.0)
    before = set(threading.enumerate())
    yield lambda: [thread.name for thread in set(threading.enumerate()) - before]
    assert set(threading.enumerate()) <= before


def test_many_channels_share_a_thread_and_a_connection(threads):
    server = Server()
    listener, heard = Listener(server), SimpleQueue()
    mail = listener.subscribe("mail", lambda news: heard.put(("mail", news)))
    assert (server.next_statements(), heard.get(timeout=PATIENCE)) == (['LISTEN "mail"'], ("mail", ""))
    calls = listener.subscribe("calls", lambda news: heard.put(("calls", news)))
    also = listener.subscribe("calls", lambda news: heard.put(("also", news)))
    said = server.next_statements()
    assert said == ['LISTEN "calls"'] and {heard.get(timeout=PATIENCE) for _ in range(2)} == {
        ("calls", ""),
        ("also", ""),
    }
    assert (server.opened, threads()) == (1, ["drainq-listen-mail"])
    assert mail.listening.is_set() and calls.listening.is_set() and also.listening.is_set()
    server.send(("mail", "a"), ("mail", "a"), ("calls", "b"))
    assert [heard.get(timeout=PATIENCE) for _ in range(3)] == [("mail", "a"), ("calls", "b"), ("also", "b")]
    calls.close()
    server.send(("calls", "c"))
    assert heard.get(timeout=PATIENCE) == ("also", "c")
    also.close()
    assert server.next_statements() == ['UNLISTEN "calls"'] and threads()
    mail.close()
    mail.close()
    assert (server.closed, threads(), heard.empty()) == ([1], [], True)
    again = listener.subscribe("mail", lambda news: heard.put(("again", news)))
    assert heard.get(timeout=PATIENCE) == ("again", "")
    also_again = listener.subscribe("calls", print)
    listener.close()
    assert (server.closed, threads()) == ([1, 2], [])
    again.close(), also_again.close()


def test_after_a_lost_connection_it_listens_again_and_says_that_news_may_be_lost(threads, caplog):
    server = Server(refuses=1)
    heard: SimpleQueue[str] = SimpleQueue()
    subscription = Listener(server).subscribe("mail", heard.put)
    assert heard.get(timeout=PATIENCE) == ""
    server.send()  # an error
    assert heard.get(timeout=PATIENCE) == "" and server.closed == [2]
    server.send(("mail", "a"))
    assert heard.get(timeout=PATIENCE) == "a"
    assert [server.next_statements() for _ in range(2)] == [['LISTEN "mail"']] * 2
    subscription.close()
    assert "lost the LISTEN connection (OperationalError); polling goes on" in caplog.text


def test_where_no_thread_can_start_the_next_subscription_tries_again(threads, monkeypatch):
    server, heard = Server(), SimpleQueue()
    listener = Listener(server)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", lambda thread: (_ for _ in ()).throw(RuntimeError("can't start")))
        with pytest.raises(RuntimeError):
            listener.subscribe("mail", heard.put)
    subscription = listener.subscribe("calls", heard.put)
    assert (heard.get(timeout=PATIENCE), server.next_statements()) == ("", ['LISTEN "calls"'])
    subscription.close()


def test_behind_a_pooler_nobody_listens_and_the_end_leaves_nothing_open(threads, caplog):
    server = Server(pooled=True)
    listener = Listener(server)
    first, second = listener.subscribe("mail", print), listener.subscribe("calls", print)
    assert server.opens.get(timeout=PATIENCE) == 1
    first.close()
    second.close()
    assert (server.opened, server.closed, server.statements.empty()) == (1, [1], True)
    assert caplog.text.count("notify=True has no effect through a pooler") == 1


def test_a_child_of_a_fork_has_no_subscription_and_may_subscribe(threads, monkeypatch):
    server, heard = Server(), SimpleQueue()
    listener = Listener(server)
    with monkeypatch.context() as parent:
        parent.setattr(listen, "start_thread", lambda *_, **__: None)  # a thread that the child does not have
        inherited = listener.subscribe("mail", heard.put)
    listener._renew_in_child()
    mine = listener.subscribe("calls", heard.put)
    assert (server.next_statements(), heard.get(timeout=PATIENCE)) == (['LISTEN "calls"'], "")
    inherited.close()
    assert threads() == ["drainq-listen-calls"]
    mine.close()
