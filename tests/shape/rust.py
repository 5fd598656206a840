"""The imports between Rust files, read from the sources as text.

Counted are paths that begin with ``crate::``, ``super::`` or ``self::``, in ``use`` and in code, and paths in a ``use``
that begin with the name of a child. A name that a folder's
``mod.rs`` hands on (``pub use child::Name``) counts as taken from the child. ``mod.rs`` itself takes nothing by
declaring or handing on its children, and tests at the end of a file are left out. Of two files for one module that of a
CPython with a GIL counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_PATH = re.compile(r"(?<![\w:])(?:crate|super|self)(?:::\w+)+(?:::\{)?")
_ELSEWHERE = re.compile(r'not\(Py_GIL_DISABLED\), path = "([^"]+)"\)\]\n(?:#.*\n)*(?:pub )?mod (\w+);')
_HANDED_ON = re.compile(r"^\s*pub(?:\([^)]*\))? use\s", re.MULTILINE)


@dataclass(frozen=True)
class Arrow:
    """``taker`` names ``name`` of ``giver``; both are files, relative to the crate's ``src``."""

    taker: str
    giver: str
    name: str


class Crate:
    """The modules of one crate, by path: ``("batch", "queue")`` is ``batch/queue.rs``."""

    def __init__(self, src: Path) -> None:
        self.src = src

    @cached_property
    def modules(self) -> dict[tuple[str, ...], Path]:
        found = {}
        for path in sorted(self.src.rglob("*.rs")):
            parts = path.relative_to(self.src).with_suffix("").parts
            module = parts[:-1] if parts[-1] in ("mod", "lib") else parts
            found[module] = path
            found |= {(*module, name): path.parent / file for file, name in _ELSEWHERE.findall(path.read_text())}
        return found

    @cached_property
    def handed_on(self) -> dict[tuple[str, ...], dict[str, tuple[str, ...]]]:
        """For each module the names that it re-exports, with the paths they come from."""
        found: dict[tuple[str, ...], dict[str, tuple[str, ...]]] = {}
        for module, path in self.modules.items():
            names = found.setdefault(module, {})
            for tree in _uses(code(path), handed_on=True):
                for whole in _expand(tree):
                    start = self._absolute(module, whole)
                    if whole[0] not in ("crate", "super", "self") and (*module, whole[0]) in self.modules:
                        start = (*module, *whole)
                    names[whole[-1]] = start
        return found

    def arrows(self, *, children: bool = True) -> set[Arrow]:
        """Return the arrows from each file of this crate to its other files; ``children``: also ``use child::Name``."""
        found = set()
        for module, path in self.modules.items():
            text = code(path)
            for whole in [
                *_inline_paths(text),
                *(path for tree in _uses(text, handed_on=False) for path in _expand(tree)),
            ]:
                if whole[0] in ("crate", "super", "self"):
                    giver, name = self._resolve(self._absolute(module, whole))
                elif children and (*module, whole[0]) in self.modules:
                    giver, name = self._resolve((*module, *whole))
                else:
                    continue
                if giver is not None and giver != path:
                    found.add(Arrow(self._file(path), self._file(giver), name))
        return found

    def _file(self, path: Path) -> str:
        return path.relative_to(self.src).as_posix()

    def _absolute(self, module: tuple[str, ...], whole: tuple[str, ...]) -> tuple[str, ...]:
        place, rest = list(module), list(whole)
        while rest and rest[0] in ("crate", "super", "self"):
            step = rest.pop(0)
            if step == "crate":
                place = []
            elif step == "super" and place:
                place.pop()
        return (*place, *rest)

    def _resolve(self, whole: tuple[str, ...], depth: int = 0) -> tuple[Path | None, str]:
        at = 0
        while at < len(whole) and whole[: at + 1] in self.modules:
            at += 1
        module, rest = whole[:at], whole[at:]
        if not rest:
            return self.modules.get(module), module[-1] if module else ""
        further = self.handed_on.get(module, {}).get(rest[0])
        if further is not None and depth < 8:
            return self._resolve((*further, *rest[1:]), depth + 1)
        return self.modules.get(module), rest[0]


def code(path: Path) -> str:
    """Return a file's text without comments and without its tests."""
    text = re.split(r"\n#\[cfg\((?:all\()?test\b[^\n]*\n(?:#\[[^\n]*\n)*mod \w+ \{", path.read_text())[0]
    return re.sub(r"//[^\n]*", "", text)


def _uses(text: str, *, handed_on: bool) -> Iterator[str]:
    for found in re.finditer(r"^\s*(pub(?:\([^)]*\))? )?use\s+([^;]+);", text, re.MULTILINE):
        if bool(found[1]) == handed_on:
            yield " ".join(found[2].split())


def _expand(tree: str) -> Iterator[tuple[str, ...]]:
    """Yield the single paths of a use tree such as ``a::{b, c::{d, e as f}}``."""
    head, brace, inner = tree.partition("{")
    if not brace:
        yield tuple(part.strip() for part in tree.split(" as ")[0].strip().split("::") if part.strip())
        return
    depth, start, body = 0, 0, inner.rsplit("}", 1)[0]
    for at, letter in enumerate(body + ","):
        if letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
        elif letter == "," and depth == 0:
            if piece := body[start:at].strip():
                for whole in _expand(head.strip() + piece):
                    yield whole[:-1] if whole[-1] == "self" and len(whole) > 1 else whole
            start = at + 1


def _inline_paths(text: str) -> Iterator[tuple[str, ...]]:
    for found in _PATH.finditer(re.sub(r"^\s*(?:pub(?:\([^)]*\))? )?use\s+[^;]+;", "", text, flags=re.MULTILINE)):
        yield tuple(found[0].split("::"))


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of files that reach each other (strongly connected, two or more), by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            group, stack[at:] = stack[at:], []
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found
