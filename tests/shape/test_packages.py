"""The packages: what the workflows use is pinned, what they need is there, and what is released says one version."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from .project import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
USED = [
    (path.name, used)
    for path in WORKFLOWS
    for used in re.findall(r"uses: (\S+)", path.read_text())
    if not used.startswith("./")
]


def test_each_action_is_pinned_to_a_commit_and_its_version_is_said():
    assert {"ci.yml", "wheels.yml", "release.yml"} <= {path.name for path in WORKFLOWS}
    assert len(USED) > 15
    assert [use for use in USED if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", use[1])] == []
    for path in WORKFLOWS:
        for line in path.read_text().splitlines():
            assert "uses: ./" in line or "uses:" not in line or re.search(r" # v\d+\.\d+\.\d+$", line), line


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_each_job_has_a_time_out_and_no_checkout_keeps_credentials(path):
    text = path.read_text()
    assert text.count("runs-on:") == text.count("timeout-minutes:")
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")


def test_a_release_needs_a_section_in_the_changelog():
    version = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert f"## {version[1]} " in (ROOT / "CHANGELOG.md").read_text()


def test_the_wheel_is_stripped_and_holds_no_paths_of_the_builder():
    settings = (ROOT / "pyproject.toml").read_text()
    assert "\nstrip = true\n" in settings
    assert "sbom = { rust = false, auditwheel = false }" in settings


def test_the_smoke_test_of_a_wheel_refuses_what_is_no_wheel(tmp_path):
    script = ROOT / "scripts" / "wheel_smoke.py"
    ran = subprocess.run([sys.executable, script, "nope.whl"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "name one wheel that exists" in ran.stderr


def test_the_site_has_every_document():
    listed = set(re.findall(r"^\s+- (?:[^:\n]+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert len(listed) > 40
    assert (listed - there, there - listed) == (set(), set())
