"""The loads of the end-to-end figures: the items, their creation by producers, and their handling.

An item has a key that decides its type, a text and a number. It is an instance of the key's dataclass, or a tuple or a
dict that holds its key. A producer creates each item just before it sends it; in the unbounded burst the items exist.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, make_dataclass
from typing import Any

Put = Callable[[Any], object]
Handler = Callable[[list[Any]], object]


@dataclass(frozen=True)
class Load:
    """Items of one kind.

    Attributes:
        name: of the kind.
        keys: one for each type of item: a class, or the value that items hold.
        key_of: from an item to its key; None: its class.
        send: makes an item for each of the keys that it is given, and puts it.
        total: what the handler computes of a batch.
    """

    name: str
    keys: Sequence[Any]
    key_of: Callable[[Any], Any] | None
    send: Callable[[Put, Iterable[Any]], None]
    total: Callable[[list[Any]], float]

    def __str__(self) -> str:
        return f"{self.name}, {len(self.keys)} type{'s' if len(self.keys) > 1 else ''}"

    def grouped(self, batch: Iterable[Any], handler: Handler) -> None:
        """Sort a batch by key and call the handler once a key, as a queue without types has it done."""
        if len(self.keys) == 1:
            handler(batch if isinstance(batch, list) else list(batch))
            return
        key_of = self.key_of or type
        by_key: dict[Any, list[Any]] = {}
        for item in batch:
            key = key_of(item)
            same = by_key.get(key)
            if same is None:
                by_key[key] = [item]
            else:
                same.append(item)
        for items in by_key.values():
            handler(items)


def _send_objects(put: Put, keys: Iterable[Any]) -> None:
    for kind in keys:
        put(kind("/search", 1.0))


def _send_tuples(put: Put, keys: Iterable[Any]) -> None:
    for key in keys:
        put((key, "/search", 1.0))


def _send_dicts(put: Put, keys: Iterable[Any]) -> None:
    for key in keys:
        put({"kind": key, "path": "/search", "value": 1.0})


def dataclasses(types: int) -> Load:
    """Dataclasses; their class is their type."""
    kinds = [make_dataclass(f"Item{number}", [("path", str), ("value", float)]) for number in range(types)]
    return Load("dataclass", kinds, None, _send_objects, lambda batch: sum([item.value for item in batch]))


def tuples(types: int) -> Load:
    """Tuples; their first item is their type."""
    keys = [f"kind{number}" for number in range(types)]
    return Load("tuple", keys, operator.itemgetter(0), _send_tuples, lambda batch: sum([item[2] for item in batch]))


def dicts(types: int) -> Load:
    """Dicts; one of their values is their type."""
    keys = [f"kind{number}" for number in range(types)]
    key_of = operator.itemgetter("kind")
    return Load("dict", keys, key_of, _send_dicts, lambda batch: sum([item["value"] for item in batch]))
