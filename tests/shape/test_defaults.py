"""The defaults and the constants of the package are those in ``defaults.txt``.

``python -m tests.shape.test_defaults`` writes that file anew: its diff is what a change means to users.
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

from drainq import Backoff, __version__

from .project import loaded_modules

TRANSCRIPT = Path(__file__).with_name("defaults.txt")
LONGEST = 100
"""A longer constant, such as a statement in SQL, has tests of its own."""


def shown(value: Any) -> str:
    """Return a value as it is written in a program; what is long or has an address is shown by its kind."""
    value = value.value if isinstance(value, enum.Enum) else getattr(value, "pattern", value)
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(shown, value)))}}}"
    text = getattr(value, "__qualname__", None) or ascii(value).replace(ascii(__version__), "__version__")
    return text if len(text) <= LONGEST and " at 0x" not in text else f"a {type(value).__name__}"


def constants(scope: Any, body: list[ast.stmt]) -> Iterator[str]:
    """Yield what a module or a class assigns to names of its own, short, and the same on every machine.

    Not a dict that begins empty: other tests may have filled it.
    """
    for statement in body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and not isinstance(statement.value, ast.IfExp):
            if isinstance(statement.value, ast.Dict) and not statement.value.keys:
                continue
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for name in [target.id for target in targets if isinstance(target, ast.Name)]:
                value = vars(scope).get(name)
                text = shown(value) if isinstance(value, PLAIN) and name != "__slots__" else ""
                if text not in ("", "{}", f"a {type(value).__name__}") and not re.search(
                    "<(class|lambda)|DataType", text
                ):
                    yield f"{name}={text}"


PLAIN = (bool, int, float, str, bytes, tuple, frozenset, dict, re.Pattern, enum.Enum, Backoff)


def defaults(scope: Any) -> Iterator[str]:
    """Yield each function of a module, or method of a class, with the parameters that have a default; no twin."""
    for name, member in vars(scope).items():
        function = inspect.unwrap(getattr(member, "__func__", member))
        if inspect.isfunction(function) and function.__module__ == getattr(scope, "__module__", scope.__name__):
            own = [each for each in inspect.signature(function).parameters.values() if each.default is not each.empty]
            if own and not name.endswith("_async"):
                yield f"{name}({', '.join(f'{each.name}={shown(each.default)}' for each in own)})"


def transcript() -> Iterator[str]:
    """Yield a line for each module and class that has any."""
    for name, module in loaded_modules().items():
        body = ast.parse(inspect.getsource(module)).body
        classes = [(getattr(module, part.name), part.body) for part in body if isinstance(part, ast.ClassDef)]
        for scope, inner in [(module, body), *classes]:
            aside = "__dataclass_fields__" in vars(scope) or name.endswith("_sql")  # fields are parameters of __init__
            if parts := [*([] if aside else constants(scope, inner)), *defaults(scope)]:
                yield f"{name}{'' if scope is module else f'.{scope.__name__}'}: {'; '.join(parts)}"


def parts(lines: Iterable[str], known: Container[str]) -> set[str]:
    """Split lines into one for each constant and function, of the modules that are known."""
    rows = (line.split(": ", 1) for line in lines)
    own = ((scope, told) for scope, told in rows if scope in known or scope.rpartition(".")[0] in known)
    return {f"{scope} {part}" for scope, told in own for part in told.split("; ")}


def test_no_default_and_no_constant_has_changed_unnoticed() -> None:
    known = loaded_modules()  # not those whose optional dependencies are missing here
    now, before = parts(transcript(), known), parts(TRANSCRIPT.read_text(encoding="utf-8").splitlines(), known)
    told = sorted([f"{part}  (now)" for part in now - before] + [f"{part}  (before)" for part in before - now])
    assert not told, "\n".join(["these have changed; if that is meant, run python -m tests.shape.test_defaults", *told])


if __name__ == "__main__":
    TRANSCRIPT.write_text("\n".join(transcript()) + "\n", encoding="utf-8")
