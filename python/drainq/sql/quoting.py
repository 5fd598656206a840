"""Quotes names and texts for statements.

Names cannot be bound, so each is quoted. Values are bound, except in a statement that takes only a constant.
"""

from __future__ import annotations


def quote(name: str) -> str:
    """Quote the name of a table, index or column as a delimited identifier of standard SQL.

    psycopg reads a ``%`` in a statement with bound values as a placeholder. So :meth:`drainq.sql.Dialect.quote` doubles
    the ``%`` for PostgreSQL.

    Raises:
        TypeError: the name is no str.
        ValueError: the name is empty or holds a NUL, which no database accepts.

    Example:
        >>> print(quote('an "odd" name'))
        "an ""odd"" name"
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a table or column must be a str, got {name!r}")
    if not name or "\0" in name:
        raise ValueError(f"a table or column name must have characters and no NUL, got {name!r}")
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a text as a literal of standard SQL, for a statement that needs a constant.

    Example:
        >>> print(literal("it's"))
        'it''s'
    """
    return "'" + text.replace("'", "''") + "'"
