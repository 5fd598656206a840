"""What differs from database to database, as an object: every other module asks it, and none asks which database it is.

A new database is a :class:`Dialect` in a module of its own, which calls :func:`register`, and a line that imports the
module. What SQLite and PostgreSQL have in common stands here as the default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from drainq.sql.failure import Failure
from drainq.sql.quoting import quote


class UrlParts(NamedTuple):
    """What a dialect reads out of a URL.

    Attributes:
        target: the file's path, or the address as the driver reads it, without passwords.
        secrets: passwords, by the driver's name for each.
        text: the URL as messages show it; empty: as :meth:`Dialect.shown` says.
    """

    target: str
    secrets: tuple[tuple[str, str], ...]
    text: str


class Dialect(ABC):
    """The SQL of one database, and how its driver is used.

    Attributes:
        name: what the database is called in URLs that are made here, and in messages.
        schemes: the schemes of its URLs.
        forms: its URLs by example, for a refusal.
        placeholder: what stands for a bound value in a statement.
        types: the SQL types of ``text``, ``int``, ``float``, ``number`` (exact) and ``bytes``.
        begin: the statement that begins a transaction which writes.
        larger, smaller: the functions for the larger and the smaller of two values.
        byte_order: what follows a text column so that texts are compared byte by byte.
        rows_in_key: what follows a table's definition so that its rows are kept in the primary key.
        is_server: whether connections are to a server: they can be lost, and rows reach it faster by COPY.
        keeps_transaction: whether a statement that fails leaves its transaction usable.
        merges_row_by_row: whether an upsert may name a key twice: then the later row is merged into the earlier one.
    """

    SQLITE: ClassVar[Dialect]
    POSTGRESQL: ClassVar[Dialect]

    name: str
    schemes: tuple[str, ...]
    forms: tuple[str, ...]
    placeholder = "?"
    types: ClassVar[Mapping[str, str]]
    begin = "BEGIN"
    larger, smaller = "greatest", "least"
    byte_order = ""
    rows_in_key = ""
    is_server = False
    keeps_transaction = True
    merges_row_by_row = True

    def quote(self, identifier: str) -> str:
        """Quote a table or column name, whatever it holds, for a statement with bound values.

        Raises:
            ValueError: the name is empty or holds a NUL, which no database takes.
        """
        return quote(identifier)

    def fill(self, template: str, names: Mapping[str, str]) -> str:
        """A statement in which ``?`` stands for bound values and ``{name}`` for names, as the driver reads it."""
        quoted = {name: self.quote(full) for name, full in names.items()}
        return template.replace("?", self.placeholder).format(**quoted, **self.types)

    @abstractmethod
    def read_url(self, scheme: str, rest: str) -> UrlParts | None:
        """Read what follows ``scheme://`` in a URL; None if it is no URL of this database.

        Raises:
            ValueError: it can be read in more than one way, or names a database that cannot be used.
        """

    @abstractmethod
    def shown(self, target: str) -> str:
        """The URL of a target, as messages show it: without a password."""

    def address(self, target: str) -> str:
        """What two targets have in common that name the same database."""
        return target

    def why_missing(self, target: str) -> str | None:
        """Why there is nothing at ``target``, where connecting would create it; None where connecting finds out."""
        return None

    @abstractmethod
    def connect(self, target: str, secrets: Sequence[tuple[str, str]], *, write_ahead: bool = False) -> Any:
        """Open a connection in autocommit mode, as the driver makes it.

        Args:
            target: see :class:`UrlParts`.
            secrets: see :class:`UrlParts`.
            write_ahead: keep a write-ahead log, where the database asks.

        Raises:
            ImportError: the driver is not installed.
            Exception: an error of the driver: the database cannot be opened.
        """

    @property
    @abstractmethod
    def errors(self) -> type[Exception]:
        """The root of the driver's errors."""

    @abstractmethod
    def failure_of(self, error: BaseException) -> Failure | None:
        """What an error of the driver means; None for an error of anything else."""

    def is_lost(self, error: BaseException) -> bool:
        """Whether a connection is of no more use after this error, and another one may be."""
        return False

    def stream(self, connection: Any, statement: str, values: Sequence[Any], size: int) -> Iterator[tuple[Any, ...]]:
        """Yield a query's rows without holding them all; ``size``: rows in one answer of a server."""
        yield from connection.execute(statement, values)

    def execute_many(self, connection: Any, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each row of values."""
        connection.executemany(statement, rows)

    @abstractmethod
    def cancel(self, connection: Any, seconds: float) -> None:
        """Ask the database to end the statement that another thread runs; wait no longer than that for its answer."""

    def cut(self, connection: Any) -> None:  # noqa: B027 - a database in this process always hears a request to cancel
        """End the wait of another thread on the connection, whatever the database does."""

    def limit_lock_wait(self, connection: Any, milliseconds: int) -> None:  # noqa: B027 - most databases need nothing
        """Have statements wait no longer than this for another connection's lock, where the driver waits by itself."""

    def lock_table(self, connection: Any, table: str) -> None:  # noqa: B027 - most databases need nothing
        """Hold off other writers of the table until the transaction ends, where that takes a statement."""

    def lock_creation(self, connection: Any, what: str) -> None:  # noqa: B027 - most databases need nothing
        """Let one transaction at a time make the tables called ``what``, where two would fail."""

    @abstractmethod
    def tables_among(self, connection: Any, names: Iterable[str]) -> set[str]:
        """Which of these tables there are."""

    def __repr__(self) -> str:
        return f"Dialect.{self.name.upper()}"

    def __reduce__(self) -> tuple[object, ...]:
        return dialect_of, (self.schemes[0],)


_BY_SCHEME: dict[str, Dialect] = {}


def register(dialect: Dialect) -> Dialect:
    """Have URLs with the dialect's schemes read by it; return it."""
    for scheme in dialect.schemes:
        _BY_SCHEME[scheme] = dialect
    return dialect


def dialect_of(scheme: str) -> Dialect | None:
    """The dialect of a URL's scheme, None if no database has it."""
    return _BY_SCHEME.get(scheme)


def registered() -> list[Dialect]:
    """All dialects, in the order in which they were registered."""
    return list(dict.fromkeys(_BY_SCHEME.values()))
