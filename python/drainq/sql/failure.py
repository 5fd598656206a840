"""Failure: the three kinds of a database's errors. ``driver_errors.py`` classifies the errors."""

from __future__ import annotations

import enum


class Failure(enum.Enum):
    """The meaning of a driver's error for the caller."""

    PASSES = "passes"
    CANNOT_PASS = "cannot pass"
    DATA = "data"
