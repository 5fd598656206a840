"""Reads database URLs in SQLAlchemy's form, and hides their passwords.

``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``postgresql://user@host/db``,
``postgresql://user@/db?host=DIRECTORY`` (a unix socket); ``postgres://`` and ``postgresql+psycopg://`` mean the same.

1. The path after ``sqlite:///`` has no escapes and no options, so any file name can be written. A database in memory is
   refused, because each connection would have its own.
2. A password is only in ``secrets`` and reaches the driver apart from the URI. So no repr and no message of drainq or
   the driver can show it.
3. A URL that can be read in two ways, because a password holds an unescaped ``/``, ``?`` or ``@``, is refused. The
   message shows no part of it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from drainq.sql.dialect import Dialect, dialect_of, registered

_SECRET_WORD = r"(?:\w*(?:password|passwd|pwd|secret|passphrase)\w*|scram_\w+_key)"
SECRET = re.compile(_SECRET_WORD, re.IGNORECASE)


@dataclass(frozen=True)
class DatabaseUrl:
    """A database and its dialect.

    Args:
        dialect: the database's dialect.
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
            ValueError: not one of the forms. The message shows the URL without its password.

        Example:
            >>> DatabaseUrl.parse("sqlite:////var/lib/metrics.db").target
            '/var/lib/metrics.db'
            >>> print(DatabaseUrl.parse("postgresql://me:s%2Fe%40c#r:et@db/metrics"))
            postgresql://me:***@db/metrics
        """
        if not isinstance(url, str):
            raise TypeError(f"url must be a str, got {url!r}; use {forms()}")
        scheme, separator, rest = url.partition("://")
        dialect = dialect_of(scheme) if separator and "\0" not in rest else None
        parts = None if dialect is None else dialect.read_url(scheme, rest)
        if dialect is None or parts is None:
            raise ValueError(f"url must name a database, got {shown(url)!r}; use {forms()}")
        return cls(dialect, parts.target, parts.secrets, parts.text)

    @classmethod
    def sqlite(cls, path: str | os.PathLike[str]) -> DatabaseUrl:
        """Return the URL of the SQLite database in a file of any name."""
        return cls(Dialect.SQLITE, os.fspath(path))

    def __str__(self) -> str:
        return self._shown or self.dialect.shown(self.target)


def forms() -> str:
    """Return examples of all forms of a database URL, for an error message."""
    all_forms = [form for dialect in sorted(registered(), key=lambda found: found.is_server) for form in dialect.forms]
    return " or ".join(filter(None, (", ".join(all_forms[:-1]), all_forms[-1])))


def without_password(text: str) -> str:
    """Replace each password in a URL, a libpq connection string or a driver's message by ``***``.

    Text that may be part of a password is replaced too.

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
    """Return a query parameter whose name has percent escapes. The value is hidden if the name is one of a password."""
    name = decoded(parameter[1][1:-1])
    return f"{parameter[1]}***" if SECRET.fullmatch(name) else parameter[0]


def shown(url: str) -> str:
    """Return a URL, or any text given in its place, as messages show it: without its password.

    In a text that is no URL, the part between the first colon and the last ``@`` is hidden, because a missing slash or
    scheme must not show a password.

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


def decoded(text: str) -> str:
    """Resolve percent escapes. A text with any other ``%`` is returned unchanged."""
    return text if re.search(r"%(?![0-9A-Fa-f]{2})", text) else unquote(text)
