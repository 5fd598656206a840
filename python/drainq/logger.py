"""The logger ``drainq``, and its only handler.

Python's guide to logging tells a library to add only a ``logging.NullHandler`` to its logger. That would hide all log
lines of a program that configures no logging. But only the log reports that a handler without an ``on_error``
raised, or that a type has no handler. So this handler passes warnings and errors to Python's last resort, which writes
them to standard error, as long as no other handler gets them.

Other modules get the logger by its name. The two modules that import this module, :mod:`drainq._calls` and
:mod:`drainq.fork`, are loaded before any code of the package writes to the log.
"""

from __future__ import annotations

import logging

__all__ = ["log"]


class QuietHandler(logging.NullHandler):
    """Writes nothing if the program configured logging. Otherwise it writes what Python's last resort writes."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Pass a warning or an error to ``logging.lastResort``, if no other handler gets it."""
        last_resort = logging.lastResort
        if last_resort is not None and record.levelno >= last_resort.level and not self._is_heard(record.name):
            last_resort.handle(record)
        return True

    def _is_heard(self, name: str) -> bool:
        # `getLogger` is not used: it takes the lock that all of logging shares, and a signal handler may raise in it.
        logger: logging.Logger | logging.PlaceHolder | None = log.manager.loggerDict.get(name, log)
        while isinstance(logger, logging.Logger):
            if any(handler is not self for handler in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


log = logging.getLogger("drainq")
log.addHandler(QuietHandler())
