"""Tick keys: ``prefix/hash/yyyyMMdd-HHmmss.nnnnnnnnn`` in UTC.

The format is the source library's, so that both libraries can share a table. A prefix may hold any character, also
slashes. A hash is escaped, so it holds no slash. That keeps the keys of ``a`` and of ``a/x`` apart.

Source: ``CronMessage.key`` of funfix ``delayedqueue``.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_AFTER_PREFIX = re.compile(r"([^/]+)/[0-9]{8}-[0-9]{6}\.[0-9]{9}", re.ASCII)


def tick_key(prefix: str, config_hash: str, nominal_at: int) -> str:
    """Return the key of the tick at ``nominal_at`` (microseconds since the epoch).

    Example:
        >>> tick_key("daily", "abc", 1_500_000)
        'daily/abc/19700101-000001.500000000'
    """
    at = _EPOCH + timedelta(microseconds=nominal_at)
    stamp = f"{at.year:04}{at:%m%d-%H%M%S}.{at.microsecond:06}000"
    return f"{prefix}/{escape_hash(config_hash)}/{stamp}"


def escape_hash(config_hash: str) -> str:
    """Escape a hash for a key."""
    return config_hash.replace("%", "%25").replace("/", "%2F")


def hash_in(key: str, prefix: str) -> str | None:
    """Return the escaped hash in a tick's key of exactly this prefix; None for any other key.

    Example:
        >>> hash_in("a/x/h/19700101-000001.500000000", "a/x")
        'h'
        >>> hash_in("a/x/h/19700101-000001.500000000", "a") is None
        True
    """
    if not key.startswith(prefix + "/"):
        return None
    match = _AFTER_PREFIX.fullmatch(key, len(prefix) + 1)
    return match.group(1) if match else None


def key_range(prefix: str) -> tuple[str, str]:
    """Return the bounds, lower inclusive and upper exclusive, of all keys that start with ``prefix/``."""
    return prefix + "/", prefix + "0"
