"""Whether driver and executors run the same drainq: what travels between them is made of its classes."""

from __future__ import annotations

from drainq._native import __version__
from drainq.errors import DrainqError

installed: str = __version__
"""The version in this process."""


class VersionMismatch(DrainqError):
    """An executor has another version of drainq than the driver."""


def check_version(drivers: str) -> None:
    """Raise if this process has another version; called in a task.

    Args:
        drivers: the version that the driver has.
    Raises:
        VersionMismatch: it names both versions and the ways out.
    """
    if drivers != installed:
        raise VersionMismatch(
            f"the driver has drainq {drivers}, this executor has {installed}: install the same version on both, or "
            "call drainq.spark.ship(spark) in the driver"
        )
