"""The item tracker: the state of each item, kept in memory or in a database.

| module | what it holds |
| --- | --- |
| ``tracker`` | :class:`ItemTracker`: records the states that a scheduler and its workers report |
| ``store`` | the interface of a tracker's store, and the store in memory |
| ``sql`` | the store in SQLite or PostgreSQL |
"""

from drainq.sources.tracker.store import ItemState
from drainq.sources.tracker.tracker import ItemTracker

__all__ = ["ItemState", "ItemTracker"]
