"""Migrations: the numbered steps of a schema, which of them are pending, and their statements.

Each back end lists its migrations in its statements file and applies them under a lock, so that many processes may open
one database at once. The table ``{table}__migrations`` records the applied numbers.

1. All required steps are applied in one transaction.
2. An index on a table in use is *built apart*: in a step of its own, outside a transaction, without locking out
   writers. A queue works without the index, more slowly, so an index that cannot be built now stays pending.
3. An index that only some tables need stays pending until a table needs it, because every index makes writes slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Index(NamedTuple):
    """An index that is built apart if its table is in use. A new table gets it at once.

    ``token`` stands for its name in ``statement``. ``condition``: a statement that returns whether the index is needed.
    ``later``: it may be needed later; ``condition`` runs once all tables exist.
    """

    token: str
    statement: str
    condition: str | None = None
    later: bool = False

    @property
    def apart(self) -> str:
        """The statement that locks no writers out."""
        return self.statement.replace("INDEX ", "INDEX CONCURRENTLY ", 1)


class Migration(NamedTuple):
    """One step: its number, its name, and its statements with names filled in. ``apart``: its index, if
    that is built apart. ``optional``: a queue works without the step.
    """

    number: int
    name: str
    statements: list[str]
    apart: Index | None = None
    optional: bool = False


def pending(
    listed: Iterable[tuple[Any, ...]],
    applied: set[int],
    fill: Callable[[str], str],
    holds: Callable[[str], bool],
    *,
    in_use: bool = False,
) -> list[Migration]:
    """Return the migrations of a back end that are not applied yet.

    Args:
        listed: (name, statement, ...) tuples; an :class:`Index` has a migration of its own.
        applied: the applied numbers.
        fill: puts the names into a statement.
        holds: evaluates a condition in the database.
        in_use: whether the table exists, so that its indexes are built apart.
    """
    missing: list[Migration] = []
    for number, (name, *statements) in enumerate(listed, start=1):
        if number in applied:
            continue
        wanted, apart, waits = [], None, False
        for statement in statements:
            if isinstance(statement, Index):
                asked = not statement.later or all(before.apart is not None for before in missing)
                if statement.condition is not None and not (asked and holds(fill(statement.condition))):
                    waits = statement.later
                    continue
                apart = statement if in_use else None
                statement = statement.apart if in_use else statement.statement
            wanted.append(fill(statement))
        if not waits:
            optional = all(isinstance(statement, Index) for statement in statements)
            missing.append(Migration(number, name, wanted, apart, optional))
    return missing


def as_script(missing: list[Migration], create_ledger: str, record: Callable[[Migration], str]) -> str:
    """Return the migrations as one SQL script, or the empty text if there are none."""
    if not missing:
        return ""
    together = [migration for migration in missing if migration.apart is None]
    parts = ["BEGIN;", f"{create_ledger.strip()};"]
    for migration in [*together, None, *(migration for migration in missing if migration.apart is not None)]:
        if migration is None:
            parts.append("COMMIT;")
            continue
        parts.append(f"-- {migration.number}. {migration.name}")
        parts.extend(f"{statement.strip()};" for statement in migration.statements)
        parts.append(f"{record(migration).strip()};")
    return "\n".join(parts) + "\n"
