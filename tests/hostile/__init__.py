"""Every public call, from and into Python code that bites.

A *room* is a module here with a table: its classes (``CLASSES``) and for each of their methods a function
that calls it (``ENTRIES``). ``mischief.py`` has what bites: it knows no queue. ``__main__.py`` runs one
room's table in a process of its own; ``test_hostile.py`` runs those with a time limit.

To add a room: write its module after the model of ``batch.py`` and name it in ``ROOMS`` in ``__main__.py``.
"""
