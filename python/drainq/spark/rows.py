"""The forms of a task's rows: tuples, dictionaries or Arrow batches.

Spark passes Arrow record batches to a task. The one conversion to the form of a handler or a writer is here.
"""

from __future__ import annotations

import enum
from typing import Any

from drainq.arguments import member


class Rows(enum.Enum):
    """The form of a task's rows."""

    TUPLES = "tuples"
    RECORDS = "records"
    ARROW = "arrow"

    def listed(self, batch: Any) -> list[Any]:
        """Return the rows of a record batch as a list of tuples or dictionaries.

        Args:
            batch: a ``pyarrow.RecordBatch``.

        Example:
            >>> import pyarrow as pa
            >>> batch = pa.RecordBatch.from_pydict({"path": ["/", "/cart"], "bytes": [10, 20]})
            >>> Rows.TUPLES.listed(batch)
            [('/', 10), ('/cart', 20)]
            >>> Rows.RECORDS.listed(batch)[1]
            {'path': '/cart', 'bytes': 20}
        """
        if self is Rows.RECORDS:
            records: list[Any] = batch.to_pylist()
            return records
        if not batch.num_columns:
            return [()] * batch.num_rows
        return list(zip(*(column.to_pylist() for column in batch.columns)))


def rows_of(value: str | Rows) -> Rows:
    """Return the form for the argument ``rows``.

    Raises:
        ValueError: there is no such form.
    """
    forms = "'tuples' (values in column order), 'records' (a dict of each row) or 'arrow' (pyarrow record batches)"
    return member(Rows, value, f"rows must be {forms}")
