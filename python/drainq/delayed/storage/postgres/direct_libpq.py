"""Direct statements: sends the statements of every message to PostgreSQL without the driver's cursor.

Each message costs one statement, for which the driver's general cursor needs more processor time than the server. Three
things make it cheaper here: the parameters of a statement are found once, the server decides their types, and a
result's value is converted only when it is read. The statements use the driver's interface to libpq
(:mod:`psycopg.pq`). The driver itself connects, begins and ends transactions, and runs all other statements.

# Invariants

1. A wait for an answer ends ``GRACE`` seconds after the deadline of the calling thread's try, as every wait on a
   :class:`~drainq.delayed.storage.postgres.connection.BoundedConnection` does. The connection is then closed, because
   the late answer would be read as the answer to the next statement.
2. When Ctrl-C interrupts a statement, the statement is cancelled on the server before the interrupt is raised. If the
   statement may still run, its connection is closed.
3. An answer is read to its end before the connection is used again.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import psycopg
from psycopg.pq import ExecStatus, TransactionStatus

from drainq.delayed.deadline import deadline
from drainq.sql.postgres_connection import PostgresConnection

_PARAMETER = re.compile(r"%%|%\((\w+)\)([sb])")
_numbers = count()
_SQLSTATE = psycopg.pq.DiagnosticField.SQLSTATE
_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
GRACE = 0.5
"""Seconds after a try's deadline in which the server may report that a statement took too long. After such a report
the connection stays usable."""
_MOST_PREPARED = 200  # prepared statements that a connection keeps; each batch size has its own
_CANCELLED_WITHIN = 5.0  # seconds that the server gets to end a statement that was interrupted


class TryTimedOut(psycopg.OperationalError):
    """Raised if the server did not answer in time. The connection is unusable."""


_Watch = Callable[[float | None], tuple[bool, bool]]


class Statement:
    """A statement with numbered parameters, which a connection prepares at its first use.

    Args:
        text: the SQL with ``%(name)s`` for a parameter, ``%(name)b`` for one of bytes, ``%%`` for a percent sign.

    Example:
        >>> statement = Statement("SELECT %(a)s::text || %(b)s || %(a)s, 5 %% 2")
        >>> statement.text
        b'SELECT $1::text || $2 || $1, 5 % 2'
        >>> statement.encoded({"b": "x", "a": 7})
        [b'7', b'x']
    """

    def __init__(self, text: str) -> None:
        formats: dict[str, int] = {}

        def numbered(found: re.Match[str]) -> str:
            name, kind = found.groups()
            if name is None:
                return "%"
            formats.setdefault(name, int(kind == "b"))
            return f"${list(formats).index(name) + 1}"

        self.text = _PARAMETER.sub(numbered, text).encode()
        self.formats = list(formats.values())
        self.name = b"drainq_%d" % next(_numbers)
        self._names = list(formats)

    def encoded(self, values: Mapping[str, object]) -> list[bytes | None]:
        """Encode the parameters: numbers and texts as text, bytes unchanged, None as NULL."""
        sent: list[bytes | None] = []
        for name in self._names:
            value = values[name]
            if value is None or isinstance(value, bytes):
                sent.append(value)
            elif isinstance(value, str):
                sent.append(value.encode())
            elif isinstance(value, int):
                sent.append(b"%d" % value)
            else:
                raise TypeError(f"{name} is neither a number nor text nor bytes, but a {type(value).__name__}")
        return sent


class DirectConnection(PostgresConnection):
    """A connection that can also run statements without a cursor.

    Attributes:
        patient: whether waits have no deadline, for a statement of any duration.
    """

    patient = False
    _ear: _Watch | None = None
    _known_here: tuple[bytes, ...] = ()  # statements, in the order in which they were prepared

    def was_spoken_to(self) -> bool:
        """Return whether the server has sent an unrequested message: usually, that it has closed the connection."""
        return self._heard(0.0)

    def ask(self, statement: Statement, values: Mapping[str, object]) -> Any:
        """Run a statement and return libpq's result, with binary columns.

        Args:
            statement: prepared on this connection from now on, unless the connection prepares nothing.
            values: its parameters by name.

        Raises:
            psycopg.Error: as :meth:`psycopg.Cursor.execute` does.
        """
        sent = statement.encoded(values)
        until = self._until()
        try:
            if self.prepare_threshold is not None and statement.name not in self._known_here:
                self._prepare(statement, until)
            self._send(statement, sent)
            return self._answer(until)
        except (KeyboardInterrupt, SystemExit):
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self._give_up_on_it()
            raise

    def ask_both(
        self, first: Statement, values: Mapping[str, object], second: Statement, more: Mapping[str, object]
    ) -> tuple[Any, Any]:
        """Run two statements in one transaction and one round trip. The second sees the changes of the first, and those
        that others have committed meanwhile.

        Args:
            first, second: the statements.
            values, more: their parameters.

        Returns:
            Their results, each as :meth:`ask` returns it. If one fails, neither takes effect.

        Raises:
            psycopg.Error: as :meth:`ask` does.
        """
        both = [(first, first.encoded(values)), (second, second.encoded(more))]
        until = self._until()
        pgconn = self.pgconn
        if self.prepare_threshold is not None:
            for statement, _ in both:
                if statement.name not in self._known_here:
                    self._prepare(statement, until)
        pgconn.enter_pipeline_mode()
        try:
            for statement, sent in both:
                self._send(statement, sent)
            pgconn.pipeline_sync()
            self._flush(until)
            answers = self._read(until), self._read(until)
            self._wait_for_part(until)
            pgconn.get_result()  # the end of the pipeline
            pgconn.exit_pipeline_mode()
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)) and not self.closed:
                with suppress(psycopg.Error):
                    self.cancel_safe(timeout=_CANCELLED_WITHIN)
            pgconn.finish()
            raise
        for answer in answers:
            if answer is None or answer.status not in _GOOD:
                raise self._error(answer)
        return answers

    def _prepare(self, statement: Statement, until: float | None) -> None:
        if len(self._known_here) >= _MOST_PREPARED:
            self.pgconn.send_query(b"DEALLOCATE " + self._known_here[0])
            self._answer(until)
            self._known_here = self._known_here[1:]
        self.pgconn.send_prepare(statement.name, statement.text)
        self._answer(until)
        self._known_here += (statement.name,)

    def forget_prepared(self) -> None:
        """Deallocate all prepared statements after a rollback, as the driver does for its own."""
        if self._known_here and self.pgconn.transaction_status == TransactionStatus.IDLE:
            self._known_here = ()
            with suppress(psycopg.Error):  # the connection is closed then
                self.pgconn.send_query(b"DEALLOCATE ALL")
                self._answer(self._until())

    def _until(self) -> float | None:
        """Return the deadline of a wait."""
        until = None if self.patient else deadline()
        return None if until is None else until + GRACE

    def _send(self, statement: Statement, sent: Sequence[bytes | None]) -> None:
        if self.prepare_threshold is None:
            self.pgconn.send_query_params(statement.text, sent, param_formats=statement.formats, result_format=1)
        else:
            self.pgconn.send_query_prepared(statement.name, sent, statement.formats, 1)

    def _answer(self, until: float | None) -> Any:
        """Send all pending data, wait for the answer and read it to its end."""
        self._flush(until)
        answer = self._read(until)
        if answer is None or answer.status not in _GOOD:
            raise self._error(answer)
        return answer

    def _flush(self, until: float | None) -> None:
        """Send all pending data."""
        while self.pgconn.flush():  # the data is long, and the server does not keep up
            if self._wait(until, to_send=True):
                self.pgconn.consume_input()  # the server may wait until its own data is read

    def _read(self, until: float | None) -> Any:
        """Read the answer to one statement to its end."""
        answer = None
        while True:
            self._wait_for_part(until)
            part = self.pgconn.get_result()
            if part is None:
                return answer
            answer = part

    def _wait_for_part(self, until: float | None) -> None:
        while self.pgconn.is_busy():
            self._wait(until)
            self.pgconn.consume_input()

    def _error(self, answer: Any) -> psycopg.Error:
        if answer is not None and answer.error_field(_SQLSTATE):
            return psycopg.errors.error_from_result(answer)
        said = (answer or self.pgconn).error_message.decode(errors="replace").strip()
        return psycopg.OperationalError(said or "the connection was lost")

    def _wait(self, until: float | None, *, to_send: bool = False) -> bool:
        """Wait until the socket is readable or, if ``to_send``, writable. Return whether it is readable.

        Raises:
            TryTimedOut: ``until`` has passed; the connection is closed.
        """
        seconds = None if until is None else max(0.0, until - time.monotonic())
        if to_send:
            readable, writable = _watch(self.pgconn.socket, to_send=True)(seconds)
        else:
            readable, writable = self._heard(seconds), False
        if not readable and not writable:
            self.pgconn.finish()
            raise TryTimedOut("the server did not answer in time; the connection was closed")
        return readable

    def _heard(self, seconds: float | None) -> bool:
        if self._ear is None:
            self._ear = _watch(self.pgconn.socket)
        return self._ear(seconds)[0]

    def _give_up_on_it(self) -> None:
        """Cancel the running statement. Close the connection if the statement does not end."""
        try:
            self.cancel_safe(timeout=_CANCELLED_WITHIN)
            self._answer(time.monotonic() + _CANCELLED_WITHIN)
        except psycopg.errors.QueryCanceled:
            pass
        except BaseException:
            self.pgconn.finish()


def _watch(socket: int, *, to_send: bool = False) -> _Watch:
    """Return a function that waits, for seconds or for ever, until a socket is readable or (``to_send``) writable."""
    if not hasattr(select, "poll"):  # Windows
        return lambda seconds: _seen(*select.select([socket], [socket] if to_send else [], [], seconds)[:2])
    watch = select.poll()
    watch.register(socket, select.POLLIN | select.POLLOUT if to_send else select.POLLIN)

    def ready(seconds: float | None) -> tuple[bool, bool]:
        found = watch.poll(None if seconds is None else seconds * 1000)
        events = found[0][1] if found else 0
        return bool(events & ~select.POLLOUT), bool(events & select.POLLOUT)

    return ready


def _seen(readable: list[int], writable: list[int]) -> tuple[bool, bool]:
    return bool(readable), bool(writable)
