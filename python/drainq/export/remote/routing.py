"""Routing: decides which peer gets an item.

| rule | a peer that is down | order |
| --- | --- | --- |
| ``hash`` | keeps its keys; their batches wait | of one key, kept |
| ``rolling`` | is skipped while another one is up | none between peers |
| ``first`` | the next of the list takes over, until it is back | of all items, while no peer changes |

``hash`` is rendezvous hashing: each peer gets a score from its address and the key, and the peer with the highest score
gets the key. When a peer leaves, only its own keys move. When it returns, it gets the same keys back.

Source: ``HashCodeSelector`` (``hash % n``, where nearly all keys move), ``RollingSelector`` and
``ForeverFirstSelector`` in SkyWalking; Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

Rule = Literal["hash", "rolling", "first"]
RULES = ("hash", "rolling", "first")
REMEMBERED = 100_000  # keys whose peer is not computed again

_bytes_of = msgspec.msgpack.Encoder(order="deterministic").encode


def owner(key: Any, peers: Sequence[str]) -> str:
    """Return the peer that a key belongs to. It is the same in every process, for keys that msgspec encodes.

    Example:
        >>> peers = ["a:1", "b:1", "c:1"]
        >>> moved = [key for key in range(900) if owner(key, peers) != owner(key, peers[:2])]
        >>> all(owner(key, peers) == "c:1" for key in moved)
        True
    """
    encoded = _bytes_of(key)
    return max(peers, key=lambda peer: hashlib.blake2b(peer.encode() + b"\0" + encoded, digest_size=8).digest())


class Router:
    """Applies one of the rules.

    Args:
        rule: ``"hash"``, ``"rolling"`` or ``"first"``.
        key: maps an item to its key; for ``"hash"``.
    Raises:
        ValueError: there is no such rule, or ``key`` does not fit the rule.
    """

    def __init__(self, rule: str, key: Callable[[Any], Any] | None) -> None:
        if rule not in RULES:
            raise ValueError(f"routing must be one of {', '.join(map(repr, RULES))}, got {rule!r}")
        if (rule == "hash") != (key is not None):
            raise ValueError(f"routing 'hash' needs key=, and only that one takes it; got {rule!r} with key={key!r}")
        self._rule, self._key = rule, key
        self._turn = 0
        self._peers: tuple[str, ...] = ()
        self._owners: dict[Any, str] = {}

    def split(self, items: Sequence[Any], peers: Sequence[str], up: Callable[[str], bool]) -> dict[str, list[int]]:
        """Return the indexes of the items, by the peer that gets them.

        Args:
            items: a batch.
            peers: the addresses, at least one.
            up: returns whether a peer can be reached, as far as is known.
        Raises:
            Exception: the error of ``key``.
        """
        if len(peers) == 1:
            return {peers[0]: list(range(len(items)))}
        if self._rule == "hash":
            return self._by_key(items, tuple(peers))
        choice = list(peers)
        if self._rule == "rolling":
            turn = self._turn % len(peers)
            self._turn += 1
            choice = choice[turn:] + choice[:turn]
        chosen = next((peer for peer in choice if up(peer)), choice[0])
        return {chosen: list(range(len(items)))}

    def _by_key(self, items: Sequence[Any], peers: tuple[str, ...]) -> dict[str, list[int]]:
        if peers != self._peers or len(self._owners) > REMEMBERED:
            self._peers, self._owners = peers, {}
        owners, key = self._owners, self._key
        assert key is not None
        split: dict[str, list[int]] = {}
        for place, item in enumerate(items):
            of = key(item)
            try:
                peer = owners.get((type(of), of))
                if peer is None:
                    peer = owners[type(of), of] = owner(of, peers)
            except TypeError:  # a list, say: it cannot be remembered
                peer = owner(of, peers)
            split.setdefault(peer, []).append(place)
        return split
