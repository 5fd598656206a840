"""What a back end is opened with, the same for all of them; each takes of it what it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from drainq.delayed.storage.base import Storage
from drainq.sql.url import DatabaseUrl


@dataclass(frozen=True)
class StorageOptions:
    """What :meth:`drainq.delayed.DelayedQueue.open` says about the storage.

    Attributes:
        table: the name of the messages' table.
        poll_period: seconds after which a consumer looks for messages although nothing woke it.
        try_timeout: seconds that one call of the database may take; None: any time.
        max_connections: how many connections to a server there may be.
        prepare: whether statements are prepared on a server; None: the back end decides.
        as_it_is: connecting changes nothing in the database.
    """

    table: str
    poll_period: float
    try_timeout: float | None
    max_connections: int = 10
    prepare: bool | None = None
    as_it_is: bool = False


class BackEnd(Protocol):
    """The module ``back_end`` in the folder of a back end."""

    def open_at(self, url: DatabaseUrl, options: StorageOptions) -> Storage:
        """The storage at a URL; nothing is connected yet.

        Raises:
            ImportError: the driver is not installed.
        """
        ...
