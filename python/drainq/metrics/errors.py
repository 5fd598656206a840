"""What a user of the access-log job can get wrong."""

from __future__ import annotations

from drainq.errors import DrainqError


class UserError(DrainqError):
    """Something that only the user can put right; the message is one line and says how."""


class FileChanged(UserError):
    """A log changed while it was read."""


class JobFailed(DrainqError):
    """A task failed for good; nothing was loaded."""

    exit_code = 1


class Interrupted(DrainqError):
    """Ctrl-C while tasks were at work: it comes out of Py4J as whatever went wrong because of it."""

    exit_code = 130


def lines_of(error: BaseException) -> list[str]:
    """What an error says, at least one line.

    PySpark asks Java for the text of an error. If Java has ended, asking raises, and the class is all there is.
    """
    try:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    except Exception:
        lines = []
    return lines or [type(error).__name__]


def was_interrupted(error: BaseException) -> bool:
    """Whether a Ctrl-C is what an error came from: PySpark raises it, and then fails to cancel its jobs."""
    seen: set[int] = set()
    while id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__ or error
    return False
