"""A source file holds one idea and is short, and a room holds no more code than its ceiling.

Code is counted by line, without comments, documentation and blank lines. ``make test ARGS='-k room_is_no_larger -s'``
prints the count by room. A ceiling is lowered when a room shrinks. The message of a commit that raises one argues why.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

from .documents import name
from .project import ROOT

MOST_LINES = 420
"""About 400: a file that grows beyond is split by what its parts are for."""

CORE, BINDING, PACKAGE = "crates/drainq-core/src", "crates/drainq-py/src", "python/drainq"

CEILINGS = {
    "core: batch queue": (4_223, [CORE]),
    "core: multi-queue": (1_502, [f"{CORE}/multi"]),
    "set queue": (1_225, [f"{CORE}/sources", f"{BINDING}/sources"]),
    "columns": (1_566, [f"{CORE}/access_log", f"{BINDING}/columns", f"{PACKAGE}/columns"]),
    "sketch": (932, [f"{CORE}/sketch", f"{BINDING}/sketch"]),
    "binding: base": (981, [BINDING]),
    "binding: batch queue": (3_487, [f"{BINDING}/batch"]),
    "batch queue's settings": (314, [f"{PACKAGE}/batch_config", f"{PACKAGE}/size_policies"]),
    "binding: multi-queue": (1_223, [f"{BINDING}/multi"]),
    "binding: waiting": (709, [f"{BINDING}/waiting"]),
    "monitoring": (1_191, [f"{BINDING}/monitoring", f"{PACKAGE}/monitoring"]),
    "sources": (1_837, [f"{PACKAGE}/sources"]),
    "sql": (1_085, [f"{PACKAGE}/sql"]),
    "delayed queue": (4_265, [f"{PACKAGE}/delayed"]),
    "delayed queue: storage": (3_520, [f"{PACKAGE}/delayed/storage"]),
    "delivery and workers": (3_117, [f"{PACKAGE}/delivery", f"{PACKAGE}/workers"]),
    "exporters": (2_020, [f"{PACKAGE}/export"]),
    "Spark": (2_066, [f"{PACKAGE}/spark", f"{PACKAGE}/datasource"]),
    "metrics application": (3_563, [f"{PACKAGE}/metrics"]),
    "commands, kit, stub and what all share": (2_246, [PACKAGE]),
}
"""For each room the lines of code that it may have, and its folders; a file belongs to the longest folder that fits."""

SOURCES = sorted(
    path
    for folder, ending in (("python", "py"), ("benches", "py"), ("scripts", "py"), ("examples", "py"), ("crates", "rs"))
    for path in (ROOT / folder).rglob(f"*.{ending}")
    if "target" not in path.parts
)
_TESTS = re.compile(r"\n#\[cfg\([^\n]*\btest\b[^\n]*\)\]\n(?:#\[[^\n]*\n)*(?:pub(?:\([^)]*\))? )?mod \w+ \{")
_SPACE = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT}


def code_lines(path: str, text: str) -> int:
    """Return how many lines of a source file hold code; tests at the end of a Rust file are none of the product's."""
    if path.endswith(".rs"):
        product = _TESTS.split(text, maxsplit=1)[0]
        return sum(bool(line.strip()) and not line.strip().startswith("//") for line in product.splitlines())
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SPACE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def is_product(path: str) -> bool:
    """Return whether a tracked file is code of the product."""
    within = path.startswith((f"{CORE}/", f"{BINDING}/", f"{PACKAGE}/")) and path.endswith((".rs", ".py", ".pyi"))
    return within and "/models/" not in path and not Path(path).stem.endswith(("tests", "models"))


def room_of(path: str) -> str | None:
    """Return the room that a file belongs to."""
    fitting = [
        (len(at), room)
        for room, (_, places) in CEILINGS.items()
        for at in places
        if path.startswith((f"{at}/", f"{at}."))
    ]
    return max(fitting)[1] if fitting else None


def test_the_search_finds_the_sources():
    assert len(SOURCES) > 250
    assert code_lines("a.py", '"""What."""\n\n# why\nx = """\ny"""\n') == 2
    assert code_lines("a.rs", "//! What.\n\nfn a() {}\n#[cfg(test)]\nmod tests {\n}\n") == 1


def test_each_source_file_is_short():
    lines = {name(source): source.read_text(encoding="utf-8").count("\n") for source in SOURCES}
    assert {source: count for source, count in lines.items() if count > MOST_LINES} == {}


def test_each_room_is_no_larger_than_its_ceiling():
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout: git names the files of the rooms")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    counts, homeless = dict.fromkeys(CEILINGS, 0), []
    for path in filter(is_product, tracked.split("\0")):
        room = room_of(path)
        if room is None:
            homeless.append(path)
        elif (ROOT / path).exists():
            counts[room] += code_lines(path, (ROOT / path).read_text(encoding="utf-8"))
    for room, count in counts.items():
        print(f"{count:6,} of {CEILINGS[room][0]:6,}  {room}")
    print(f"{sum(counts.values()):6,} lines of code in all")
    assert homeless == []
    assert {room: count for room, count in counts.items() if count > CEILINGS[room][0]} == {}
