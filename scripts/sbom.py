"""Print the software bill of materials of the native module: CycloneDX 1.5 as JSON, made from ``Cargo.lock``.

Only what is linked into the wheel's binary is listed, for any platform: cargo says which packages these are, and the
lock file has their checksums. The output has no path of the build machine.

Usage: ``python scripts/sbom.py > drainq.cdx.json`` (Python 3.11 or newer, for ``tomllib``).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).resolve().parent.parent
WHOLE = "drainq-py"
PLATFORMS = (
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
)
"""The platforms that there are wheels for."""


def bill(lock: dict[str, Any], built: set[tuple[str, str]]) -> dict[str, Any]:
    """Return the bill of the packages of a lock file whose name and version are in ``built``."""
    packages = {(package["name"], package["version"]): package for package in lock["package"]}
    [version] = [version for name, version in packages if name == WHOLE]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "library", "name": "drainq", "version": version}},
        "components": [_component(packages[key]) for key in sorted(built) if key[0] != WHOLE],
    }


def built_packages() -> set[tuple[str, str]]:
    """Return the name and the version of each package that is linked into a wheel's native module."""
    command = ["cargo", "tree", "--locked", "-p", WHOLE, "--edges", "normal", "--prefix", "none"]
    command += [word for platform in PLATFORMS for word in ("--target", platform)]
    lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return {(name, version.removeprefix("v")) for name, version, *_ in (line.split() for line in lines if line)}


def _component(package: dict[str, Any]) -> dict[str, Any]:
    name, version = package["name"], package["version"]
    component = {"type": "library", "name": name, "version": version, "purl": f"pkg:cargo/{name}@{version}"}
    if "checksum" in package:
        component["hashes"] = [{"alg": "SHA-256", "content": package["checksum"]}]
    return component


if __name__ == "__main__":
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    json.dump(bill(lock, built_packages()), sys.stdout, indent=2)
    print()
