"""ARCHITECTURE.md names the files as they are."""

from __future__ import annotations

import re

from .project import ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
NAMED = re.compile(r"`((?:crates|python|tests|scripts|benches)/[\w./-]+)`")


def test_every_file_that_the_page_names_exists():
    named = NAMED.findall(PAGE)
    assert len(named) > 50
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_room_of_the_package_is_on_the_page():
    rooms = [path for path in (ROOT / "python" / "drainq").iterdir() if (path / "__init__.py").exists()]
    assert len(rooms) >= 5
    assert [room.name for room in rooms if f"`python/drainq/{room.name}`" not in PAGE] == []


def test_each_walk_has_as_many_files_as_its_heading_says():
    walks = PAGE.partition("\n## Walks")[2].partition("## Where to add")[0].split("\n### ")[1:]
    assert len(walks) == 5
    for walk in walks:
        steps = re.findall(r"^\| `([^`]+)` \|", walk, re.MULTILINE)
        assert len(set(steps)) == len(steps) > 6
        assert f"({len(steps)} files)" in walk.partition("\n")[0]
