"""Numbered migrations: which are there, which are missing, what they would run.

Each back end lists its migrations in its statements file and applies them under a lock, so that many processes may
open one database at once. The numbers that were applied are written down in ``{table}__migrations``.

1. A step that a queue cannot do without is applied in one transaction with all other such steps.
2. An index on a table that is in use is *built apart*: outside a transaction and without locking out writers, one step
   for each. A queue works without it, more slowly; so if it cannot be built now it stays pending, until the next time.
3. An index that only some tables need stays pending until one does, for every index makes every write dearer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Index(NamedTuple):
    """An index that is built apart if its table is in use; a new table gets it at once.

    ``token`` stands for its name in ``statement``; ``condition``: it is only wanted where this statement says true;
    ``later``: that may become so, and is asked only when every table is there.
    """

    token: str
    statement: str
    condition: str | None = None
    later: bool = False

    @property
    def apart(self) -> str:
        """The statement that locks no writers out."""
        return self.statement.replace("CREATE INDEX ", "CREATE INDEX CONCURRENTLY ", 1)


class Migration(NamedTuple):
    """One step: its number, its name, its statements with the names filled in; ``apart`` if it is built apart.

    ``optional``: a queue works without it.
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
    """The migrations of a back end that are not yet applied.

    Args:
        listed: each a name and its statements; an :class:`Index` stands alone in its migration.
        applied: the numbers that are applied.
        fill: puts the names into a statement.
        holds: asks the database a condition.
        in_use: whether the table is there already, so that its indexes are built apart.
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
    """The migrations as one SQL script, the empty text if there are none."""
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
