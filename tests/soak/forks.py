"""A fork in the middle of a round: the child starts empty, works, and ends; the parent notices nothing."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import traceback
from typing import TYPE_CHECKING

from drainq import BatchQueue
from tests.soak.hostile import Item
from tests.soak.ledger import PATIENCE, Ledger, Wrong, wait_until

if TYPE_CHECKING:
    from tests.soak.batch import Round


def fork_and_check(round: Round, queue: BatchQueue) -> None:
    """Fork now; raise what the child found wrong."""
    child = os.fork()
    if child == 0:
        try:
            # A child that stalls prints its stacks and dies. (The watchdog of faulthandler is a thread, which a
            # child does not have.)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
            signal.setitimer(signal.ITIMER_REAL, 1.5 * PATIENCE)
            _in_child(round, queue)
            status = 0
        except BaseException:
            traceback.print_exc()
            status = 3
        sys.stderr.flush()
        os._exit(status)
    ended: list[int] = []

    def over() -> bool:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            ended.append(os.waitstatus_to_exitcode(status))
        return bool(ended)

    wait_until(over, "a forked child", 2 * PATIENCE)
    if ended[0] != 0:
        raise Wrong(f"a forked child ended with {ended[0]}")


def _in_child(round: Round, queue: BatchQueue) -> None:
    ledger = round.ledger
    for handler in round.handlers:  # their threads are the parent's
        handler.quiet, handler.inside = True, threading.Lock()
    seen = len(ledger.seen)
    stats = queue.stats()
    if (stats.offered, stats.queued, stats.handled) != (0, 0, 0) and not round.signals.interval:
        raise Wrong(f"the child did not start empty: {stats}")
    if not queue.running:
        return
    fresh = Ledger(weighs=ledger.weighs)
    fresh.numbers = ledger.numbers
    # A key that is equal to the handlers' own, without their mischief.
    items = [Item(fresh, "child", 0 if round.keys else None) for _ in range(20)]
    if round.keys and not round.consumer:
        queue.add_handler(0, round._handler("child"))
        round.handlers[-1].quiet = True
    taken = [item for item in items if queue.offer(item, timeout=PATIENCE)]
    if len(taken) != len(items):
        raise Wrong(f"the child's queue took {len(taken)} of {len(items)} items: {queue.stats()}")
    if not queue.flush(PATIENCE):
        raise Wrong(f"the child's queue does not drain: {queue.stats()}")
    got = {item.number for item in ledger.seen[seen:]}
    if missing := [item for item in taken if item.number not in got]:
        raise Wrong(f"{len(missing)} of {len(taken)} of the child's items were never handled: {queue.stats()}")
    if not queue.shutdown(PATIENCE):
        raise Wrong(f"the child's queue gave up: {queue.stats()}")
