"""PostgreSQL: creates the tables of a delayed queue and brings them up to date, while programs use them."""

from __future__ import annotations

import logging
import time
from typing import Any

import psycopg

from drainq.delayed.storage.migrate import Index, Migration, as_script, pending
from drainq.delayed.storage.postgres import schema_sql as sql
from drainq.delayed.storage.postgres.statements import LOCK_TIMEOUT_MS, PostgresStatements
from drainq.sql.driver_errors import passes
from drainq.sql.error_text import error_text
from drainq.sql.quoting import quote

_log = logging.getLogger("drainq")
_BUILD_LOCK_TIMEOUT_MS = 5000
"""Milliseconds that the build of an index waits for older transactions to end; no other statement is held up."""
_PUT_OFF = psycopg.errors.InsufficientPrivilege, psycopg.errors.UniqueViolation
"""Errors that leave an index for later. The second: an older program has two messages of a group in flight."""


class PostgresMigration(PostgresStatements):
    """The migrations of a storage."""

    def migrate(self) -> list[str]:
        with self._pool.cursor() as cursor:
            if not self._pending(cursor):  # the common case asks for no lock and no right
                return []
        with self._pool.patient() as cursor:
            values = {"name": f"drainq migrate {self._names.table}", "ms": str(LOCK_TIMEOUT_MS)}
            self._execute(cursor, "LOCK_MIGRATION", values)
            missing = self._pending(cursor)
            together = [migration for migration in missing if migration.apart is None]
            if together:
                cursor.execute(self._sql["CREATE_LEDGER"], {})
            for migration in together:
                for statement in migration.statements:
                    cursor.execute(statement, {}, prepare=False)
                self._record_migration(cursor, migration)
        done = [migration.name for migration in together]
        return done + [m.name for m in missing if m.apart is not None and self._build(m, m.apart)]

    def _build(self, migration: Migration, index: Index) -> bool:
        """Build an index while programs run. Return False if that must wait."""
        name = quote(self._names.name(index.token))
        try:
            with self._pool.alone(lock_timeout=_BUILD_LOCK_TIMEOUT_MS, statement_timeout=0) as cursor:
                if cursor is None:
                    _log.warning(
                        "the index %s is not built through a pooler; run 'drainq delayed migrate' without", name
                    )
                    return False
                if self._says(cursor, "BROKEN_INDEX", index=name):
                    cursor.execute(sql.drop_index(name))
                for statement in migration.statements:
                    cursor.execute(statement, {}, prepare=False)
                if not self._says(cursor, "INDEX_IS_VALID", index=name):
                    return False  # another process is building it
                self._record_migration(cursor, migration)
        except psycopg.Error as error:
            if not passes(error) and not isinstance(error, _PUT_OFF):
                raise
            _log.warning(
                "the index %s could not be built now (%s); the next open() tries again", name, error_text(error)
            )
            return False
        return True

    def _record_migration(self, cursor: Any, migration: Migration) -> None:
        entry = {"number": migration.number, "name": migration.name, "now": int(time.time() * 1000)}
        self._execute(cursor, "RECORD", entry)

    def _says(self, cursor: Any, name: str, **values: Any) -> bool:
        return bool(cursor.execute(self._sql[name], values, prepare=False).fetchone()[0])

    def is_ready(self) -> bool:
        with self._pool.cursor() as cursor:
            return all(migration.optional for migration in self._pending(cursor))

    def migration_sql(self) -> str:
        def record(migration: Migration) -> str:
            name = migration.name.replace("'", "''")
            now = "(extract(epoch FROM pg_catalog.now()) * 1000)::bigint"
            entry = f"INSERT INTO {{migrations}} VALUES ({migration.number}, '{name}', {now}) ON CONFLICT DO NOTHING"
            return self._names.fill(entry)

        with self._pool.cursor() as cursor:
            missing = self._pending(cursor)
        shown = [m._replace(statements=[text.replace("%%", "%") for text in m.statements]) for m in missing]
        return as_script(shown, self._names.fill(sql.CREATE_LEDGER), record)

    def _pending(self, cursor: Any) -> list[Migration]:
        def holds(condition: str) -> bool:
            return bool(cursor.execute(condition, {}).fetchone()[0])

        ledger = quote(self._names.table + "__migrations")
        applied: set[int] = set()
        if cursor.execute(self._sql["HAS_LEDGER"], {"table": ledger}).fetchone()[0]:
            applied = {number for (number,) in cursor.execute(self._sql["APPLIED"], {})}
        if len(applied) == len(sql.MIGRATIONS):
            return []
        return pending(sql.MIGRATIONS, applied, self._fill, holds, in_use=self._says(cursor, "TABLE_EXISTS"))
