"""The hooks of mkdocs: changes and checks of the pages when the site is built.

1. Links that lead out of ``docs`` become plain text. In the repository such a link opens a source file. The site has no
   source files, and a link that leads nowhere would end the strict build.
2. The search, a dialog, gets a name for screen readers, which the theme leaves out.
3. A page of figures shows those of the last published run, or says that there is none. The index page has a chart.
4. The build ends at a reference page that lacks a public name of its module, has a name without a text, or shows a
   section of a docstring as prose.
5. The title has the version. The header links to the repository if pyproject.toml names it.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
_MODULE = re.compile(r"(?m)^::: (\S+)$")
_EMPTY = re.compile(r'id="(drainq[^"]*)"(?:(?!id="drainq).)*?<div class="doc doc-contents[^"]*">\s*</div>', re.DOTALL)
_PROSE = re.compile(r"<p>((?:Args|Returns|Raises|Examples?):.*)")
_FIGURES = re.compile(r"<!-- figures -->.*?<!-- end of the figures -->", re.DOTALL)
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>(?:\.\./)+[^)\s]*)\)")


def without_links_to_sources(markdown: str, depth: int) -> str:
    """Return the text of a page, ``depth`` folders below ``docs``, without the links that leave ``docs``.

    Example:
        >>> without_links_to_sources("see [the core](../../crates/x.rs), [b](../b.md)", 1)
        'see the core, [b](../b.md)'
    """

    def shortened(link: re.Match[str]) -> str:
        climbs = link["target"].count("../")
        return link["text"] if climbs > depth else link[0]

    return _LINK.sub(shortened, markdown)


def on_config(config: Any) -> Any:
    """Add the version and the repository to the configuration. mkdocs calls this once."""
    found = re.search(r'(?m)^version = "([^"]+)"', (_ROOT / "Cargo.toml").read_text())
    assert found is not None, "Cargo.toml has the version of the workspace"
    config.site_name = f"{config.site_name} {found[1]}"
    repository = re.search(r'(?mi)^(?:source|repository) = "([^"]+)"', (_ROOT / "pyproject.toml").read_text())
    if repository is not None:
        config.repo_url = repository[1]
    return config


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Change the text of a page. mkdocs calls this for each page."""
    if page.file.src_uri.startswith("benchmarks/"):
        markdown = with_figures(markdown, Path(page.file.src_uri).stem)
    return without_links_to_sources(markdown, page.file.src_uri.count("/"))


def with_figures(markdown: str, title: str) -> str:
    """Add the figures of the last published run to the text of a page of figures."""
    if str(_ROOT) not in sys.path:
        sys.path.insert(0, str(_ROOT))
    from benches import chart, pages, runs

    if title == "index":
        return chart.with_chart(markdown, map(runs.read, pages.RESULTS.glob("*.json")))
    results = pages.RESULTS / f"{title}.json"
    if not results.exists():
        return _FIGURES.sub("No run has been published yet.", markdown)
    return pages.rendered(markdown, runs.read(results))


def missing_names(html: str, modules: list[str]) -> list[str]:
    """Return the public names of these modules that a page does not explain.

    Example:
        >>> missing_names('<h3 id="drainq.columns.GroupBy">', ["drainq.columns"])[:2]
        ['drainq.columns.TooManyGroups', 'drainq.columns.parse_access_log']
    """
    public = (
        (module, name)
        for module in modules
        for name in getattr(importlib.import_module(module), "__all__", ())
        if not name.startswith("_")
    )
    there = set(re.findall(r'id="([^"]+)"', html))
    # A function that has the name of its module stands under both.
    missing = [f"{at}.{name}" for at, name in public if not {f"{at}.{name}", f"{at}.{name}.{name}"} & there]
    return missing + _EMPTY.findall(html)


def on_page_content(html: str, *, page: Any, **_: Any) -> None:
    """Check a reference page. mkdocs calls this for each page after its conversion to HTML."""
    modules = [name for name in _MODULE.findall(page.markdown or "") if name.count(".") < 2]
    missing = missing_names(html, modules)
    if missing:
        raise ValueError(f"{page.file.src_uri} explains nothing of {', '.join(missing)}")
    if modules and (prose := _PROSE.findall(html)):
        raise ValueError(f"{page.file.src_uri} shows sections as prose: {', '.join(prose)}")


def on_post_page(output: str, **_: Any) -> str:
    """Name the search dialog. mkdocs calls this for each complete page."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')
