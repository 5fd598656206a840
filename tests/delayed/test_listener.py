"""The thread that listens for the offers of other processes, without a server."""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue
from types import SimpleNamespace

import pytest

pytest.importorskip("psycopg")

import psycopg

from drainq.delayed.storage.postgres import listen
from drainq.delayed.storage.postgres.listen import Listener


def test_a_listener_passes_on_all_news_listens_again_after_a_lost_connection_and_leaves_nothing_open(monkeypatch):
    heard, listening, closed, (reader, writer) = SimpleQueue(), [], [], os.pipe()
    answers = [psycopg.OperationalError(), [SimpleNamespace(payload=news) for news in ("a", "b", "a")]]

    class Line:
        behind_a_pooler, execute, fileno = False, lambda *statement, prepare: None, lambda self: reader
        __enter__, __exit__ = lambda self: self, lambda *raised: None

        def notifies(self, *, timeout):
            os.read(reader, 1)
            answer = answers.pop()
            if answers:
                return answer
            raise answer

    def opened():
        listening.append(listener.listening.is_set())
        if len(listening) == 1:
            raise psycopg.OperationalError
        return Line()

    monkeypatch.setattr(listen, "_RECONNECT_AFTER", 0.0)
    monkeypatch.setattr(listen, "os", SimpleNamespace(pipe=os.pipe, write=os.write, close=closed.append))
    monkeypatch.setattr(listen, "start_thread", lambda run, name: threading.Thread(target=run, daemon=True))
    listener = Listener(SimpleNamespace(open=opened), "mail", heard.put)
    listener._thread.start()
    joined, join = [], listener._thread.join
    monkeypatch.setattr(listener._thread, "join", lambda: joined.append(join()))
    for news in ({""}, {"a", "b"}, {""}):
        assert {heard.get(timeout=60) for _ in news} == news
        if news != {""} or answers[1:]:
            os.write(writer, b".")
    listener.close()
    assert listening == [False] * 3 and joined == [None]
    assert closed == [listener._stop_reader, listener._stop_writer]
    for end in (*closed, reader, writer):
        os.close(end)
