"""Decides which messages become dead letters: those delivered too often, and those that cannot be decoded.

There are two limits. ``max_attempts`` of a queue is checked when a message is taken, so that deliveries that ended in a
crash count, and at ``nack``. A consumer's limit is checked when its handler has failed. A message's own
``max_attempts`` takes the place of both.

The session of a queue (``storage_session.py``) moves the messages by the storage's ``bury``.
``dead_letters_redrive.py`` lets an operator read dead letters and redrive them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drainq.delayed.codec import Codec
from drainq.delayed.storage.records import Row


def decode_or_give_up(
    fetched: Sequence[Row], codec: Codec[Any], max_attempts: int | None
) -> tuple[list[Row], list[Any], list[tuple[Row, str]]]:
    """Decode messages that were just taken.

    Args:
        fetched: the messages; ``attempts`` counts this delivery.
        codec: decodes their payloads.
        max_attempts: how many deliveries a message without a limit of its own gets; None: any number.

    Returns:
        The messages to deliver, their payloads, and the messages to bury, each with the reason.
    """
    rows: list[Row] = []
    payloads: list[Any] = []
    given_up: list[tuple[Row, str]] = []
    for row in fetched:
        limit = limit_of(row, max_attempts)
        if limit is not None and row.attempts > limit:
            given_up.append((row, f"not acknowledged in {limit} deliveries"))
            continue
        try:
            payload = codec.decode(row.payload)
        except Exception as error:
            given_up.append((row, f"the payload cannot be decoded as {codec.type_name}: {error}"))
            continue
        rows.append(row)
        payloads.append(payload)
    return rows, payloads, given_up


def delivered_too_often(rows: Sequence[Row], limit: int | None) -> tuple[list[Row], list[Row]]:
    """Split messages whose handler failed into those to bury and those to deliver again.

    Args:
        rows: the messages.
        limit: the deliveries after which a message without a limit of its own is buried; None: no limit.
    """
    worn_out: list[Row] = []
    again: list[Row] = []
    for row in rows:
        most = limit_of(row, limit)
        (again if most is None or row.attempts < most else worn_out).append(row)
    return worn_out, again


def limit_of(row: Row, limit: int | None) -> int | None:
    """Return how many deliveries a message gets: its own number, else ``limit``."""
    return limit if row.max_attempts is None else row.max_attempts
