"""Passwords, and the shapes of texts with a password. No message of drainq may show a password."""

from __future__ import annotations

import traceback

# The part of a password between two special characters is as secret as the whole, so X7 must never appear.
PASSWORDS = [
    "X7", "X7/X7", "X7@X7", "X7:X7", "X7#X7", "X7%X7", "X7?X7", "X7 X7", "X7&X7", "X7=X7", "X7;X7", "X7,X7", "X7+X7", "X7'X7",
    'X7"X7', "X7\\X7", "X7\nX7", "X7%2FX7", "X7%zzX7", "[X7]", "X7://X7", "@X7", "/X7", "X7/X7@X7:X7#X7%X7?X7 X7",
]  # fmt: skip
URLS = [
    "postgresql://me:{}@127.0.0.1:1/d",
    "postgresql://:{}@127.0.0.1:1/d",
    "postgresql://me:{}@[::1]:1/d",
    "postgresql://me:{}@127.0.0.1:1,127.0.0.1:2/d",
    "postgresql://me:{}@127.0.0.1:1",
    "postgresql://me:{}@127.0.0.1:1/d?password={}",
    "postgres://me:{}@127.0.0.1:1/d?connect_timeout=1",
    "postgresql+psycopg://me:{}@127.0.0.1:1/d",
    "postgresql://127.0.0.1:1/d?user=me&password={}",
    "postgresql://127.0.0.1:1/d?PASSWORD={}&user=me",
    "postgresql://127.0.0.1:1/d?sslpassword={}&user=me",
    "postgresql://127.0.0.1:1/d?pass%77ord={}",
]
NOT_OURS = [
    "POSTGRESQL://me:{}@127.0.0.1:1/d",
    " postgresql://me:{}@127.0.0.1:1/d",
    "mysql://me:{}@127.0.0.1:1/d",
    "mysql+pymysql://me:{}@127.0.0.1/d",
    "redis://:{}@127.0.0.1/0",
    "jdbc:postgresql://127.0.0.1/d?user=me&password={}",
    "sqlite://me:{}@127.0.0.1/x",
    "host=127.0.0.1 port=1 user=me password='{}'",
    "host=127.0.0.1 port=1 password={} user=me",
    "password = '{}' host=127.0.0.1",
    "host=127.0.0.1;password={};user=me",
    "PGPASSWORD={}",
]
MISTYPED = [
    "postgresql:/me:{}@127.0.0.1:1/d",
    "postgresql:me:{}@127.0.0.1:1/d",
    "postgresql//me:{}@127.0.0.1:1/d",
    "//me:{}@127.0.0.1:1/d",
    "me:{}@127.0.0.1:1/d",
]
SHAPES = [*URLS, *NOT_OURS, *MISTYPED]


def everything_of(error: BaseException) -> str:
    """Return the texts of an exception, and of all exceptions that are its cause or its context."""
    seen: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        seen += [str(cause), repr(cause), *traceback.format_exception_only(cause)]
        cause = cause.__cause__ or cause.__context__
    return " ".join(seen)
