"""A source file holds one idea, and is short enough to be read in one sitting."""

from __future__ import annotations

from .documents import name
from .project import ROOT

MOST_LINES = 420
"""About 400: a file that grows beyond is split by what its parts are for."""

SOURCES = sorted(
    path
    for folder, ending in (("python", "py"), ("benches", "py"), ("scripts", "py"), ("examples", "py"), ("crates", "rs"))
    for path in (ROOT / folder).rglob(f"*.{ending}")
    if "target" not in path.parts
)


def test_the_search_finds_the_sources():
    assert len(SOURCES) > 250


def test_each_source_file_is_short():
    lines = {name(source): source.read_text(encoding="utf-8").count("\n") for source in SOURCES}
    assert {source: count for source, count in lines.items() if count > MOST_LINES} == {}
