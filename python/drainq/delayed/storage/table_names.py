"""TableNames: the checked and quoted names of a queue's tables and indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType

from drainq.delayed.message import check_text
from drainq.sql.quoting import literal, quote

_SUFFIXES = {
    "table": "",
    "dead": "__dead",
    "cron": "__cron",
    "schedules": "__schedules",
    "queues": "__queues",
    "history": "__history",
    "migrations": "__migrations",
    "offer": "_offer",
    "key_index": "__PKeyPlusKindUniqueIndex",
    "kind_key_index": "__PKindPKeyUniqueIndex",
    "due_index": "__KindPlusScheduledAtIndex",
    "lease_index": "__LockUuidPlusIdIndex",
    "rank_index": "__KindPlusPriorityIndex",
    "group_index": "__KindPlusGroupIndex",
    "leased_group_index": "__LeasedGroupUniqueIndex",
    "range_index": "__KindPlusPKeyIndex",
    "dead_index": "__dead_KindIndex",
    "cron_index": "__cron_TickIndex",
    "history_index": "__history_KindIndex",
}

MAX_TABLE_BYTES = 63 - max(len(suffix) for suffix in _SUFFIXES.values())
"""The most bytes of a table's name. With more, PostgreSQL would cut index names, and two tables could share one."""


class TableNames:
    """Quoted identifiers of one table, and of the tables and indexes that belong to it.

    Args:
        table: the table's name as the user wrote it; any character but NUL. A dot does not name a schema.

    Example:
        >>> TableNames('an "odd" name').fill("SELECT 1 FROM {table}")
        'SELECT 1 FROM "an ""odd"" name"'
    """

    def __init__(self, table: str) -> None:
        if not isinstance(table, str):
            raise TypeError(f"a table name must be a str, got {table!r}")
        if not table.strip():
            raise ValueError(f"a table name must not be blank, got {table!r}")
        check_text(table, "a table name")
        if len(table.encode("utf-8")) > MAX_TABLE_BYTES:
            raise ValueError(f"a table name must have at most {MAX_TABLE_BYTES} bytes in UTF-8, got {table!r}")
        if table.lower().startswith("sqlite_"):
            raise ValueError(f"a table name must not start with 'sqlite_', which SQLite keeps to itself, got {table!r}")
        self.table = table

    def name(self, token: str) -> str:
        """Return the unquoted name that ``token`` stands for."""
        return self.table + _SUFFIXES[token]

    def fill(self, template: str, *, percent: str = "%", limit: int = 0) -> str:
        """Return the statement with its names filled in.

        Args:
            template: a statement with ``{table}`` and the like.
            percent: the driver's spelling of a percent sign in a name.
            limit: the number of rows, if a statement has it as a literal.
        """
        body = "$body$"  # delimits the text of a function
        while body in self.table:
            body = f"{body[:-1]}_$"
        quoted = {token: quote(self.table + suffix).replace("%", percent) for token, suffix in _SUFFIXES.items()}
        shown = literal(quote(self.table)).replace("%", percent)
        return template.format(**quoted, limit=int(limit), literal=shown, body=body)


def statements_of(modules: Iterable[ModuleType], fill: Callable[[str], str]) -> dict[str, str]:
    """Return the statements of some modules by name, with the names of the tables filled in."""
    texts = {name: text for module in modules for name, text in vars(module).items() if name[0].isupper()}
    return {name: fill(text) for name, text in texts.items() if isinstance(text, str)}
