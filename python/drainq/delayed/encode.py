"""Checks and encodes offered messages, many at a time.

On SQLite this is a third of the cost of an offer, so the common case (plain keys, times as floats) has a fast path.
Unusual messages are checked one by one, and an error names the index of the message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any, cast

from drainq.arguments import kind_of
from drainq.delayed.codec import Codec
from drainq.delayed.message import (
    MAX_KEY_LENGTH,
    ScheduledMessage,
    When,
    check_count,
    check_key,
    check_priority,
    in_range,
    to_ms,
)
from drainq.delayed.storage.records import Offer
from drainq.errors import UnfitItem

_MANY = 8
"""The smallest number of messages for which one check of all is faster than a check of each."""
_AT_ONCE = 1000
"""The most messages that one native call converts. So no call keeps the GIL from an event loop for longer than a few
milliseconds."""
_PARTS = attrgetter("key", "payload", "schedule_at", "can_update", "priority", "max_attempts", "group")
_new = tuple.__new__  # makes a named tuple without a call of its Python constructor


def encoded_offers(messages: Sequence[ScheduledMessage[Any]], codec: Codec, now: int) -> list[Offer]:
    """Convert messages to the storage's form.

    Raises:
        TypeError, ValueError: an item is no message, or its key, payload or time is invalid.
    """
    try:
        offers: list[Offer] = []
        for start in range(0, len(messages), _AT_ONCE):
            offers += _encoded_batch(messages[start : start + _AT_ONCE], codec, now)
        return offers
    except (TypeError, ValueError):
        for place, message in enumerate(messages):
            try:
                _encoded_offer(message, codec, now)
            except (TypeError, ValueError) as error:
                if type(error) not in (UnfitItem, TypeError, ValueError):  # a codec's error may need other arguments
                    raise
                raise type(error)(f"message {place} of the batch: {error}") from error
        raise


def _encoded_batch(messages: Sequence[ScheduledMessage[Any]], codec: Codec, now: int) -> list[Offer]:
    if len(messages) < _MANY or set(map(type, messages)) != {ScheduledMessage}:
        return [_encoded_offer(message, codec, now) for message in messages]
    keys = [message.key for message in messages]
    _check_keys(keys)
    contents = _encoded([message.payload for message in messages], codec)
    times = _in_ms([message.schedule_at for message in messages], now)
    may_update = [bool(message.can_update) for message in messages]
    ranks = [message.priority for message in messages]
    if set(map(type, ranks)) != {int} or any(ranks):
        ranks = [check_priority(rank) for rank in ranks]
    tries = [message.max_attempts for message in messages]
    if set(map(type, tries)) != {type(None)}:
        tries = [_tries(limit) for limit in tries]
    groups = [message.group for message in messages]
    if set(map(type, groups)) != {type(None)}:
        groups = [_group(group) for group in groups]
    return list(map(_new, repeat(Offer), zip(keys, contents, times, may_update, ranks, tries, groups)))


def _encoded_offer(message: ScheduledMessage[Any], codec: Codec, now: int) -> Offer:
    if not isinstance(message, ScheduledMessage):
        raise UnfitItem(f"a batch holds ScheduledMessage objects, got {kind_of(message)}")
    return encoded_offer(codec, now, *_PARTS(message))


def encoded_offer(codec: Codec, now: int, key: object, payload: Any, at: When | None, *more: Any) -> Offer:
    """Convert one message to the storage's form, from its parts in the order of :class:`ScheduledMessage`.

    Raises:
        TypeError, ValueError: a part is invalid.
    """
    can_update, priority, max_attempts, group = more
    key, rank, at = check_key(key), check_priority(priority), now if at is None else to_ms(at)
    tries, group = _tries(max_attempts), _group(group)
    return _new(Offer, (key, checked_bytes(codec.encode(payload)), at, bool(can_update), rank, tries, group))


def _tries(limit: int | None) -> int | None:
    return None if limit is None else check_count("max_attempts", limit)


def _group(group: str | None) -> str | None:
    return None if group is None else check_key(group, "a group")


def _encoded(payloads: list[Any], codec: Codec) -> Sequence[bytes]:
    """Encode the payloads, all at once if the codec can."""
    encode_many: Callable[[list[Any]], Sequence[bytes]] | None = getattr(codec, "encode_many", None)
    contents = [codec.encode(payload) for payload in payloads] if encode_many is None else encode_many(payloads)
    return contents if set(map(type, contents)) == {bytes} else list(map(checked_bytes, contents))


def checked_bytes(content: Any) -> bytes:
    """Return a codec's result as bytes. Raises TypeError if it is no bytes, bytearray or memoryview."""
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)
    raise TypeError(f"encode of the queue's codec must return bytes, got {kind_of(content)}")


def _in_ms(times: list[When | None], now: int) -> list[int]:
    """Apply :func:`to_ms` to each time, all at once if they are floats, as is usual."""
    if set(map(type, times)) == {float}:
        floats = cast("list[float]", times)
        if in_range(min(floats)) and in_range(max(floats)):  # a NaN cannot be rounded
            return [round(at * 1_000_000) // 1000 for at in floats]
    return [now if at is None else to_ms(at) for at in times]


def _check_keys(keys: list[str]) -> None:
    """Apply :func:`check_key` to each key, all at once if they are plain, as is usual."""
    try:
        text = "".join(keys)
        if text.isascii() and "\x00" not in text and 1 <= min(map(len, keys)) and max(map(len, keys)) <= MAX_KEY_LENGTH:
            return
    except (TypeError, ValueError):
        pass
    for key in keys:
        check_key(key)
