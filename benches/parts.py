"""A benchmark that takes longer than a machine stays quiet is run in parts, each a call of its own.

1. A part is one or more whole rounds of figures, or whole figures: what is compared is still measured in turns, within
   one call.
2. Parts of one commit, without changes, go together. A part that is measured again replaces its last measurement.
3. A page is written once all parts are there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benches.runs import Figure, figure_of

FOLDER = Path(__file__).resolve().parent.parent / "target" / "benchmarks" / "parts"

Measured = Mapping[str, Mapping[str, Sequence[float]]]
"""The costs of each round, by figure and contestant."""


class Parts:
    """The parts of a benchmark that were measured.

    Args:
        title: of the benchmark.
        names: of all parts, in order.
        machine: what :func:`benches.protocol.machine` says; parts are kept for its commit, if it has no changes.
        folder: where they are kept.
    """

    def __init__(self, title: str, names: Sequence[str], machine: Mapping[str, Any], folder: Path = FOLDER) -> None:
        self._names, self._load = list(names), machine["load_before"]
        self._folder = folder / f"{title}-{machine['commit']}" if machine["clean"] else None
        self._here: dict[str, dict[str, Any]] = {}

    def keep(self, name: str, measured: Measured) -> None:
        """Keep a part of rounds."""
        self._keep(name, {"measured": {figure: dict(costs) for figure, costs in measured.items()}})

    def keep_figures(self, name: str, figures: Sequence[Figure]) -> None:
        """Keep a part of whole figures."""
        self._keep(name, {"figures": [asdict(figure) for figure in figures]})

    def _keep(self, name: str, content: dict[str, Any]) -> None:
        part = {"load_before": self._load, **content}
        self._here[name] = part
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / f"{name}.json").write_text(json.dumps(part), encoding="utf-8")

    def missing(self) -> list[str]:
        """Return the parts that were measured neither here nor earlier."""
        return [name for name in self._names if self._part(name) is None]

    def costs(self) -> dict[str, dict[str, list[float]]]:
        """Return the costs of all measured parts, with their rounds joined."""
        together: dict[str, dict[str, list[float]]] = {}
        for name in self._names:
            for figure, costs in (self._part(name) or {"measured": {}})["measured"].items():
                for contestant, rounds in costs.items():
                    together.setdefault(figure, {}).setdefault(contestant, []).extend(rounds)
        return together

    def figures(self) -> list[Figure]:
        """Return the figures of all measured parts, in the order of the parts."""
        kept = [part for name in self._names if (part := self._part(name)) is not None]
        return [figure_of(figure) for part in kept for figure in part["figures"]]

    def load_before(self) -> float | None:
        """Return the highest load at the beginning of a part."""
        loads = [part["load_before"] for name in self._names if (part := self._part(name)) and part["load_before"]]
        return max(loads, default=None)

    def _part(self, name: str) -> dict[str, Any] | None:
        path = None if self._folder is None else self._folder / f"{name}.json"
        if name not in self._here and path is not None and path.is_file():
            self._here[name] = json.loads(path.read_text(encoding="utf-8"))
        return self._here.get(name)
