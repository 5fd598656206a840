"""Validates user callables: rejects async functions, generators and wrong signatures.

A call of an ``async def`` function or a generator function runs none of its code: it makes an object that no code waits
for. A callable with another signature fails at its first call, on another thread, with a batch that may be lost. Both
can be found when the callable is passed in.

``inspect`` is imported by the first check, not by ``import drainq``.
"""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

__all__ = ["check_answer", "check_callable", "is_async"]


def check_callable(name: str, value: Any, *arguments: str, may_yield: bool = False) -> None:
    """Raise an error for a callable that cannot be called with these arguments, or whose call would run nothing.

    Bound methods, ``functools.partial`` and objects with ``__call__`` are resolved. A callable without a signature,
    such as some builtins, is accepted.

    Args:
        name: the name of the caller's parameter.
        value: the argument to check.
        arguments: names of the positional arguments of later calls.
        may_yield: whether a generator function is allowed, because the caller iterates over the result.
    Raises:
        TypeError: with the name, the value and what to do.

    Example:
        >>> from drainq.callables import check_callable
        >>> check_callable("len_of", len, "item")
        >>> async def size(item): ...
        >>> check_callable("len_of", size, "item")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        TypeError: len_of must be a plain function that takes (item), got <function size at ...>, which is an async ...
    """
    wanted = f"({', '.join(arguments)})"
    if not callable(value):
        raise TypeError(f"{name} must be a callable that takes {wanted}, got {value!r}")
    if (lazy := _lazy(value)) and not (may_yield and lazy[1] is _GENERATOR):
        what, remedy = lazy
        if what == _ASYNC_FUNCTION and arguments == ("batch",):
            remedy += _OR_A_LOOP
        raise TypeError(
            f"{name} must be a plain function that takes {wanted}, got {value!r}, which is {what}: "
            f"a call of it runs nothing; {remedy}"
        )
    takes, why = _refusal(value, arguments)
    if why:
        raise TypeError(
            f"{name} is called with {len(arguments)} positional argument{'' if len(arguments) == 1 else 's'} "
            f"{wanted}, got {value!r}, which takes {takes}: {why}"
        )


def check_answer(name: str, answer: Any) -> None:
    """Raise an error if a call returned a coroutine or a generator, because none of its code has run.

    No check before the call can find an async function that a lambda calls.

    Args:
        name: the called object, for the message.
        answer: the result of the call. A coroutine or a generator is closed.
    Raises:
        TypeError: with the name and the answer.

    Example:
        >>> from drainq.callables import check_answer
        >>> check_answer("the handler", None)
        >>> check_answer("the handler", (n for n in range(3)))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        TypeError: the handler returned <generator object ...>: nothing of it has run, and nothing will run it. ...
    """
    if isinstance(answer, (CoroutineType, GeneratorType, AsyncGeneratorType)):
        text = repr(answer)
        if not isinstance(answer, AsyncGeneratorType):
            answer.close()  # so that Python does not also warn that it was never awaited
        raise TypeError(
            f"{name} returned {text}: nothing of it has run, and nothing will run it. "
            f"It must be a plain function that has done its work when it returns"
        )


def is_async(value: Any) -> bool:
    """Return whether a call of ``value`` makes a coroutine: ``async def``, also behind a partial or ``__call__``.

    Example:
        >>> from drainq.callables import is_async
        >>> async def size(item): ...
        >>> is_async(size), is_async(len)
        (True, False)
    """
    lazy = _lazy(value)
    return lazy is not None and lazy[0] == _ASYNC_FUNCTION


def _refusal(value: Any, arguments: tuple[str, ...]) -> tuple[str, str]:
    """Return a callable's signature, empty if unknown, and why the arguments do not fit, empty if they may fit."""
    import functools
    import inspect

    try:
        signature = inspect.signature(value, follow_wrapped=False)
    except (TypeError, ValueError) as error:
        # An unknown signature is accepted, unless the arguments bound by a partial do not fit.
        if isinstance(value, functools.partial) and (takes := _refusal(value.func, ())[0]):
            return takes, str(error)
        return "", ""
    try:
        signature.bind(*arguments)
    except TypeError as error:
        return str(signature), str(error)
    return str(signature), ""


_ASYNC_FUNCTION = "an async function"
_OR_A_LOOP = "; a handler of a queue may be one if BatchQueueConfig(loop=...) names the event loop that runs it"
_ASYNC = "make it a plain function that waits for it, with asyncio.run(...) or asyncio.run_coroutine_threadsafe(...)"
_GENERATOR = "make it a plain function without yield"


def _lazy(value: Any) -> tuple[str, str] | None:
    """Return the kind of a callable whose call runs none of its code, and a remedy. Return None for other callables."""
    import functools
    import inspect

    while isinstance(value, functools.partial):
        value = value.func
    for found in (value, None if isinstance(value, type) else type(value).__call__):
        if inspect.iscoroutinefunction(found):
            return _ASYNC_FUNCTION, _ASYNC
        if inspect.isasyncgenfunction(found):
            return "an async generator function", _ASYNC
        if inspect.isgeneratorfunction(found):
            return "a generator function", _GENERATOR
    return None
