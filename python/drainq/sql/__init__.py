"""Database access: all of drainq reaches SQLite and PostgreSQL through this package.

| module | what it does |
| --- | --- |
| ``dialect`` | the interface for the differences between databases |
| ``sqlite``, ``postgres`` | the two dialects, with their URLs; importing one registers it |
| ``url`` | reads database URLs, and hides passwords |
| ``connect`` | opens a connection |
| ``postgres_connection`` | connections to PostgreSQL, whose waits another thread can end |
| ``quoting`` | quotes names and texts |
| ``driver_errors`` | classifies a driver's errors |
| ``error_text`` | describes an error without the values of items |
| ``database`` | a connection with the few methods that writers need |
| ``postgres_text`` | writes Python values as the texts that PostgreSQL reads |
| ``upsert``, ``row_by_row`` | insert or merge rows by one statement; isolate the rows that the database refuses |

SQLite comes with Python; PostgreSQL needs ``pip install 'drainq[postgres]'``. Identifiers are always quoted, and values
always bound. No message shows a password.
"""

from drainq.sql import postgres, sqlite  # noqa: F401  (registers the two)
from drainq.sql.database import Database
from drainq.sql.dialect import Dialect
from drainq.sql.driver_errors import DatabaseError
from drainq.sql.upsert import Merge, Upsert
from drainq.sql.url import DatabaseUrl

__all__ = ["Database", "DatabaseError", "DatabaseUrl", "Dialect", "Merge", "Upsert"]
