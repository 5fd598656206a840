"""The table of a room: the name of each public callable, and the scenes in which it is called."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol


class Scene(Protocol):
    """The queues and books of one entry."""

    def end(self) -> None:
        """Compare the books with what the queues say."""
        ...


class Table:
    """Entries by the names of the callables that they call.

    Args:
        scene: makes a scene from a variant's settings.
        variants: the settings by name.
        unnamed: the variants in which an entry is played that names none; none of them: the entry is called as it is.
    """

    def __init__(
        self, scene: Callable[..., Scene], variants: Mapping[str, Mapping[str, Any]], unnamed: tuple[str, ...]
    ) -> None:
        self._scene = scene
        self._variants = variants
        self._unnamed = unnamed
        self.entries: dict[str, list[Callable[[], None]]] = {}

    def entry(self, name: str, *variants: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Enter a function into the table, with a scene of each variant."""

        def enter(function: Callable[..., None]) -> Callable[..., None]:
            chosen = variants or self._unnamed
            plays = [functools.partial(self._play, function, variant) for variant in chosen] or [function]
            self.entries.setdefault(name, []).extend(plays)
            return function

        return enter

    def _play(self, function: Callable[..., None], variant: str) -> None:
        scene = self._scene(**self._variants[variant])
        function(scene)
        scene.end()
