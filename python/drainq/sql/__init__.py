"""SQL that more than one part needs: database URLs, connections, and the one upsert statement.

SQLite comes with Python; PostgreSQL needs ``pip install 'drainq[postgres]'``. Identifiers are always quoted,
values always bound, and no message shows a password.
"""

from drainq.sql.database import Database, DatabaseError
from drainq.sql.upsert import Merge, Upsert
from drainq.sql.url import DatabaseUrl, Dialect

__all__ = ["Database", "DatabaseError", "DatabaseUrl", "Dialect", "Merge", "Upsert"]
