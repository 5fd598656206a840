"""How the site reads docstrings: ``Example:`` is a section of code, as ``Examples:`` is to the tool."""

from __future__ import annotations

import re
from typing import Any

import griffe  # type: ignore[import-not-found, unused-ignore]


class ExampleSections(griffe.Extension):  # type: ignore[misc, unused-ignore]
    """Renames the sections before the tool parses them."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Called for each object that was found."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"(?m)^( *)Example:$", r"\1Examples:", obj.docstring.value)
