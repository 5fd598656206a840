"""What a task's rows are made of: tuples, dictionaries or Arrow batches; and the way from Arrow to them.

Spark hands a task Arrow record batches. One conversion, here, makes the form that a handler or a writer asked for.
"""

from __future__ import annotations

import enum
from typing import Any

from drainq.spark.checks import member


class Rows(enum.Enum):
    """What a task's items are made of."""

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
    """Return what the argument ``rows`` asks for.

    Raises:
        ValueError: there is no such form.
    """
    forms = "'tuples' (values in column order), 'records' (a dict of each row) or 'arrow' (pyarrow record batches)"
    return member(Rows, value, f"rows must be {forms}")
