"""The plan of a scheduler's step: the sources with their accounts, and the strategy that names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drainq.sources.scheduler_delivery import Account
from drainq.sources.scheduler_strategy import Strategy


@dataclass(frozen=True)
class StepPlan:
    """Sources and strategy. Each of the strategy's ``names`` has an account (see :func:`checked_plan`)."""

    accounts: Mapping[str, Account]
    strategy: Strategy
    names: tuple[str, ...]


def checked_plan(accounts: Mapping[str, Account], strategy: Strategy, names: tuple[str, ...]) -> StepPlan:
    """Return a plan, after a check.

    Raises:
        ValueError: the strategy names an unknown source.
    """
    unknown = [name for name in names if name not in accounts]
    if unknown:
        raise ValueError(f"{strategy!r} names {unknown[0]!r}, but the sources are {sorted(accounts)!r}")
    return StepPlan(accounts, strategy, names)


def source_name(name: Any) -> str:
    """Check the name of a source, and return it."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a source must be a str, got {name!r}")
    return name


def names_of(strategy: Any) -> tuple[str, ...]:
    """Check a strategy, and return the names of its sources."""
    if not isinstance(strategy, Strategy):
        raise TypeError(f"strategy must be Fair, Prefer, Weighted or an object like them, got {strategy!r}")
    return tuple(strategy.names())
