"""What the site needs besides the documents: links that lead out of ``docs`` become plain text.

In the repository such a link opens a source file. The site has no source files, and a link that leads nowhere would end
the strict build.
"""

from __future__ import annotations

import re
from typing import Any

_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>(?:\.\./)+[^)\s]*)\)")


def without_links_to_sources(markdown: str, depth: int) -> str:
    """The text of a page, ``depth`` folders below ``docs``, in which links that climb higher are their text alone.

    Example:
        >>> without_links_to_sources("see [the core](../../crates/x.rs), [b](../b.md)", 1)
        'see the core, [b](../b.md)'
    """

    def shortened(link: re.Match[str]) -> str:
        climbs = link["target"].count("../")
        return link["text"] if climbs > depth else link[0]

    return _LINK.sub(shortened, markdown)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Called by mkdocs for each page."""
    return without_links_to_sources(markdown, page.file.src_uri.count("/"))
