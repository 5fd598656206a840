"""Messages on their way in: checked and encoded, many at a time.

Why a file of its own: on SQLite this is a third of what an offer costs, so the common case (plain keys, times that
repeat) takes the short way; whatever is unusual is looked at one by one, and refused there with its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from drainq.delayed.message import MAX_KEY_LENGTH, ScheduledMessage, check_key, check_priority, to_ms
from drainq.delayed.storage.protocol import Offer

_new = tuple.__new__  # a named tuple without the call of its Python constructor


def encoded_offers(messages: Sequence[ScheduledMessage[Any]], encode: Callable[[Any], bytes]) -> list[Offer]:
    """Return the messages as a storage takes them.

    Raises:
        TypeError, ValueError: one of them is no message, or its key, payload or time is none.
    """
    if set(map(type, messages)) != {ScheduledMessage}:
        for message in messages:
            if not isinstance(message, ScheduledMessage):
                raise TypeError(f"a batch holds ScheduledMessage objects, got {message!r}")
    _check_keys([message.key for message in messages])
    offers: list[Offer] = []
    last_at: object = offers  # what no time is
    ms = 0
    for message in messages:
        at = message.schedule_at
        if at is not last_at:
            ms, last_at = to_ms(at), at
        rank = message.priority
        if rank != 0 or type(rank) is not int:
            rank = check_priority(rank)
        offers.append(_new(Offer, (message.key, encode(message.payload), ms, bool(message.can_update), rank)))
    return offers


def _check_keys(keys: list[str]) -> None:
    """:func:`check_key` of each; all at once if they are as plain as keys mostly are."""
    try:
        text = "".join(keys)
        if text.isascii() and "\x00" not in text and 1 <= min(map(len, keys)) and max(map(len, keys)) <= MAX_KEY_LENGTH:
            return
    except (TypeError, ValueError):
        pass
    for key in keys:
        check_key(key)
