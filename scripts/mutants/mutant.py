"""A recorded mutant, and its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]

Death = Literal["fails", "hangs", "crashes"]


@dataclass(frozen=True)
class Mutant:
    """A fault in the text of one file, and the test that must notice it.

    Args:
        name: what the command line calls it; unique in all rooms.
        breaks: the promise that it breaks, as a sentence about the faulty program.
        file: the file, from the top of the project.
        old: the text that goes. It must occur exactly once in the file.
        new: the text that comes in its place.
        test: the pytest node that must die, from the top of the project; several, with blanks between them,
            if the promise has several sides: one must die.
        dies: how. "fails": a test fails. "hangs": it may also run until the limit. "crashes": it may also
            end the whole process.
    """

    name: str
    breaks: str
    file: str
    old: str
    new: str
    test: str
    dies: Death = "fails"

    @property
    def is_native(self) -> bool:
        """Whether the native module has to be built again."""
        return self.file.startswith("crates/")

    @property
    def tests(self) -> list[str]:
        """The nodes of `test`, one by one."""
        return self.test.split()


@dataclass(frozen=True)
class Verdict:
    """How one mutant ended: "killed" is the one good end."""

    name: str
    ended: str
    seconds: float
    note: str

    def __str__(self) -> str:
        word = self.ended if self.ended == "killed" else self.ended.upper()
        return f"  {word:9} {self.name:34} {self.seconds:5.1f} s  {self.note}"
