"""The rooms of text mutants, by the name that the command line knows."""

from __future__ import annotations

from .mutant import Mutant
from .native import MUTANTS as NATIVE
from .packages import MUTANTS as PACKAGES

ROOMS: dict[str, list[Mutant]] = {"native": NATIVE, "packages": PACKAGES}
