"""Values go through JSON and come back equal, of the same type."""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
import random
import uuid
from collections import namedtuple
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from drainq.delivery.payload import pack, unpack

UTC = dt.timezone.utc
VALUES = [
    None, True, False, 0, -1, 2**53, -(2**53), 2**200, 0.0, -0.0, 1.5, math.inf, -math.inf, 1e-320,
    "", "a", "ä\0", "\ud800", "$tuple", b"", b"\0\xff", bytearray(b"x"), Decimal("1.10"), Decimal("-0E-7"),
    Decimal("Infinity"), dt.datetime(2026, 1, 1, 1, 2, 3, 4), dt.datetime(2026, 1, 1, tzinfo=UTC),
    dt.datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1), dt.date(1, 1, 1), dt.time(23, 59, 59, 7),
    dt.timedelta(days=-1, microseconds=3), uuid.UUID(int=5), (), (1, (b"x", None)), [], [1, [2]], {}, {"a": (1,)},
    {"$bytes": 1}, {"$inc": 1}, {1: "one", None: b"", ("a", 2): Decimal(3)}, {1, "a"}, frozenset({b"x"}),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_a_value_comes_back_equal_and_of_its_type(value):
    back = unpack(json.loads(json.dumps(pack(value), allow_nan=False, ensure_ascii=True)))
    assert back == value and type(back) is type(value)
    assert isinstance(value, set) or repr(back) == repr(value)


@pytest.mark.parametrize("seed", range(20))
def test_values_in_values_come_back(seed):
    rng = random.Random(seed)
    hashable = [value for value in VALUES if not isinstance(value, (list, dict, set, bytearray))]

    def make(depth):
        kind = rng.randrange(5) if depth else 0
        if kind == 1:
            return [make(depth - 1) for _ in range(rng.randrange(4))]
        if kind == 2:
            return tuple(make(depth - 1) for _ in range(rng.randrange(4)))
        if kind == 3:
            return {rng.choice(hashable): make(depth - 1) for _ in range(rng.randrange(4))}
        return rng.choice(VALUES)

    value = make(4)
    assert unpack(json.loads(json.dumps(pack(value)))) == value


def test_nan_comes_back_as_nan():
    assert math.isnan(unpack(pack(math.nan))) and unpack(pack(Decimal("NaN"))).is_nan()


def test_a_subclass_comes_back_as_its_base():
    class Colour(enum.IntEnum):
        RED = 3

    Point = namedtuple("Point", "x y")
    assert (unpack(pack(Colour.RED)), unpack(pack(Point(1, 2)))) == (3, (1, 2))


@pytest.mark.parametrize("value", [object(), 1j, [object()], {"a": print}], ids=range(4))
def test_what_cannot_be_written_is_refused(value):
    with pytest.raises(TypeError, match="cannot be kept in a delayed queue"):
        pack(value)


def test_an_unknown_word_is_refused():
    with pytest.raises(ValueError, match="nothing is written as"):
        unpack({"$thing": 1})
