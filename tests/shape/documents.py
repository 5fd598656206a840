"""The documents, their code and their links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .project import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)#\s]+)[^)]*\)")


@dataclass(frozen=True)
class Block:
    """One fenced piece of a document; ``line`` is where its code starts, counted from 1."""

    language: str
    code: str
    line: int


def blocks(document: Path) -> list[Block]:
    text = document.read_text()
    return [
        Block(found["language"], found["code"], text.count("\n", 0, found.start("code")) + 1)
        for found in FENCE.finditer(text)
    ]


def files(document: Path) -> dict[str, str]:
    """Return the document's blocks that begin with the name of a file, by name."""
    found = [(block.code.partition("\n")[0], block.code) for block in blocks(document) if block.language == "python"]
    return {first[2:]: code for first, code in found if re.fullmatch(r"# \w+\.py", first)}


def program(document: Path) -> str:
    """Return the document's code, as one program whose line numbers are the document's."""
    lines: list[str] = []
    for block in blocks(document):
        if block.language == "python":
            lines += [""] * (block.line - 1 - len(lines)) + block.code.splitlines()
    return "\n".join(lines)


def name(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()
