"""Finds the queue of a ``drainq delayed`` command, or refuses the command with a list of the existing names.

A command that only reads creates no file and no table, and registers no queue name.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from drainq.delayed.admin import opened_storage
from drainq.delayed.codec import BytesCodec, JsonCodec, MsgspecCodec, StrCodec
from drainq.delayed.config import NO_RETRIES
from drainq.delayed.queue import DelayedQueue
from drainq.delayed.queue_settings import QueueSettings
from drainq.delayed.storage.base import Storage
from drainq.delayed.storage.open import open_empty
from drainq.delayed.storage.records import QueueRow
from drainq.sql.url import DatabaseUrl

_OF_UNNAMED = tuple(codec().type_name for codec in (MsgspecCodec, JsonCodec, BytesCodec, StrCodec))
"""The codecs to try for a queue that the table does not list, such as one of the source library."""


class _Undecoded(BytesCodec):
    """A codec that leaves payloads as bytes, in place of any codec of a queue."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name


class UsageError(Exception):
    """A user's mistake, which the text explains."""


@contextmanager
def found_storage(arguments: argparse.Namespace) -> Iterator[Storage]:
    """Return the storage, which must have current tables. Creates nothing."""
    with opened_storage(arguments.url, arguments.table) as storage:
        if not storage.is_ready():
            raise UsageError(
                f"the tables of {arguments.table!r} are missing or old: run 'drainq delayed migrate' first"
            )
        yield storage


@contextmanager
def shown_storage(arguments: argparse.Namespace) -> Iterator[Storage]:
    """Return the storage in its present state. Creates nothing. A missing SQLite file counts as an empty one."""
    where = DatabaseUrl.parse(arguments.url)
    if where.dialect.why_missing(where.target) is not None:
        yield open_empty(table=arguments.table)
        return
    with opened_storage(arguments.url, arguments.table) as storage:
        yield storage


@contextmanager
def found_queue(arguments: argparse.Namespace) -> Iterator[DelayedQueue[bytes]]:
    """Return the queue if it exists, whatever its codec. Creates nothing."""
    name, codec = arguments.queue, arguments.codec
    with found_storage(arguments) as storage:
        known = storage.queues()
        codecs = [row.type_name for row in known if row.name == name and codec in (None, row.type_name)]
        listed = bool(codecs)
        found: list[DelayedQueue[bytes]] = [
            DelayedQueue(storage, QueueSettings.of(name, codec=_Undecoded(of), retry=NO_RETRIES))
            for of in codecs or (_OF_UNNAMED if codec is None else [codec])
        ]
        if not listed:
            found = [queue for queue in found if queue.peek(1) or queue.dead_letters(limit=1)]
        if len(found) != 1:
            raise UsageError(_not_one(arguments, known, [queue._session.codec.type_name for queue in found]))
        with found[0] as queue:
            yield queue


def _not_one(arguments: argparse.Namespace, known: list[QueueRow], found: list[str]) -> str:
    name = arguments.queue
    codecs = found or [row.type_name for row in known if row.name == name]
    if codecs:
        which = "pass one of them as --codec" if found else f"none is {arguments.codec!r}"
        return f"queue {name!r} was opened with {', '.join(map(repr, codecs))}: {which}"
    names = sorted({row.name for row in known})
    listed = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "") if names else "none"
    return f"there is no queue {name!r} in {arguments.table!r}; there are: {listed}"


def refuse_memory(url: str) -> None:
    if url == "memory:":
        raise UsageError("a queue in memory lives and dies with its process: name a database with --url")
