"""Helpers for the tests of following: an end after some steps, and a clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drainq.metrics.follow.run import follow
from drainq.sql import Database

SETTLED = 10.0


class Steps:
    """Says that the following ends after some steps, each of which is done between two rounds."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self._steps = list(steps)

    def wait(self, seconds: float) -> bool:
        if not self._steps:
            return True
        self._steps.pop(0)()
        return False


class Following:
    """Follows in the test's directory, in threads; files that the test makes are an hour old for it.

    Args:
        tmp_path: of the test.
    """

    def __init__(self, tmp_path: Path) -> None:
        self.out, self.said, self.now = tmp_path / "out", [], time.time() + 3600
        self.url = f"sqlite:///{self.out}/metrics.db"

    def __call__(self, path: Path | str, *steps: Callable[[], object], **more: Any) -> Any:
        options = {"engine": None if not Path(path).is_dir() else "local", "settled": SETTLED, **more}
        return follow(
            str(path), out=self.out, ended=Steps(*steps), say=self.said.append, now=lambda: self.now, **options
        )

    def later(self, seconds: float = SETTLED + 1) -> None:
        """Let time pass."""
        self.now += seconds

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return rows of the database."""
        with Database(self.url) as database:
            return database.execute(query)

    def requests(self) -> int:
        """Return all requests in the tables."""
        (by_minute,), (by_endpoint,) = (
            self.ask(f"SELECT COALESCE(SUM(requests), 0) FROM {t}")[0] for t in ("service_minute", "endpoint_minute")
        )
        assert by_minute == by_endpoint
        return by_minute
