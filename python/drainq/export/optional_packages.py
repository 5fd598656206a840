"""Optional packages: imports them at first use, and names the extra to install if one is missing."""

from __future__ import annotations

import importlib
from typing import Any


def extra(name: str, *modules: str) -> list[Any]:
    """Import modules of an optional dependency.

    Args:
        name: the extra of drainq that installs them.
        modules: their dotted names.
    Returns:
        The modules, in order.
    Raises:
        ImportError: one is not installed; the message names the extra.

    Example:
        >>> extra("kafka", "no_such_module")
        Traceback (most recent call last):
        ImportError: this needs a package that is not installed: pip install 'drainq[kafka]' (No module named ...)
    """
    try:
        return [importlib.import_module(module) for module in modules]
    except ImportError as missing:
        raise ImportError(
            f"this needs a package that is not installed: pip install 'drainq[{name}]' ({missing})"
        ) from missing
