"""The error for objects that cannot be sent to another process: its text is written here, for all classes.

Configurations, policies, selectors and sketches are values: they can be pickled. An object that has threads,
connections or items cannot. Without this module, :mod:`pickle` would complain of a lock somewhere inside the object and
not say what to send instead. The native module raises the same error through :func:`refuse`.
"""

from __future__ import annotations

from typing import NoReturn

__all__ = ["refuse"]


def refuse(value: object, why: str, instead: str) -> NoReturn:
    """Refuse to pickle or to copy an object: the body of a ``__reduce__``, which ``pickle`` and ``copy`` both call.

    Args:
        value: the object.
        why: what keeps it here, as the first half of a sentence.
        instead: what to send, and what to do with it there.
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
