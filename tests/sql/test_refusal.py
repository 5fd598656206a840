"""A server that refuses a connection in another language: drainq decides by the code, not by the text."""

from __future__ import annotations

import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from drainq import Backoff
from drainq.delayed import DelayedQueue, QueueBroken, QueueUnavailable, RetryConfig
from drainq.sql.connect import connect
from drainq.sql.dialect import Failure
from drainq.sql.driver_errors import failure_of
from drainq.sql.url import DatabaseUrl

psycopg = pytest.importorskip("psycopg")

pytestmark = pytest.mark.skipif(
    psycopg.pq.version() < 180000 or sys.platform != "linux", reason="needs libpq 18, which traces refusals, on Linux"
)

_SSL, _GSS = 80877103, 80877104  # what a client asks before it says who it is


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _refusal(code: str, text: str) -> bytes:
    fields = {b"S": "FATAL", b"V": "FATAL", b"C": code, b"M": text}
    return _message(b"E", b"".join(name + value.encode() + b"\0" for name, value in fields.items()) + b"\0")


def _read(connection: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count and (part := connection.recv(count - len(got))):
        got += part
    return got


def _serve(listener: socket.socket, code: str, text: str, *, ask_password: bool, visits: list[bool]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            visits.append(True)
            while len(head := _read(connection, 8)) == 8:
                length, what = struct.unpack("!ii", head)
                if what not in (_SSL, _GSS):
                    _read(connection, length - 8)
                    break
                connection.sendall(b"N")
            if ask_password:
                connection.sendall(_message(b"R", struct.pack("!i", 3)))
                if len(head := _read(connection, 5)) == 5:
                    _read(connection, struct.unpack("!i", head[1:])[0] - 4)
            connection.sendall(_refusal(code, text))


@contextmanager
def refusing(code: str, text: str, *, ask_password: bool = False) -> Iterator[tuple[str, list[bool]]]:
    """Yield a server that refuses everybody; its URL, and its visits."""
    visits: list[bool] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(
            target=_serve, args=(listener, code, text), kwargs={"ask_password": ask_password, "visits": visits}
        )
        serving.start()
        try:
            yield f"postgresql://me:geheim@127.0.0.1:{listener.getsockname()[1]}/db", visits
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            serving.join(30)


@pytest.mark.parametrize(
    ("code", "text", "meaning"),
    [
        ("28P01", "Passwort-Authentifizierung für Benutzer »me« fehlgeschlagen", Failure.CANNOT_PASS),
        ("3D000", "Datenbank »db« existiert nicht", Failure.CANNOT_PASS),
        ("28000", "kein pg_hba.conf-Eintrag für Host »127.0.0.1«", Failure.CANNOT_PASS),
        ("42501", "keine Berechtigung für Datenbank »db«", Failure.CANNOT_PASS),
        ("57P03", "das Datenbanksystem startet", Failure.PASSES),
        ("53300", "tut mir leid, schon zu viele Verbindungen", Failure.PASSES),
    ],
)
@pytest.mark.parametrize("ask_password", [False, True])
def test_a_translated_refusal_means_what_its_code_means(code, text, meaning, ask_password):
    with refusing(code, text, ask_password=ask_password) as (url, _):
        with pytest.raises(psycopg.OperationalError) as refused:
            connect(DatabaseUrl.parse(url))
    assert refused.value.sqlstate == code
    assert failure_of(refused.value) is meaning
    assert text.split("»")[0] in str(refused.value)


def test_a_queue_says_at_once_that_it_is_refused_for_good(monkeypatch):
    with refusing("28P01", "authentification par mot de passe échouée pour l'utilisateur « me »") as (url, visits):
        with pytest.raises(QueueBroken, match="authentification par mot de passe"):
            DelayedQueue.open(url)
    assert len(visits) == 2  # the attempt, and the look at its code


def test_a_queue_waits_for_a_server_that_starts_in_another_language():
    patience = RetryConfig(Backoff(0), max_retries=3)
    with refusing("57P03", "le système de bases de données se lance") as (url, visits):
        with pytest.raises(QueueUnavailable, match="after 3 retries"):
            DelayedQueue.open(url, retry=patience)
    assert len(visits) == 2 * 4


def test_a_refusal_in_english_needs_no_second_look():
    with refusing("3D000", 'database "db" does not exist') as (url, visits):
        with pytest.raises(psycopg.OperationalError) as refused:
            connect(DatabaseUrl.parse(url))
    assert failure_of(refused.value) is Failure.CANNOT_PASS
    assert len(visits) == 1
