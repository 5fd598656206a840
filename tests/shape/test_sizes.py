"""A source file holds one idea, and is short enough to be read in one sitting."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize("source", SOURCES, ids=name)
def test_a_source_file_is_short(source):
    assert source.read_text(encoding="utf-8").count("\n") <= MOST_LINES
