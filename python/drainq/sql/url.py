"""Database URLs, in SQLAlchemy's spelling, without SQLAlchemy: the one place that reads them and that hides passwords.

``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``postgresql://user@host/db``,
``postgresql://user@/db?host=DIRECTORY`` (a unix socket); ``postgres://`` and ``postgresql+psycopg://`` mean the same.

1. What follows ``sqlite:///`` is the path as it is: no escapes, no options, so any file name can be said. A database in
   memory is refused: each connection would have one of its own.
2. A password is in ``secrets`` alone and reaches the driver beside the URI, never in it: so neither the repr, nor a
   message made here, nor one of the driver's can show it.
3. Any character may stand in a password as it is. A URL that could then be read in two ways is refused, not guessed.
"""

from __future__ import annotations

import enum
import os
import re
from dataclasses import dataclass, field
from urllib.parse import quote as percent_encoded
from urllib.parse import unquote

from drainq.sql.quoting import quote

FORMS = "sqlite:///relative.db, sqlite:////absolute.db or postgresql://user@host/db"

_POSTGRES_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
_HOSTS = re.compile(r"(?:\[[^\]/?@]*\]|[^:\[\]/?@#,\s]*)(?::\d+)?(?:,(?:\[[^\]/?@]*\]|[^:\[\]/?@#,\s]*)(?::\d+)?)*")
_SECRET_WORD = r"(?:\w*(?:password|passwd|pwd|secret|passphrase)\w*|scram_\w+_key)"
_SECRET = re.compile(_SECRET_WORD, re.IGNORECASE)


class Dialect(enum.Enum):
    """The SQL that is spoken; the value is the scheme of the URL."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"

    @property
    def placeholder(self) -> str:
        """What stands for a bound value in a statement."""
        return "?" if self is Dialect.SQLITE else "%s"

    def quote(self, identifier: str) -> str:
        """Quote a table or column name, whatever it holds, for a statement with bound values.

        Raises:
            ValueError: the name is empty or holds a NUL, which no database takes.
        """
        quoted = quote(identifier)
        return quoted if self is Dialect.SQLITE else quoted.replace("%", "%%")


@dataclass(frozen=True)
class DatabaseUrl:
    """Which database, in which dialect.

    Args:
        dialect: the SQL it speaks.
        target: the file's path (SQLite) or the connection URI as libpq reads it, without passwords (PostgreSQL).
        secrets: passwords, by libpq's name for each.
    """

    dialect: Dialect
    target: str
    secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    _shown: str = field(default="", repr=False, compare=False)

    @classmethod
    def parse(cls, url: str) -> DatabaseUrl:
        """Read a URL.

        Raises:
            TypeError: not a str.
            ValueError: not one of the forms; the message shows the URL without its password.

        Example:
            >>> DatabaseUrl.parse("sqlite:////var/lib/metrics.db").target
            '/var/lib/metrics.db'
            >>> print(DatabaseUrl.parse("postgresql://me:s/e@c#r:e?t@db/metrics"))
            postgresql://me:***@db/metrics
        """
        if not isinstance(url, str):
            raise TypeError(f"a database URL must be a str, got {url!r}")
        scheme, separator, rest = url.partition("://")
        if separator and scheme == "sqlite" and "\0" not in rest:
            if rest in ("", "/", "/:memory:"):
                raise ValueError(
                    f"{url!r} would be another database on each connection: name a file ({FORMS}); "
                    "a queue or a tracker of this process alone is 'memory:'"
                )
            if rest.startswith("/"):
                return cls(Dialect.SQLITE, rest[1:])
        if separator and scheme in _POSTGRES_SCHEMES and rest and "\0" not in rest:
            return cls._postgres(rest)
        raise ValueError(f"not a database URL: {shown(url)!r}; use {FORMS}")

    @classmethod
    def _postgres(cls, rest: str) -> DatabaseUrl:
        """Read what follows ``postgresql://``."""
        user_part, place = _split_user_part(rest)
        user, _, password = user_part.partition(":")
        secrets = {"password": _decoded(password)} if password else {}
        host_and_database, _, query = place.partition("?")
        _check_ports(host_and_database.partition("/")[0])
        kept, shown = [], []
        for name, value in _parameters(query):
            if _SECRET.fullmatch(name):
                secrets[name.lower()] = _decoded(value)
                shown.append(f"{name}=***")
            else:
                kept.append(f"{name}={value}")
                shown.append(f"{name}={value}")
        who = percent_encoded(_decoded(user), safe="")
        at, hidden = "@" if user_part else "", ":***" if password else ""
        target = f"postgresql://{who}{at}{host_and_database}{'?' if kept else ''}{'&'.join(kept)}"
        text = f"postgresql://{who}{hidden}{at}{host_and_database}{'?' if shown else ''}{'&'.join(shown)}"
        return cls(Dialect.POSTGRESQL, target, tuple(secrets.items()), text)

    @classmethod
    def sqlite(cls, path: str | os.PathLike[str]) -> DatabaseUrl:
        """The SQLite database in a file, whatever its name."""
        return cls(Dialect.SQLITE, os.fspath(path))

    def __str__(self) -> str:
        if self.dialect is Dialect.SQLITE:
            return f"sqlite:///{self.target}"
        return self._shown or without_password(self.target)


def without_password(text: str) -> str:
    """Put ``***`` where a URL, a libpq connection string or a driver's message may have a password.

    Text that may be part of a password is hidden too.

    Example:
        >>> without_password("cannot open postgresql://ann:p@ss/w:rd@db/mail?PASSWORD=secret")
        'cannot open postgresql://ann:***@db/mail?PASSWORD=***'
        >>> without_password("host=db password='two words' user=ann")
        'host=db password=*** user=ann'
    """
    rest_of_value = r"[^&]*(?:&[^&=]*(?=&|$))*"
    text = re.sub(rf"([?&]{_SECRET_WORD}=){rest_of_value}", r"\1***", text, flags=re.IGNORECASE)
    text = re.sub(rf"([?&][^=&?\s]*%[^=&?\s]*=){rest_of_value}", _hide_if_secret, text)
    text = re.sub(r"(://[^:]*:).*@", r"\1***@", text, flags=re.DOTALL)
    value = r"(?:'(?:[^'\\]|\\.)*'\S*|\"[^\"]*\"\S*|.*?(?=\s+\w+\s*=|$))"
    return re.sub(
        rf"((?<![?&\w]){_SECRET_WORD}\s*=\s*)(?!\*\*\*){value}", r"\1***", text, flags=re.IGNORECASE | re.DOTALL
    )


def _hide_if_secret(parameter: re.Match[str]) -> str:
    """A parameter of a query whose name has percent escapes, without its value if the name is a password's."""
    name = _decoded(parameter[1][1:-1])
    return f"{parameter[1]}***" if _SECRET.fullmatch(name) else parameter[0]


def shown(url: str) -> str:
    """A URL as messages show it, without its password; whatever was given in the place of a URL, too.

    Of a text that is no URL all is hidden between its first colon and its last ``@``: a slash too few, or no scheme,
    must not show the password that follows.

    Example:
        >>> shown("postgresql:/me:secret@db/mail"), shown("me:secret@db/mail"), shown("postgresql://me@db/mail")
        ('postgresql:***@db/mail', 'me:***@db/mail', 'postgresql://me@db/mail')
    """
    text = without_password(url)
    return (
        text
        if re.match(r"\s*(?:jdbc:)?[A-Za-z][\w+.-]*://", url)
        else re.sub(r"^([^:]*:).*@", r"\1***@", text, flags=re.DOTALL)
    )


def _split_user_part(rest: str) -> tuple[str, str]:
    """Split ``user:password@host/db?query`` before the host, whatever the password holds.

    An ``@`` ends the user part if what follows it is a host. If several do, the first is meant as long as the others
    stand in the query.

    Raises:
        ValueError: there is more than one way to read it.
    """
    ends = [at for at, char in enumerate(rest) if char == "@"]
    if not ends:
        return "", rest
    readings = [at for at in [-1, *ends] if _HOSTS.fullmatch(re.split(r"[/?]", rest[at + 1 :], maxsplit=1)[0])]
    if not readings:
        return rest[: ends[-1]], rest[ends[-1] + 1 :]  # the host is none: the driver says so
    first = readings[0]
    place, question, query = rest[first + 1 :].partition("?")
    if len(readings) > 1 and not (question and "@" not in place and re.match(r"\w+=", query)):
        raise ValueError(
            f"this URL can be read in more than one way: {without_password('postgresql://' + rest)!r}; "
            "write the characters '/', '?' and '@' in a user's name or password as %2F, %3F and %40"
        )
    return (rest[:first], rest[first + 1 :]) if first >= 0 else ("", rest)


def _check_ports(hosts: str) -> None:
    """Refuse a port that no server can have: libpq notices it only when it connects, as if the server were away."""
    for host in hosts.split(","):
        port = re.fullmatch(r"[^:]*:(.+)", re.sub(r"^\[[^\]]*\]", "", host))
        if port and not (re.fullmatch(r"[0-9]{1,5}", port[1]) and 1 <= int(port[1]) <= 65535):
            raise ValueError(f"the port of a PostgreSQL server is a number from 1 to 65535, got {port[1]!r}")


def _parameters(query: str) -> list[tuple[str, str]]:
    """The parameters of a query, names decoded; a part without ``=`` belongs to the value before it."""
    found: list[tuple[str, str]] = []
    for part in query.split("&") if query else []:
        name, equals, value = part.partition("=")
        if equals or not found:
            found.append((_decoded(name), value))
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]}&{part}")
    return found


def _decoded(text: str) -> str:
    """Percent escapes resolved; a text that holds any other ``%`` is meant as it is."""
    return text if re.search(r"%(?![0-9A-Fa-f]{2})", text) else unquote(text)
