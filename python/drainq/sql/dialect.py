"""Dialect: the interface for the differences between databases. No other module asks which database it uses.

To add a database, write a :class:`Dialect` in a new module that calls :func:`register`, and import it in
:mod:`drainq.sql`. Methods that SQLite and PostgreSQL share are implemented here.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from drainq.sql.quoting import quote


class Failure(enum.Enum):
    """The meaning of a driver's error for the caller."""

    PASSES = "passes"
    CANNOT_PASS = "cannot pass"
    DATA = "data"


class UrlParts(NamedTuple):
    """The parts of a URL, as a dialect reads them.

    Attributes:
        target: the file's path, or the address as the driver reads it, without passwords.
        secrets: passwords, by the driver's name for each.
        text: the URL as messages show it; if empty, they show :meth:`Dialect.shown`.
    """

    target: str
    secrets: tuple[tuple[str, str], ...]
    text: str


class Dialect(ABC):
    """The SQL of one database, and the use of its driver.

    Attributes:
        name: the database's name in messages and in URLs that drainq makes.
        schemes: the schemes of its URLs.
        forms: examples of its URLs, for error messages.
        placeholder: the placeholder of a bound value in a statement.
        types: the SQL types of ``text``, ``int``, ``float``, ``number`` (exact) and ``bytes``.
        begin: the statement that begins a transaction which writes.
        larger, smaller: the functions for the larger and the smaller of two values.
        byte_order: the suffix of a text column that makes texts compare byte by byte.
        rows_in_key: the suffix of a table's definition that stores its rows in the primary key.
        is_server: whether the database is a server: connections can be lost, and COPY is the fastest way to send rows.
        keeps_transaction: whether a transaction stays usable after a failed statement.
        merges_row_by_row: whether an upsert may name a key twice and merges the later row into the earlier one.
    """

    SQLITE: ClassVar[Dialect]
    POSTGRESQL: ClassVar[Dialect]

    name: str
    schemes: tuple[str, ...]
    forms: tuple[str, ...]
    placeholder: str = "?"
    types: ClassVar[Mapping[str, str]]
    begin: str = "BEGIN"
    larger: str = "greatest"
    smaller: str = "least"
    byte_order: str = ""
    rows_in_key: str = ""
    is_server: bool = False
    keeps_transaction: bool = True
    merges_row_by_row: bool = True

    def quote(self, identifier: str) -> str:
        """Quote a table or column name for a statement with bound values.

        Raises:
            ValueError: the name is empty or holds a NUL, which no database accepts.
        """
        return quote(identifier)

    def fill(self, template: str, names: Mapping[str, str]) -> str:
        """Return a statement in the driver's form. In the argument ``?`` stands for a bound value, and ``{name}`` for a
        name."""
        quoted = {name: self.quote(full) for name, full in names.items()}
        return template.replace("?", self.placeholder).format(**quoted, **self.types)

    @abstractmethod
    def read_url(self, scheme: str, rest: str) -> UrlParts | None:
        """Read the part of a URL after ``scheme://``. None if it is no URL of this database.

        Raises:
            ValueError: the URL is ambiguous, or names a database that cannot be used.
        """

    @abstractmethod
    def shown(self, target: str) -> str:
        """Return the URL of a target, as messages show it: without a password."""

    def address(self, target: str) -> str:
        """Return a value that is equal for two targets of the same database."""
        return target

    def why_missing(self, target: str) -> str | None:
        """Return why ``target`` has no database, if :meth:`connect` would create one. Otherwise return None."""
        return None

    @abstractmethod
    def connect(self, target: str, secrets: Sequence[tuple[str, str]], *, write_ahead: bool = False) -> Any:
        """Open a connection in autocommit mode.

        Args:
            target: see :class:`UrlParts`.
            secrets: see :class:`UrlParts`.
            write_ahead: keep a write-ahead log, if the database has that choice.

        Raises:
            ImportError: the driver is not installed.
            Exception: the driver's error if the database cannot be opened.
        """

    @property
    @abstractmethod
    def errors(self) -> type[Exception]:
        """The base class of the driver's errors."""

    @abstractmethod
    def failure_of(self, error: BaseException) -> Failure | None:
        """Classify an error of the driver. Return None for any other error."""

    def is_lost(self, error: BaseException) -> bool:
        """Return whether this error makes a connection unusable, while a new one may work."""
        return False

    def stream(self, connection: Any, statement: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield a query's rows without holding all of them."""
        yield from connection.execute(statement, values)

    @abstractmethod
    def execute_many(self, connection: Any, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each row of values."""

    def plan(self, connection: Any, statement: str) -> None:
        """Plan a statement without running it. A server waits a second at most for a lock on the table."""
        connection.execute(f"EXPLAIN {statement}", ())

    def begin_marked(self, connection: Any) -> str | None:
        """Begin a transaction that writes. Its statements take no longer than :meth:`limit_waits` allows.

        Returns:
            The mark to pass to :meth:`was_committed` if COMMIT gets no answer. None: COMMIT always gets an answer.
        """
        connection.execute(self.begin)
        return None

    def was_committed(self, connection: Any, mark: str) -> bool | None:
        """Return whether a transaction of another connection was committed. None if that cannot be known.

        Raises:
            Exception: a temporary driver error: the transaction has not ended.
        """
        return None

    @abstractmethod
    def cancel(self, connection: Any, seconds: float) -> None:
        """Ask the database to end the statement of another thread. Wait at most ``seconds`` for its answer."""

    def cut(self, connection: Any) -> None:  # noqa: B027 - a database in this process always hears a request to cancel
        """End the wait of another thread on the connection, without the database's help."""

    @abstractmethod
    def limit_waits(self, connection: Any, seconds: float | None) -> None:
        """Let a wait for the database, or for a lock, end after some seconds. None: there is no limit."""

    def lock_table(self, connection: Any, table: str) -> None:  # noqa: B027 - most databases need nothing
        """Keep other writers off the table until the transaction ends, if the database needs a statement for that."""

    def lock_creation(self, connection: Any, what: str) -> None:  # noqa: B027 - most databases need nothing
        """Let one transaction at a time create the tables called ``what``, if concurrent ones would fail."""

    @abstractmethod
    def tables_among(self, connection: Any, names: Iterable[str]) -> set[str]:
        """Return those of the named tables that exist."""

    def __repr__(self) -> str:
        return f"Dialect.{self.name.upper()}"

    def __reduce__(self) -> tuple[object, ...]:
        return dialect_of, (self.schemes[0],)


_BY_SCHEME: dict[str, Dialect] = {}


def register(dialect: Dialect) -> Dialect:
    """Use the dialect for URLs with its schemes. Return it."""
    for scheme in dialect.schemes:
        _BY_SCHEME[scheme] = dialect
    return dialect


def dialect_of(scheme: str) -> Dialect | None:
    """Return the dialect of a URL's scheme, or None."""
    return _BY_SCHEME.get(scheme)


def registered() -> list[Dialect]:
    """Return all dialects, in the order in which they were registered."""
    return list(dict.fromkeys(_BY_SCHEME.values()))
