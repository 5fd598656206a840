"""Pickling: raises the error for objects that cannot be sent to another process.

Configurations, policies, selectors and sketches are values and can be pickled. An object with threads, connections or
items cannot. Without this module, :mod:`pickle` would report a lock inside the object, without naming what to send
instead. The native module raises the same error through :func:`refuse`.
"""

from __future__ import annotations

from typing import NoReturn

__all__ = ["refuse"]


def refuse(value: object, why: str, instead: str) -> NoReturn:
    """Refuse to pickle or copy an object. Use it as the body of ``__reduce__``, which ``pickle`` and ``copy`` both
    call.

    Args:
        value: the object.
        why: the reason, as the first half of a sentence.
        instead: what to send, and what the receiver does with it.
    Raises:
        TypeError: always.

    Example:
        >>> from drainq.pickling import refuse
        >>> class Connected:
        ...     def __reduce__(self):
        ...         refuse(self, "its connection belongs to this process", "its URL, and connect there")
        >>> import copy
        >>> copy.copy(Connected())
        Traceback (most recent call last):
        TypeError: 'Connected' object cannot be pickled or copied: its connection belongs to this process; send its URL, and connect there
    """  # noqa: E501
    raise TypeError(f"{type(value).__name__!r} object cannot be pickled or copied: {why}; send {instead}")
