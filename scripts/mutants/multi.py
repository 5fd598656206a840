"""Faults in the binding of the multi-queue and of the set queue."""

from __future__ import annotations

from .mutant import Mutant

MUTANTS: list[Mutant] = []
