"""What the tests of the access-log job share."""

from __future__ import annotations

from pathlib import Path

import pytest

REAL_LOG = Path(__file__).parents[2] / ".." / "shared" / "data" / "apache_access.log"


@pytest.fixture(scope="session")
def real_log() -> Path:
    """10,000 lines of a real server's log, one of them cut off."""
    if not REAL_LOG.exists():
        pytest.skip("the real log is not at ../shared/data/apache_access.log")
    return REAL_LOG.resolve()
