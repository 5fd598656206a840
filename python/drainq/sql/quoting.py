"""Names and texts as they stand in a statement: the one place that quotes.

Values are bound and never come here; names cannot be bound, so each is quoted, whatever it holds.
"""

from __future__ import annotations


def quote(name: str) -> str:
    """A table's, index's or column's name as a delimited identifier of standard SQL.

    psycopg takes a ``%`` in a statement with bound values for a placeholder: see
    :meth:`drainq.sql.Dialect.quote`, which doubles it.

    Raises:
        TypeError: it is no text.
        ValueError: the name is empty or holds a NUL, which no database takes.

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
    """Text as a literal of standard SQL, for what must stand in a statement as a constant.

    Example:
        >>> print(literal("it's"))
        'it''s'
    """
    return "'" + text.replace("'", "''") + "'"
