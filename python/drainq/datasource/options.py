"""Options of the data source: reads and checks them. Spark passes their names in lower case."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from drainq.datasource.payload_form import PayloadForm
from drainq.sql.url import DatabaseUrl

NAMES = ("url", "queue", "table", "payload", "ifExists", "writeId", "consumer", "maxRows", "partitions", "pollInterval")
MAX_ROWS = 10_000
PARTITIONS = 8
POLL_INTERVAL = 0.2  # seconds


@dataclass(frozen=True)
class Options:
    """The options.

    Args:
        url: the database; not shown, because it may hold a password.
        queue, table: the queue's name, and its table's.
        payload: the form of payloads; None: by the column's type.
        update: whether a row replaces the message of its key.
        write_id: names a batch write that is published once; None: each write is new.
        consumer: names a streaming reader.
        max_rows: messages in a batch; None: not given.
        partitions: the most partitions of a streaming batch.
        poll_interval: seconds between two queries of an empty queue.
    """

    url: str = field(repr=False)
    queue: str
    table: str
    payload: PayloadForm | None
    update: bool
    write_id: str | None
    consumer: str | None
    max_rows: int | None
    partitions: int
    poll_interval: float

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Options:
        """Read the options that Spark passes.

        Raises:
            ValueError: an option is missing, invalid, or misspelt.

        Example:
            >>> Options.of({"url": "sqlite:///q.db", "queue": "mail", "maxrows": "100"}).max_rows
            100
        """
        said = {name.lower(): value for name, value in given.items()}
        _refuse_misspelt(said)
        url = said.get("url")
        if not url:
            raise ValueError(
                "the data source needs .option('url', 'sqlite:///FILE' or 'postgresql://USER@HOST/DATABASE'); "
                "Spark hands over none of a CREATE TABLE: use CREATE TEMPORARY VIEW"
            )
        DatabaseUrl.parse(url)
        if not said.get("queue"):
            raise ValueError("the data source needs .option('queue', NAME): the delayed queue's name")
        if_exists = said.get("ifexists", "update")
        if if_exists not in ("update", "ignore"):
            raise ValueError(f"ifExists must be 'update' or 'ignore', got {if_exists!r}")
        form = said.get("payload")
        if form is not None and form not in {each.value for each in PayloadForm}:
            raise ValueError(f"payload must be 'text', 'json', 'binary' or 'utf8', got {form!r}")
        return cls(
            url=url,
            queue=said["queue"],
            table=said.get("table", "delayed_queue"),
            payload=None if form is None else PayloadForm(form),
            update=if_exists == "update",
            write_id=said.get("writeid"),
            consumer=said.get("consumer"),
            max_rows=_whole("maxRows", said["maxrows"]) if "maxrows" in said else None,
            partitions=_whole("partitions", said.get("partitions", str(PARTITIONS))),
            poll_interval=_seconds("pollInterval", said.get("pollinterval", str(POLL_INTERVAL))),
        )


def _refuse_misspelt(said: Mapping[str, str]) -> None:
    """Refuse misspelt options. Spark passes its own options too, so only names similar to drainq's are refused."""
    ours = {name.lower(): name for name in NAMES}
    for name in said:
        near = [] if name in ours else difflib.get_close_matches(name, ours, n=1, cutoff=0.8)
        if near:
            raise ValueError(f"there is no option {name!r}: did you mean {ours[near[0]]!r}?")


def _whole(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) < 2**31:
        raise ValueError(f"{name} must be a whole number of at least 1, got {text!r}")
    return int(text)


def _seconds(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} must be a finite number of seconds >= 0, got {text!r}")
    return value
