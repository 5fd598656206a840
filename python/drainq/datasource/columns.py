"""Columns: converts the columns of a DataFrame to messages of a queue, and back.

The columns are ``key`` STRING, ``payload`` STRING or BINARY, and ``schedule_at`` TIMESTAMP. When writing,
``schedule_at`` may be missing or NULL: the message is then due at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from drainq.datasource.payload_form import PayloadForm
from drainq.delayed.message import check_key, from_ms, in_range, to_ms

MESSAGES_AT_ONCE = 5_000
"""Messages in one record batch that is read, and in one statement that is written."""

Message = tuple[str, bytes, int]
"""Key, stored payload, and the time when it is due, in milliseconds since the epoch."""

_KEY, _PAYLOAD, _AT = "key", "payload", "schedule_at"


def form_written(schema: Any, asked: PayloadForm | None) -> PayloadForm:
    """Check the columns of a DataFrame to write. Return the form of its payloads.

    Args:
        schema: a ``StructType``.
        asked: the form that the option names.
    Raises:
        ValueError: a column is missing, unknown, or of another type.
    """
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    wanted = "key STRING, payload STRING or BINARY and, if you like, schedule_at TIMESTAMP"
    allowed = {_KEY: ("string",), _PAYLOAD: ("string", "binary"), _AT: ("timestamp",)}
    if not {_KEY, _PAYLOAD} <= types.keys() or any(kind not in allowed.get(name, ()) for name, kind in types.items()):
        shown = ", ".join(f"{name} {kind.upper()}" for name, kind in types.items())
        raise ValueError(f"the columns to write are {wanted}; got {shown or 'none'}")
    form = asked or (PayloadForm.BINARY if types[_PAYLOAD] == "binary" else PayloadForm.TEXT)
    if form.column_type != types[_PAYLOAD]:
        raise ValueError(
            f"payload={form.value} needs a column payload {form.column_type.upper()}, got {types[_PAYLOAD].upper()}"
        )
    return form


def form_read(schema: Any, asked: PayloadForm | None) -> PayloadForm:
    """Check the schema for reading a DataFrame. Return the form of its payloads.

    Raises:
        ValueError: a column is unknown, or of another type.
    """
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    form = asked or (PayloadForm.BINARY if types.get(_PAYLOAD) == "binary" else PayloadForm.TEXT)
    known = {_KEY: "string", _PAYLOAD: form.column_type, _AT: "timestamp"}
    if not types or not types.items() <= known.items():
        shown = ", ".join(f"{name} {kind.upper()}" for name, kind in types.items())
        offered = ", ".join(f"{name} {kind.upper()}" for name, kind in known.items())
        raise ValueError(f"with payload={form.value} the columns to read are {offered}; got {shown or 'none'}")
    return form


def read_schema(form: PayloadForm | None) -> str:
    """Return the columns to read if the user names none."""
    return f"{_KEY} string, {_PAYLOAD} {(form or PayloadForm.TEXT).column_type}, {_AT} timestamp"


def messages(rows: Iterable[Any], form: PayloadForm) -> Iterator[list[Message]]:
    """Yield a task's rows as messages, a list at a time.

    Args:
        rows: record batches, or Spark's rows.
        form: the form of the payloads.
    Raises:
        ValueError: a key, a payload or a time is invalid.
    """
    waiting: list[Message] = []
    for values in _values(rows):
        waiting.append(_message(values, form))
        if len(waiting) == MESSAGES_AT_ONCE:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def record_batches(found: Iterable[Message], names: Sequence[str], form: PayloadForm) -> Iterator[Any]:
    """Yield a task's messages as record batches with these columns."""
    import pyarrow as pa

    text, time_of_day = pa.string(), pa.timestamp("us", "UTC")
    types = {_KEY: text, _PAYLOAD: pa.binary() if form is PayloadForm.BINARY else text, _AT: time_of_day}
    schema = pa.schema([(name, types[name]) for name in names])
    waiting: list[Message] = []

    def batch() -> Any:
        columns = {
            _KEY: [key for key, _, _ in waiting],
            _PAYLOAD: [form.decode(stored) for _, stored, _ in waiting] if _PAYLOAD in names else [],
            _AT: [from_ms(at) for _, _, at in waiting],
        }
        return pa.RecordBatch.from_arrays([pa.array(columns[name], types[name]) for name in names], schema=schema)

    for message in found:
        waiting.append(message)
        if len(waiting) == MESSAGES_AT_ONCE:
            yield batch()
            waiting = []
    if waiting:
        yield batch()


def _values(rows: Iterable[Any]) -> Iterator[tuple[Any, Any, Any]]:
    for row in rows:
        if hasattr(row, "num_rows"):
            names = row.schema.names
            at: list[Any] = [None] * row.num_rows
            if _AT in names:
                at = _milliseconds(row.column(names.index(_AT)))
            keys, payloads = (row.column(names.index(name)).to_pylist() for name in (_KEY, _PAYLOAD))
            yield from zip(keys, payloads, at)
        else:
            time_of = row[_AT] if _AT in row else None  # as a local time
            yield row[_KEY], row[_PAYLOAD], None if time_of is None else round(time_of.timestamp() * 1_000_000) // 1000


def _milliseconds(column: Any) -> list[int | None]:
    import pyarrow as pa

    return [None if at is None else at // 1000 for at in column.cast(pa.int64()).to_pylist()]


def _message(values: tuple[Any, Any, Any], form: PayloadForm) -> Message:
    key, payload, at = values
    if key is None:
        raise ValueError("a key is NULL: each message needs one, of 1 to 200 characters")
    check_key(key)
    if at is None:
        at = to_ms(time.time())
    elif not in_range(at / 1000):
        raise ValueError("schedule_at must lie in the years 1 to 9999; that of a row does not")
    return key, form.encode(payload), at
