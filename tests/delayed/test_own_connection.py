"""Offers and acknowledgements in a transaction of SQLAlchemy, whose sessions and connections wrap the driver's."""

from __future__ import annotations

import sqlite3
from types import SimpleNamespace

import pytest

from drainq.delayed.own_connection import driver_connection


class Connection:
    """What drainq uses of a Connection of SQLAlchemy; the test below runs the real one if it is installed."""

    def __init__(self, driver):
        self.connection = SimpleNamespace(driver_connection=driver)
        self.begun = False

    def in_transaction(self):
        return self.begun

    def begin(self):
        assert not self.begun
        self.begun = True


def test_the_drivers_connection_is_found_and_a_transaction_is_begun_once():
    with sqlite3.connect(":memory:") as driver:
        wrapped = Connection(driver)
        assert driver_connection(wrapped) is driver_connection(wrapped) is driver and wrapped.begun
        assert driver_connection(SimpleNamespace(connection=lambda: wrapped)) is driver
        assert driver_connection(driver) is driver and driver_connection(None) is None
    driver.close()


@pytest.mark.parametrize("kind", ["session", "connection"])
def test_an_offer_and_an_ack_take_part_in_a_transaction_of_sqlalchemy(world, kind):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    orm = pytest.importorskip("sqlalchemy.orm")
    queue = world.open()
    engine = sqlalchemy.create_engine(world.url.replace("postgresql://", "postgresql+psycopg://"))

    def transaction():
        return orm.Session(engine) if kind == "session" else engine.connect()

    with transaction() as mine:
        queue.offer("lost", 1, connection=mine)
        mine.rollback()
        queue.offer("kept", 2, priority=3, connection=mine)
        mine.commit()
        queue.offer("forgotten", 3, connection=mine)
    assert [row.key for row in queue.peek()] == ["kept"]
    envelope = queue.try_poll()
    with transaction() as mine:
        assert envelope.ack(connection=mine) and mine.rollback() is None
        assert queue.contains_message("kept")
        assert envelope.ack(connection=mine) and mine.commit() is None
    assert not queue.contains_message("kept")
    engine.dispose()
