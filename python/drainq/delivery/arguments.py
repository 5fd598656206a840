"""Checks of what a worker is made with: each names the argument, shows its value and says what to pass."""

from __future__ import annotations

import math
from typing import Any


def check_callables(**arguments: Any) -> None:
    """Refuse, by name, an argument that is neither callable nor None.

    Raises:
        TypeError: there is one.
    """
    for name, value in arguments.items():
        if value is not None and not callable(value):
            raise TypeError(f"{name} must be a callable, got {value!r}")


def check_seconds(name: str, value: Any, *, none: bool = False) -> None:
    """Refuse what is no number of seconds from 0 on.

    Raises:
        TypeError, ValueError: with the name, the value and what to pass.
    """
    wanted = "a number of seconds or None" if none else "a number of seconds"
    if none and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be {wanted}, got {value!r}")
    if not value >= 0 or (math.isinf(value) and not none):
        raise ValueError(f"{name} must be at least 0 seconds{' or None' if none else ' and finite'}, got {value!r}")
