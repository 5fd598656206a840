"""No test of the multi-queue waits for ever."""

from __future__ import annotations

from tests.time_limit import SECONDS, each_test_within

time_limit = each_test_within(SECONDS)
