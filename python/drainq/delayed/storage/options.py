"""StorageOptions: the options that all back ends are opened with. Each uses those that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from drainq.delayed.storage.base import Storage
from drainq.sql.url import DatabaseUrl


@dataclass(frozen=True)
class StorageOptions:
    """The storage's part of the arguments of :meth:`drainq.delayed.DelayedQueue.open`.

    Attributes:
        table: the name of the messages' table.
        poll_period: seconds after which a consumer polls without being woken.
        try_timeout: seconds for one call of the database; None: no limit.
        max_connections: the most connections to a server.
        prepare: whether statements are prepared on a server; None: the back end decides.
        as_it_is: whether connecting must change nothing in the database.
    """

    table: str
    poll_period: float
    try_timeout: float | None
    max_connections: int = 10
    prepare: bool | None = None
    as_it_is: bool = False


class BackEnd(Protocol):
    """The interface of the module ``back_end`` in a back end's folder."""

    def open_at(self, url: DatabaseUrl, options: StorageOptions) -> Storage:
        """Return the storage at a URL, without connecting.

        Raises:
            ImportError: the driver is not installed.
        """
        ...
