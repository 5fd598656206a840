"""The data source's own tables, in the queue's database, so that one transaction can change both.

| table | a row is |
| --- | --- |
| ``stage`` | a row that a task has written, until the driver publishes or deletes it |
| ``commits`` | a write, or a batch of a streaming query, that was published |
| ``readers`` | a consumer, the number of its last claim, and the process that reads for it |
| ``claims`` | a message that was moved out of the queue for a consumer, until Spark has processed it |
"""

from __future__ import annotations

from drainq.delayed.message import check_text
from drainq.sql.database import Database
from drainq.sql.dialect import Dialect

_SUFFIX = "__spark_"

STATEMENTS = (
    """CREATE TABLE IF NOT EXISTS {stage} (
        token TEXT NOT NULL, place BIGINT NOT NULL, write_id TEXT NOT NULL, batch BIGINT NOT NULL,
        message_key TEXT NOT NULL, payload {bytes} NOT NULL, due_at BIGINT NOT NULL, staged_at BIGINT NOT NULL,
        PRIMARY KEY (token, place))""",
    "CREATE INDEX IF NOT EXISTS {stage_index} ON {stage} (write_id, batch)",
    """CREATE TABLE IF NOT EXISTS {commits} (
        write_id TEXT NOT NULL, batch BIGINT NOT NULL, published_at BIGINT NOT NULL, PRIMARY KEY (write_id, batch))""",
    """CREATE TABLE IF NOT EXISTS {readers} (
        queue TEXT NOT NULL, consumer TEXT NOT NULL, number BIGINT NOT NULL, owner TEXT NOT NULL,
        PRIMARY KEY (queue, consumer))""",
    """CREATE TABLE IF NOT EXISTS {claims} (
        queue TEXT NOT NULL, consumer TEXT NOT NULL, number BIGINT NOT NULL, place BIGINT NOT NULL,
        message_key TEXT NOT NULL, payload {bytes} NOT NULL, due_at BIGINT NOT NULL,
        PRIMARY KEY (queue, consumer, number, place))""",
)


class Tables:
    """The statements for the tables that belong to one queue table, in one dialect.

    Args:
        table: the queue's table.
        dialect: the database's dialect.

    Example:
        >>> Tables("delayed_queue", Dialect.POSTGRESQL).fill("SELECT number FROM {readers} WHERE queue = ?")
        'SELECT number FROM "delayed_queue__spark_readers" WHERE queue = %s'
    """

    def __init__(self, table: str, dialect: Dialect) -> None:
        check_text(table, "a table name")
        self._dialect = dialect
        self._names = {
            name: table + _SUFFIX + name for name in ("stage", "stage_index", "commits", "readers", "claims")
        }
        longest = max(self._names.values(), key=len)
        if len(longest.encode()) > 63:
            raise ValueError(f"the table name {table!r} is too long for the data source: {longest!r} has over 63 bytes")

    def fill(self, template: str) -> str:
        """Return the statement with its names filled in, and with ``?`` in the driver's form."""
        return self._dialect.fill(template, self._names)

    def create(self, database: Database) -> None:
        """Create missing tables, in the caller's transaction."""
        database.dialect.lock_creation(database.connection, "drainq data source tables")
        there = database.dialect.tables_among(database.connection, self._names.values())
        if not {full for name, full in self._names.items() if name != "stage_index"} <= there:
            for statement in STATEMENTS:
                database.execute(self.fill(statement))
