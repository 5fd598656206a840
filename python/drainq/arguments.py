"""Checks arguments of public calls. Each error names the parameter, shows the value, and tells what to pass.

``crates/drainq-py/src/arguments.rs`` does the same for the native classes, with the same rules:

1. A time is a number of seconds or a ``datetime.timedelta``.
2. A whole number is an int, or an object with ``__index__``. A bool is no number.
3. A check that converts a value returns the result, so that each value is read once.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable, Collection
from datetime import timedelta
from functools import wraps
from inspect import CO_VARKEYWORDS
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

__all__ = ["Seconds", "check_clock_if_given", "seconds", "seconds_or_none", "whole"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Enum = TypeVar("_Enum", bound=enum.Enum)

Seconds = float | timedelta
"""A time: a number of seconds, or a timedelta."""


def check_clock_if_given(clock: Any) -> None:
    """Raise an error unless the argument is a clock or None.

    Raises:
        TypeError: the argument has no ``now()``, such as ``time.time`` itself.
    """
    if clock is not None and not callable(getattr(clock, "now", None)):
        raise TypeError(
            "clock must be an object with now() -> float in seconds, such as drainq.testing.ManualClock(), "
            f"got {clock!r}"
        )


def seconds(name: str, value: Any, *, positive: bool = False) -> float:
    """Return a number of seconds that is finite and not negative.

    Args:
        name: the name of the caller's parameter.
        value: a number of seconds, or a timedelta.
        positive: whether 0 is refused too.
    Raises:
        TypeError, ValueError: with the name, the value and what to pass.

    Example:
        >>> from datetime import timedelta
        >>> seconds("timeout", timedelta(minutes=1))
        60.0
        >>> seconds("timeout", "1s")
        Traceback (most recent call last):
        TypeError: timeout must be a number of seconds, or a datetime.timedelta, got '1s'
    """
    number = _number(name, value, "a number of seconds, or a datetime.timedelta")
    least = "more than 0" if positive else "at least 0"
    if not number >= 0 or math.isinf(number) or (positive and number == 0):
        raise ValueError(f"{name} must be {least} seconds and finite, got {value!r}")
    return number


def seconds_or_none(name: str, value: Any, *, positive: bool = False) -> float | None:
    """Return a number of seconds from 0 on, or None for no limit. Infinity means no limit, too.

    Raises:
        TypeError, ValueError: with the name, the value and what to pass.

    Example:
        >>> seconds_or_none("timeout", None), seconds_or_none("timeout", 2)
        (None, 2)
    """
    if value is None:
        return None
    number = _number(name, value, "a number of seconds, or a datetime.timedelta, or None")
    if not number >= 0 or (positive and number == 0):
        raise ValueError(f"{name} must be {'more than' if positive else 'at least'} 0 seconds, or None, got {value!r}")
    return number


def whole(name: str, value: Any, *, least: int, what: str = "a whole number (int)") -> int:
    """Return a whole number that is not below ``least``.

    Args:
        name: the name of the caller's parameter.
        value: an int, or an object with ``__index__``.
        least: the smallest number that is accepted.
        what: what the number counts, for the message.
    Raises:
        TypeError, ValueError: with the name, the value and what to pass.

    Example:
        >>> whole("batch_size", 0, least=1)
        Traceback (most recent call last):
        ValueError: batch_size must be a whole number (int) of at least 1, got 0
    """
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise TypeError(f"{name} must be {what}, got {value!r}")
    number = operator.index(value)
    if number < least:
        raise ValueError(f"{name} must be {what} of at least {least}, got {value!r}")
    return number


def flag(name: str, value: Any) -> bool:
    """Check that an option is True or False.

    Raises:
        TypeError: the value is no bool.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return value


def member(kind: type[_Enum], value: Any, wanted: str) -> _Enum:
    """Return the member of an enum for its value.

    Args:
        kind: the enum.
        value: a member, or its value.
        wanted: the beginning of the error's text: the argument's name and its possible values.
    Raises:
        ValueError: there is no such member.

    Example:
        >>> from drainq.size_policies import BufferStrategy
        >>> member(BufferStrategy, "blocking", "strategy must be ...")
        BufferStrategy.BLOCKING
    """
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{wanted}, got {value!r}") from None


def refuse_unknown(of: str, given: Collection[str], known: Collection[str]) -> None:
    """Raise TypeError for an unknown keyword. The text suggests the nearest known keyword, or lists all of them.

    Example:
        >>> refuse_unknown("BatchQueue", ["bufer_size"], ["buffer_size", "strategy"])
        Traceback (most recent call last):
        TypeError: BatchQueue has no setting 'bufer_size': did you mean 'buffer_size'?
    """
    for name in given:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the settings are {', '.join(known)}"
            raise TypeError(f"{of} has no setting {name!r}: {hint}")


def helpful(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """Wrap a function so that a TypeError suggests the name of a misspelt keyword, or of an argument without a name."""
    function = cast(FunctionType, call)
    code, of = function.__code__, function.__qualname__.removesuffix(".__init__")
    reads_all = code.co_flags & CO_VARKEYWORDS  # **settings, which another check reads
    places, known = code.co_argcount, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    @wraps(call)
    def checked(*arguments: _P.args, **more: _P.kwargs) -> _R:
        if len(arguments) > places:
            named = ", ".join(f"{name}=" for name in known[places : len(arguments)])
            raise TypeError(f"{of} takes arguments by name, got {len(arguments) - places} without: write {named}")
        if not reads_all:
            refuse_unknown(of, more, [name for name in known if name != "self"])
        return call(*arguments, **more)

    return checked


def kind_of(value: object) -> str:
    """Return the name of a value's type with its article, for errors that must not show the value.

    Example:
        >>> kind_of(1), kind_of("1")
        ('an int', 'a str')
    """
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def _number(name: str, value: Any, wanted: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    if not isinstance(value, bool) and hasattr(type(value), "__float__"):
        return float(value)  # a number of NumPy, a Decimal, a Fraction
    raise TypeError(f"{name} must be {wanted}, got {value!r}")
