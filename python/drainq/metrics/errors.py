"""Errors of the access-log job."""

from __future__ import annotations

from drainq.errors import DrainqError


class UserError(DrainqError):
    """The user has to change something. The message is one line and names the change."""


class FileChanged(UserError):
    """A log changed while it was read."""


class JobFailed(DrainqError):
    """A task failed for good; nothing was loaded."""

    exit_code = 1


class Interrupted(DrainqError):
    """Ctrl-C ended the running tasks. Py4J may report any error that followed from it."""

    exit_code = 130


def lines_of(error: BaseException) -> list[str]:
    """Return the lines of an error's text, at least one.

    PySpark asks Java for the text of an error. If Java has ended, ``str`` raises, and the line is the class's name.
    """
    try:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    except Exception:
        lines = []
    return lines or [type(error).__name__]


def was_interrupted(error: BaseException) -> bool:
    """Return whether Ctrl-C caused an error. If PySpark then cannot cancel its jobs, PySpark raises another error."""
    seen: set[int] = set()
    while id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__ or error
    return False
