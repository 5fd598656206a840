"""The threads of a round, and what a failed round says of itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from tests.soak.ledger import PATIENCE, Wrong


class Round(Protocol):
    """One queue's life."""

    def run(self) -> None:
        """Run it whole; raises Wrong if a promise was broken."""
        ...


def unstarted(wrong: list[str], work: Callable[..., object], *args: Any) -> threading.Thread:
    """A thread that is not started; what its work raises goes into ``wrong``."""

    def body() -> None:
        try:
            work(*args)
        except BaseException as error:
            wrong.append(f"{args}: {error!r}")

    return threading.Thread(target=body, daemon=True)


def join(threads: list[threading.Thread], stats: Callable[[], object]) -> None:
    """Wait for the threads; a thread that does not end is an error that shows ``stats()``."""
    for each in threads:
        each.join(PATIENCE)
        if each.is_alive():
            raise Wrong(f"a thread has not ended in {PATIENCE:.0f} s: {stats()}")


def run_round(round: Round) -> None:
    """Run a round; on failure its settings are part of the error."""
    try:
        round.run()
    except Exception as error:
        raise Wrong(f"{error!r}\n{round}") from error
