"""Numbered migrations: which are there, which are missing, what they would run.

Each back end lists its migrations in its statements file and applies them under a lock, so that many processes may
open one database at once. The numbers that were applied are written down in ``{table}__migrations``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Migration(NamedTuple):
    """One step: its number, its name, its statements with the names filled in."""

    number: int
    name: str
    statements: list[str]


def pending(
    listed: Iterable[tuple[Any, ...]],
    applied: set[int],
    fill: Callable[[str], str],
    holds: Callable[[str], bool] = lambda condition: True,
) -> list[Migration]:
    """The migrations of a back end that are not yet applied.

    Args:
        listed: each a name and its statements; of a pair of statements the second runs if the first says true.
        applied: the numbers that are applied.
        fill: puts the names into a statement.
        holds: asks the database a condition.
    """
    missing = []
    for number, (name, *statements) in enumerate(listed, start=1):
        if number in applied:
            continue
        wanted = []
        for statement in statements:
            if isinstance(statement, tuple):
                condition, statement = statement
                if not holds(fill(condition)):
                    continue
            wanted.append(fill(statement))
        missing.append(Migration(number, name, wanted))
    return missing


def as_script(missing: list[Migration], create_ledger: str, record: Callable[[Migration], str]) -> str:
    """The migrations as one SQL script, the empty text if there are none."""
    if not missing:
        return ""
    parts = ["BEGIN;", f"{create_ledger.strip()};"]
    for migration in missing:
        parts.append(f"-- {migration.number}. {migration.name}")
        parts.extend(f"{statement.strip()};" for statement in migration.statements)
        parts.append(f"{record(migration).strip()};")
    parts.append("COMMIT;")
    return "\n".join(parts) + "\n"
