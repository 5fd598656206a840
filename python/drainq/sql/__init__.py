"""The database room: every other room reaches SQLite and PostgreSQL through this one.

| module | what it alone does |
| --- | --- |
| ``dialect`` | what differs from database to database, as an object |
| ``sqlite``, ``postgres`` | the two dialects; importing one registers it |
| ``url``, ``postgres_url`` | read a database URL, and hide passwords |
| ``connect``, ``connect_refusal`` | open a connection; find out why a server refused one |
| ``postgres_connection`` | the connections to PostgreSQL: a wait for a silent server can be ended |
| ``quoting`` | quotes |
| ``driver_errors``, ``failure`` | say what a driver's error means |
| ``error_text`` | describes an error without the values of items |
| ``database`` | a connection with the few verbs that writers need |
| ``postgres_text`` | write Python values as the texts that PostgreSQL reads |
| ``upsert``, ``row_by_row`` | the one statement that inserts or merges; rows that are refused stand alone |

SQLite comes with Python; PostgreSQL needs ``pip install 'drainq[postgres]'``. Identifiers are always quoted,
values always bound, and no message shows a password.
"""

from drainq.sql import postgres, sqlite  # noqa: F401  (registers the two)
from drainq.sql.database import Database
from drainq.sql.dialect import Dialect
from drainq.sql.driver_errors import DatabaseError
from drainq.sql.upsert import Merge, Upsert
from drainq.sql.url import DatabaseUrl

__all__ = ["Database", "DatabaseError", "DatabaseUrl", "Dialect", "Merge", "Upsert"]
