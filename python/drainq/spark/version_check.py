"""The check that driver and executors have the same drainq, because they exchange its objects."""

from __future__ import annotations

from drainq._native import __version__
from drainq.errors import DrainqError

installed: str = __version__
"""The version in this process."""


class VersionMismatch(DrainqError):
    """An executor has another version of drainq than the driver."""


def check_version(drivers: str) -> None:
    """Raise an error if this process has another version. Tasks call this.

    Args:
        drivers: the driver's version.
    Raises:
        VersionMismatch: the message names both versions and the remedies.
    """
    if drivers != installed:
        raise VersionMismatch(
            f"the driver has drainq {drivers}, this executor has {installed}: install the same version on both, or "
            "call drainq.spark.ship(spark) in the driver"
        )
