"""The packages: pinned actions, complete tools, and one version in the release."""

from __future__ import annotations

import importlib.util
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
    assert {"ci.yml", "nightly.yml", "wheels.yml", "release.yml"} <= {path.name for path in WORKFLOWS}
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


TAKEN_BY_MATURIN = {
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "NOTICE",
    "README.md",
    "THIRD-PARTY",
    "crates",
    "pyproject.toml",
    "python",
}


def test_the_source_package_has_every_file_of_the_repository():
    """Maturin takes its part by itself; braces in a pattern match nothing."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no checkout: git lists no files")
    patterns = re.findall(
        r'^  \{ path = "(.*)", format = "sdist" \},$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert [pattern for pattern in patterns if not re.fullmatch(r"[\w.-]+(/\*\*/\*)?", pattern)] == []
    assert {name.partition("/")[0] for name in listed.stdout.split()} - TAKEN_BY_MATURIN == {
        pattern.partition("/")[0] for pattern in patterns
    }


def test_the_wheel_has_the_licences_of_the_crates_in_it():
    locked = dict(
        re.findall(r'^name = "(.*)"\nversion = "(.*)"\nsource', (ROOT / "Cargo.lock").read_text(), re.MULTILINE)
    )
    text = (ROOT / "THIRD-PARTY").read_text()
    named = dict(re.findall(r"^([\w-]+) (\d+\.\d+\.\d+\S*)$", text, re.MULTILINE))
    assert {"pyo3", "memchr", "hashbrown", "parking_lot"} <= named.keys()
    assert {name: version for name, version in named.items() if locked.get(name) != version} == {}, (
        "scripts/third_party.py"
    )
    assert 'license-files = ["LICENSE", "NOTICE", "THIRD-PARTY"]' in (ROOT / "pyproject.toml").read_text()


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


def packaged():
    path = ROOT / "scripts" / "package_readme.py"
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location("package_readme", path))
    module.__spec__.loader.exec_module(module)
    return module


def test_the_packages_readme_has_absolute_links_to_what_is_there():
    repository = "https://example.org/owner/drainq"
    readme = packaged().with_absolute_links((ROOT / "README.md").read_text(), repository, "v1")
    links = re.findall(r"\]\(([^)]+)\)", readme)
    assert len(links) > 10 and [link for link in links if not link.startswith(("https://", "#"))] == []
    ours = [link.removeprefix(f"{repository}/blob/v1/") for link in links if link.startswith(repository)]
    assert len(ours) > 10 and [path for path in ours if not (ROOT / path.partition("#")[0]).exists()] == []


def test_the_packages_readme_says_how_to_install_it_from_the_index():
    readme = packaged().installed_from_the_index((ROOT / "README.md").read_text())
    assert "not on the package index" not in readme and "pip install drainq " in readme


def test_a_release_waits_for_all_tests_of_its_commit():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "uses: ./.github/workflows/ci.yml" in text
    assert text.count("needs: ci\n") == 2 and "needs: [python, crate]" in text


def test_every_package_is_built_with_the_addresses_of_its_repository():
    text = (ROOT / ".github" / "workflows" / "wheels.yml").read_text()
    builds = text.split("PyO3/maturin-action@")
    assert len(builds) == 8
    before = ["".join(builds[:at]).rpartition("actions/checkout@")[2] for at in range(1, len(builds))]
    assert all("scripts/package_readme.py" in steps for steps in before)
    changed = packaged().with_addresses((ROOT / "pyproject.toml").read_text(), "https://example.org/owner/drainq")
    assert changed.count("[project.urls]") == 1
    assert '\nSource = "https://example.org/owner/drainq"\n' in changed
