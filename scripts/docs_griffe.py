"""How the site reads docstrings.

``Example:`` is a section of code, as ``Examples:`` is to the tool. What the stub of the native module declares has the
documentation of the built module, which is written in Rust.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import griffe  # type: ignore[import-not-found, unused-ignore]

NATIVE = "drainq._native"


class ExampleSections(griffe.Extension):  # type: ignore[misc, unused-ignore]
    """Renames the sections before the tool parses them."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Called for each object that was found."""
        if obj.docstring is None and obj.path.startswith(f"{NATIVE}."):
            text = native_documentation(obj.path.removeprefix(f"{NATIVE}."))
            obj.docstring = griffe.Docstring(text, parent=obj) if text else None
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"(?m)^( *)Example:$", r"\1Examples:", obj.docstring.value)


def native_documentation(path: str) -> str:
    """The docstring of a class, a function or a member of the native module, by its path; "" if there is none."""
    thing: Any = importlib.import_module(NATIVE)
    for name in path.split("."):
        thing = inspect.getattr_static(thing, name, None)
    own = getattr(thing, "__doc__", None) if thing is not None else None
    return inspect.cleandoc(own) if isinstance(own, str) and not path.rpartition(".")[2].startswith("_") else ""
