"""The caller's own connection, which an argument ``connection=`` gives: the driver's, or SQLAlchemy's."""

from __future__ import annotations

from typing import Any


def driver_connection(connection: Any) -> Any:
    """Return the driver's connection of a SQLAlchemy Session or Connection, whose transaction is begun if necessary.

    Any other object is returned as it is. SQLAlchemy is not imported: its objects are known by their methods.
    """
    if callable(getattr(connection, "connection", None)):  # a Session
        connection = connection.connection()
    elif callable(getattr(connection, "in_transaction", None)) and not connection.in_transaction():
        connection.begin()  # else its commit would do nothing
    return getattr(getattr(connection, "connection", None), "driver_connection", connection)
