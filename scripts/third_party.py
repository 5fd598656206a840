"""Write THIRD-PARTY: the licence texts of the crates that are linked into the native module.

    python scripts/third_party.py > THIRD-PARTY

The licence text of a crate is the first of ``FILES`` that the crate has. A text is printed once, with the copyright
lines of all crates that have it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from pathlib import Path

FILES = ("LICENSE-MIT", "LICENSE-MIT.md", "license-mit", "LICENSE", "LICENSE.md")
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-apple-darwin", "x86_64-pc-windows-msvc")


def run(*words: str) -> str:
    """Return what cargo prints."""
    return subprocess.run(["cargo", *words], capture_output=True, check=True, text=True).stdout


def linked() -> list[dict[str, str]]:
    """Return the packages of other people that the module is built of, on any platform of a wheel, by name."""
    tree = ("tree", "--package", "drainq-py", "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}")
    listed = "".join(run(*tree, "--target", target) for target in TARGETS)
    names = {tuple(line.split()[:2]) for line in listed.splitlines()}
    packages = json.loads(run("metadata", "--format-version", "1"))["packages"]
    mine = (package for package in packages if (package["name"], f"v{package['version']}") in names)
    return sorted((package for package in mine if package["source"]), key=lambda package: package["name"])


def main() -> None:
    """Print the file."""
    crates: dict[str, list[str]] = defaultdict(list)
    holders: dict[str, dict[str, None]] = defaultdict(dict)
    for package in linked():
        folder = Path(package["manifest_path"]).parent
        text = next((folder / name).read_text() for name in FILES if (folder / name).exists())
        mine = [line.strip() for line in text.splitlines() if re.match(r"\s*Copyright\b", line)]
        head = r"^\s*(Copyright\b.*|(The )?MIT License( \(MIT\))?|All rights reserved\.?)$"
        words = re.sub(head, "", text, flags=re.MULTILINE)
        licence = "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", words.strip()))
        crates[licence].append(f"{package['name']} {package['version']}")
        holders[licence].update(dict.fromkeys(mine))
    print("The native module of drainq contains these crates, each under the licence that follows it.")
    for licence, names in crates.items():
        print(f"\n{'-' * 80}\n" + "\n".join(names) + "\n\n" + "\n".join(holders[licence]) + f"\n\n{licence}")


if __name__ == "__main__":
    main()
