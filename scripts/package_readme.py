"""Makes the links of README.md absolute, for the page of the package index, which has no files beside the text.

Usage: ``python scripts/package_readme.py REPOSITORY COMMIT``, in the checkout that becomes a package: README.md gets
links to that commit and says how to install the package, and pyproject.toml gets the addresses of the project. The
repository's own README keeps relative links, which work in every clone and at every commit.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
_INSTALL = """```sh
python -m pip install drainq                          # for the main job: 'drainq[metrics]'
```"""
_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")


def with_absolute_links(markdown: str, repository: str, commit: str) -> str:
    """Replace each relative link by the address in the repository at a commit.

    Args:
        markdown: the text.
        repository: its address, such as ``https://github.com/owner/name``.
        commit: a commit or a tag.

    Example:
        >>> with_absolute_links("[a](docs/a.md#b), ![c](c.png), [d](https://d), [e](#e)", "https://x/y", "v1")
        '[a](https://x/y/blob/v1/docs/a.md#b), ![c](https://x/y/raw/v1/c.png), [d](https://d), [e](#e)'
    """

    def absolute(link: re.Match[str]) -> str:
        target = link["target"]
        if re.match(r"[a-z]+:|#", target):
            return link[0]
        kind = "raw" if link["picture"] else "blob"
        return f"{link['picture']}[{link['text']}]({repository}/{kind}/{commit}/{target})"

    return _LINK.sub(absolute, markdown)


def installed_from_the_index(markdown: str) -> str:
    """Replace the part of README.md on building from source by the command that installs from the index."""
    text, count = re.subn(r"<!-- from source -->.*<!-- end of from source -->", _INSTALL, markdown, flags=re.DOTALL)
    assert count == 1, "README.md marks the part on building from source"
    return text


def with_addresses(pyproject: str, repository: str) -> str:
    """Return the text of pyproject.toml with the addresses of the project before its table of extras."""
    urls = {"Source": "", "Documentation": "/blob/main/docs/index.md", "Changelog": "/blob/main/CHANGELOG.md"}
    table = "".join(f'{name} = "{repository}{path}"\n' for name, path in urls.items())
    before, extras, after = pyproject.partition("[project.optional-dependencies]")
    assert extras, "pyproject.toml has its extras after the project's own table"
    return f"{before}[project.urls]\n{table}\n{extras}{after}"


def main(repository: str, commit: str) -> None:
    """Rewrite both files of this checkout."""
    readme, pyproject = ROOT / "README.md", ROOT / "pyproject.toml"
    text = installed_from_the_index(readme.read_text(encoding="utf-8"))
    readme.write_text(with_absolute_links(text, repository, commit), encoding="utf-8")
    pyproject.write_text(with_addresses(pyproject.read_text(encoding="utf-8"), repository), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[1].startswith("https://"):
        raise SystemExit(f"name the repository, as https://..., and a commit, got {sys.argv[1:]}")
    main(*sys.argv[1:])
