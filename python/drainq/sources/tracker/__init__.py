"""The item tracker: the state of each item, kept in memory or in a database.

| module | what it holds |
| --- | --- |
| ``tracker`` | :class:`ItemTracker`: what a scheduler and its workers say of items |
| ``store`` | :class:`ItemStore`, what a tracker keeps its states in; the one in memory |
| ``sql`` | the one in SQLite and PostgreSQL |
"""

from drainq.sources.tracker.store import ItemState
from drainq.sources.tracker.tracker import ItemTracker

__all__ = ["ItemState", "ItemTracker"]
