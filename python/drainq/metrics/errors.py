"""What a user of the access-log job can get wrong."""

from __future__ import annotations

from drainq.errors import DrainqError


class UserError(DrainqError):
    """Something that only the user can put right; the message is one line and says how."""


class JobFailed(DrainqError):
    """Spark gave up on the job; nothing was loaded. The message names the log that tells more."""

    exit_code = 1
