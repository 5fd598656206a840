"""The database room: every other room reaches SQLite and PostgreSQL through this one.

| module | what it alone does |
| --- | --- |
| ``url`` | reads a database URL, and hides passwords |
| ``connect`` | opens a connection |
| ``quoting`` | quotes |
| ``errors`` | says what a driver's error means |
| ``database`` | a connection with the few verbs that writers need |
| ``upsert`` | the one statement that inserts or merges |

SQLite comes with Python; PostgreSQL needs ``pip install 'drainq[postgres]'``. Identifiers are always quoted,
values always bound, and no message shows a password.
"""

from drainq.sql.database import Database
from drainq.sql.driver_errors import DatabaseError
from drainq.sql.upsert import Merge, Upsert
from drainq.sql.url import DatabaseUrl, Dialect

__all__ = ["Database", "DatabaseError", "DatabaseUrl", "Dialect", "Merge", "Upsert"]
