"""SQLite: creates the tables of a delayed queue and brings them up to date, in one transaction."""

from __future__ import annotations

import sqlite3
import time

from drainq.delayed.storage.migrate import Migration, as_script, pending
from drainq.delayed.storage.sqlite import schema_sql as sql
from drainq.delayed.storage.sqlite.statements import SQLiteStatements


class SQLiteMigration(SQLiteStatements):
    """The migrations of a storage."""

    def migrate(self) -> list[str]:
        with self._transaction() as cursor:
            missing = self._pending(cursor)
            if missing:
                cursor.execute(self._sql["CREATE_LEDGER"])
            for migration in missing:
                for statement in migration.statements:
                    cursor.execute(statement)
                cursor.execute(
                    self._sql["RECORD"],
                    {"number": migration.number, "name": migration.name, "now": int(time.time() * 1000)},
                )
            return [migration.name for migration in missing]

    def is_ready(self) -> bool:
        with self._cursor() as cursor:
            return all(migration.optional for migration in self._pending(cursor))

    def migration_sql(self) -> str:
        def record(migration: Migration) -> str:
            name = migration.name.replace("'", "''")
            return self._names.fill(
                f"INSERT INTO {{migrations}} VALUES ({migration.number}, '{name}', strftime('%s', 'now') * 1000)"
            )

        with self._cursor() as cursor:
            return as_script(self._pending(cursor), self._sql["CREATE_LEDGER"], record)

    def _pending(self, cursor: sqlite3.Cursor) -> list[Migration]:
        cursor.execute(self._sql["HAS_LEDGER"], {"table": self._names.table + "__migrations"})
        applied: set[int] = set()
        if cursor.fetchone()[0]:
            applied = {number for (number,) in cursor.execute(self._sql["APPLIED"])}
        return pending(
            sql.MIGRATIONS, applied, self._names.fill, lambda condition: bool(cursor.execute(condition).fetchone()[0])
        )
