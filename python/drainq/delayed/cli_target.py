"""Finds the queue of a ``drainq delayed`` command, or refuses it with a list of the existing names.

A command that only reads creates no file, no table and no name.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from drainq.delayed.admin import opened_storage
from drainq.delayed.codec import BytesCodec, Codec, JsonCodec, MsgspecCodec, StrCodec
from drainq.delayed.config import NO_RETRIES
from drainq.delayed.queue import DelayedQueue
from drainq.delayed.queue_settings import QueueSettings
from drainq.delayed.storage.base import Storage
from drainq.delayed.storage.open import open_empty
from drainq.delayed.storage.records import QueueRow
from drainq.sql.url import DatabaseUrl

CODECS: dict[str, Callable[[], Codec]] = {
    "msgspec": MsgspecCodec,
    "json": JsonCodec,
    "bytes": BytesCodec,
    "str": StrCodec,
}


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
def found_queue(arguments: argparse.Namespace) -> Iterator[DelayedQueue[object]]:
    """Return the queue if it exists. Creates nothing."""
    codec = CODECS[arguments.codec]()
    with found_storage(arguments) as storage:
        queue: DelayedQueue[object] = DelayedQueue(
            storage, QueueSettings.of(arguments.queue, codec=codec, retry=NO_RETRIES)
        )
        known = storage.queues()
        kind = queue._session.kind
        if not any(row.kind == kind for row in known) and not (queue.peek(1) or queue.dead_letters(limit=1)):
            raise UsageError(_unknown(arguments, known))
        with queue:
            yield queue


def _unknown(arguments: argparse.Namespace, known: list[QueueRow]) -> str:
    codecs = sorted(row.type_name for row in known if row.name == arguments.queue)
    if codecs:
        names = [name for name, codec in CODECS.items() if codec().type_name in codecs]
        return f"queue {arguments.queue!r} was opened with another codec ({', '.join(codecs)}): " + (
            f"pass --codec {names[0]}" if names else "none that this command knows"
        )
    names = sorted({row.name for row in known})
    listed = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "") if names else "none"
    return f"there is no queue {arguments.queue!r} in {arguments.table!r}; there are: {listed}"


def refuse_memory(url: str) -> None:
    if url == "memory:":
        raise UsageError("a queue in memory lives and dies with its process: name a database with --url")
