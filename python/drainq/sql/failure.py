"""The three meanings of a database's error; ``driver_errors.py`` says which error has which."""

from __future__ import annotations

import enum


class Failure(enum.Enum):
    """What a driver's error means for the caller."""

    PASSES = "passes"
    CANNOT_PASS = "cannot pass"
    DATA = "data"
