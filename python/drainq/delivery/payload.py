"""Payloads: converts Python values to JSON, and back to equal values of the same types.

A delayed queue's default codec is JSON, which returns bytes as text, a Decimal as a string and NaN as null. A value of
a type that JSON does not have is therefore written as a map of one entry, ``{"$type": text}``.

1. ``unpack(pack(value)) == value``, of the same type, for None, bool, int of any size, float (the infinities too; NaN
   stays NaN), str, bytes, bytearray, Decimal, datetime, date, time, timedelta, UUID, and tuples, lists, dicts, sets and
   frozensets of them. A value of a subclass of int, float, str or tuple (an ``IntEnum``, a named tuple) comes back
   as an equal value of the base class.
2. Any other value is refused and never written as another type.
"""

from __future__ import annotations

import base64
import datetime
import math
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from drainq.errors import UnfitItem

_PLAIN_INT = 2**53  # beyond that a reader of JSON may round


def pack(value: Any) -> Any:
    """Convert a value to types of JSON.

    Raises:
        TypeError: the type is not supported.

    Example:
        >>> pack((1, b"ab", None))
        {'$tuple': [1, {'$bytes': 'YWI='}, None]}
    """
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        return _text(value)
    if kind is int:
        return value if -_PLAIN_INT < value < _PLAIN_INT else {"$int": str(value)}
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    packer = _PACKERS.get(kind)
    if packer is not None:
        return packer(value)
    base: Any
    for base in (str, int, float, tuple):
        if isinstance(value, base):
            return pack(base.__new__(base, value))
    raise UnfitItem(f"a value of type {kind.__name__} cannot be kept in a delayed queue")


def unpack(value: Any) -> Any:
    """Return the value that :func:`pack` converted.

    Raises:
        ValueError: :func:`pack` did not make this.

    Example:
        >>> unpack({'$tuple': [1, {'$bytes': 'YWI='}, None]})
        (1, b'ab', None)
    """
    if isinstance(value, list):
        return [unpack(each) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((tag, text),) = value.items()
        if tag.startswith("$"):
            unpacker = _UNPACKERS.get(tag)
            if unpacker is None:
                raise ValueError(f"nothing is written as {tag!r}")
            return unpacker(text)
    return {key: unpack(each) for key, each in value.items()}


def _text(value: str) -> Any:
    try:
        value.encode()
    except UnicodeEncodeError:
        return {"$str": base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()}
    return value


def _dict(value: dict[Any, Any]) -> Any:
    plain = all(type(key) is str and not key.startswith("$") and type(_text(key)) is str for key in value)
    if plain:
        return {key: pack(each) for key, each in value.items()}
    return {"$dict": [[pack(key), pack(each)] for key, each in value.items()]}


def _all(values: Any) -> list[Any]:
    return [pack(each) for each in values]


_PACKERS: dict[type, Callable[[Any], Any]] = {
    bytes: lambda value: {"$bytes": base64.b64encode(value).decode()},
    bytearray: lambda value: {"$bytearray": base64.b64encode(value).decode()},
    Decimal: lambda value: {"$decimal": str(value)},
    datetime.datetime: lambda value: {"$datetime": _datetime(value)},
    datetime.date: lambda value: {"$date": value.isoformat()},
    datetime.time: lambda value: {"$time": _zoneless(value).isoformat()},
    datetime.timedelta: lambda value: {"$timedelta": [value.days, value.seconds, value.microseconds]},
    uuid.UUID: lambda value: {"$uuid": str(value)},
    tuple: lambda value: {"$tuple": _all(value)},
    list: _all,
    dict: _dict,
    set: lambda value: {"$set": _all(value)},
    frozenset: lambda value: {"$frozenset": _all(value)},
}


def _datetime(value: datetime.datetime) -> Any:
    zone = getattr(value.tzinfo, "key", None)  # of a zoneinfo.ZoneInfo
    if zone is None:
        return value.isoformat()
    return [value.replace(tzinfo=None).isoformat(), zone, value.fold]


def _datetime_of(text: Any) -> datetime.datetime:
    if isinstance(text, str):
        return datetime.datetime.fromisoformat(text)
    from zoneinfo import ZoneInfo

    naive, zone, fold = text
    return datetime.datetime.fromisoformat(naive).replace(tzinfo=ZoneInfo(zone), fold=fold)


def _zoneless(value: datetime.time) -> datetime.time:
    if getattr(value.tzinfo, "key", None) is not None:
        raise UnfitItem("a time of day in a named zone cannot be kept in a delayed queue")
    return value


_UNPACKERS: dict[str, Callable[[Any], Any]] = {
    "$str": lambda text: base64.b64decode(text).decode("utf-8", "surrogatepass"),
    "$int": int,
    "$float": float,
    "$bytes": base64.b64decode,
    "$bytearray": lambda text: bytearray(base64.b64decode(text)),
    "$decimal": Decimal,
    "$datetime": _datetime_of,
    "$date": datetime.date.fromisoformat,
    "$time": datetime.time.fromisoformat,
    "$timedelta": lambda parts: datetime.timedelta(*parts),
    "$uuid": uuid.UUID,
    "$tuple": lambda values: tuple([unpack(each) for each in values]),
    "$set": lambda values: {unpack(each) for each in values},
    "$frozenset": lambda values: frozenset(unpack(each) for each in values),
    "$dict": lambda pairs: {unpack(key): unpack(each) for key, each in pairs},
}
