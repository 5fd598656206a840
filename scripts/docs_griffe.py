"""The extension by which the site reads docstrings.

1. ``Example:`` becomes ``Examples:``, which griffe reads as code, and each section gets the empty line that it needs.
2. A name in a role, such as ``:class:`BatchQueue```, is shown as code.
3. The names in the stub of the native module get the docstrings of the built module, which are written in Rust.
4. Names that share a line of a section, such as ``since, until: ...``, get a line each.
5. The arguments of a native class have the types and defaults that its ``__new__`` has in the stub, and those of a
   dataclass or ``msgspec.Struct`` are its fields, although type checkers see another ``__init__``.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import griffe  # type: ignore[import-not-found, unused-ignore]

NATIVE = "drainq._native"
QUIET: Any = {"warnings": False, "returns_multiple_items": False}  # as mkdocs.yml says for the other docstrings
_EXAMPLE = re.compile(r"(?m)^( *)Example:$")
_SECTION = re.compile(r"(?m)(?<=\S)\n(?= *(?:Args|Attributes|Examples|Raises|Returns|Yields):$)")
_GROUP = re.compile(r"(?m)^( +)(\w[\w.]*(?:, \w[\w.]*)+)(: .*\n?(?:\1 +\S.*\n?)*)")
_ROLE = re.compile(r":(?:class|meth|func|attr|mod|exc|data|obj):`~?([^`]+)`")


class ExampleSections(griffe.Extension):  # type: ignore[misc, unused-ignore]
    """Renames the sections before the tool parses them."""

    def __init__(self) -> None:
        super().__init__()
        self._structs: dict[str, list[Any]] = {"msgspec.Struct": []}  # the fields of each class of this kind

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of an object. griffe calls this for each object that it finds."""
        if obj.docstring is None and obj.path.startswith(f"{NATIVE}."):
            text = native_documentation(obj.path.removeprefix(f"{NATIVE}."))
            obj.docstring = griffe.Docstring(text, parent=obj, parser="google", parser_options=QUIET) if text else None
        if obj.docstring is not None:
            obj.docstring.value = read_by_the_tool(obj.docstring.value)

    def on_class_members(self, *, cls: Any, **_: Any) -> None:
        """Give a class the ``__init__`` from which griffe reads its arguments. griffe calls this for each class."""
        if "__init__" in cls.members and not cls.members["__init__"].runtime:
            del cls.members["__init__"]  # for type checkers alone: griffe makes an __init__ from the fields
        if cls.path.startswith(f"{NATIVE}.") and "__init__" not in cls.members:
            for new in [*cls.overloads.get("__new__", []), cls.members.get("__new__")]:
                if new is not None:
                    cls.members["__init__"] = new
        base = next((base.canonical_path for base in cls.bases if base.canonical_path in self._structs), None)
        if base is not None:
            own = [member for member in cls.members.values() if is_field(member)]
            made = [griffe.Parameter(field.name, annotation=field.annotation, default=field.value) for field in own]
            fields = self._structs[cls.path] = [*self._structs[base], *made]
            cls.members["__init__"] = griffe.Function("__init__", parameters=griffe.Parameters(*fields), parent=cls)


def is_field(member: Any) -> bool:
    """Return whether a member of a class is declared with a type, as a field is."""
    return bool(member.is_attribute and member.annotation is not None and "property" not in member.labels)


def read_by_the_tool(text: str) -> str:
    """Return a docstring as the tool understands it.

    >>> read_by_the_tool("Args:\\n    n: of :class:`Hit`.\\nReturns:\\n    True.")
    'Args:\\n    n: of `Hit`.\\n\\nReturns:\\n    True.'
    """

    def for_each_name(group: re.Match[str]) -> str:
        return "\n".join(f"{group[1]}{name}{group[3].rstrip()}" for name in group[2].split(", ")) + "\n"

    text = _GROUP.sub(for_each_name, text)
    return _ROLE.sub(r"`\1`", _SECTION.sub("\n\n", _EXAMPLE.sub(r"\1Examples:", text)))


def native_documentation(path: str) -> str:
    """Return the docstring of a class, a function or a member of the native module by its path, or ""."""
    thing: Any = importlib.import_module(NATIVE)
    for name in path.split("."):
        thing = inspect.getattr_static(thing, name, None)
        thing = getattr(thing, "__func__", thing)  # of a static method
    own = getattr(thing, "__doc__", None) if thing is not None else None
    return inspect.cleandoc(own) if isinstance(own, str) and not path.rpartition(".")[2].startswith("_") else ""
