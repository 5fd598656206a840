"""The logger ``drainq`` and the handler that it has from the start: the one place where the package touches logging.

A library adds a ``logging.NullHandler`` to its logger and leaves all others to the program, says Python's guide to
logging. A plain one would also silence a program that configures no logging, and the log alone says that a handler
without an ``error_handler`` raised, or that a type has no handler. So this one passes warnings and errors on to
Python's last resort, which writes them to standard error, as long as no other handler would get them.

Each module takes the logger by its name. The two modules that import this one, :mod:`drainq._calls` and
:mod:`drainq.fork`, are loaded before anything of the package writes to the log.
"""

from __future__ import annotations

import logging

__all__ = ["log"]


class QuietHandler(logging.NullHandler):
    """Writes nothing where the program configured logging; where it did not, what Python's last resort writes."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Pass a warning or an error to ``logging.lastResort``, if no other handler gets it."""
        last_resort = logging.lastResort
        if last_resort is not None and record.levelno >= last_resort.level and not self._is_heard(record.name):
            last_resort.handle(record)
        return True

    def _is_heard(self, name: str) -> bool:
        # Not by `getLogger`, which takes the lock that all of logging shares: a signal handler may raise in there.
        logger: logging.Logger | logging.PlaceHolder | None = log.manager.loggerDict.get(name, log)
        while isinstance(logger, logging.Logger):
            if any(handler is not self for handler in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


log = logging.getLogger("drainq")
log.addHandler(QuietHandler())
