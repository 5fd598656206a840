"""The rooms of text mutants, by the name that the command line knows. A new list is named here."""

from __future__ import annotations

from .aio import MUTANTS as AIO
from .binding import MUTANTS as BINDING
from .columns import MUTANTS as COLUMNS
from .delayed import MUTANTS as DELAYED
from .export import MUTANTS as EXPORT
from .jobs import MUTANTS as JOBS
from .life import MUTANTS as LIFE
from .messages import MUTANTS as MESSAGES
from .monitoring import MUTANTS as MONITORING
from .multi import MUTANTS as MULTI
from .mutant import Mutant
from .operated import MUTANTS as OPERATED
from .outcomes import MUTANTS as OUTCOMES
from .python import MUTANTS as PYTHON
from .routing import MUTANTS as ROUTING
from .set_queue import MUTANTS as SET_QUEUE
from .sketch import MUTANTS as SKETCH
from .workers import MUTANTS as WORKERS

ROOMS: dict[str, list[Mutant]] = {
    "aio": AIO,
    "binding": BINDING,
    "life": LIFE,
    "routing": ROUTING,
    "monitoring": MONITORING,
    "multi": MULTI,
    "set_queue": SET_QUEUE,
    "delayed": DELAYED,
    "messages": MESSAGES,
    "operated": OPERATED,
    "outcomes": OUTCOMES,
    "python": PYTHON,
    "jobs": JOBS,
    "export": EXPORT,
    "columns": COLUMNS,
    "sketch": SKETCH,
    "workers": WORKERS,
}
