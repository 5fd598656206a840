"""`make mutants`: plants one known fault after the other and runs the test that must notice.

    python -m scripts.mutants                      # all rooms
    python -m scripts.mutants --room native        # one room
    python -m scripts.mutants ownership_end            # some mutants, of any room
    python -m scripts.mutants --check              # only: does each still apply?

Exit code: 0 if every mutant was killed, else 1. A mutant that does not apply any more is not killed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from . import core_room, room
from .mutant import Mutant, Verdict
from .rooms import ROOMS
from .tree import DoesNotApply, faulty


def check(mutants: list[Mutant]) -> list[str]:
    """Return the faults of the lists, found without a build: names that occur twice, texts that do not apply."""
    counts = Counter([*core_room.names(), *(mutant.name for mutants in ROOMS.values() for mutant in mutants)])
    wrong = [f"{name}: the name of {count} mutants" for name, count in counts.items() if count > 1]
    wrong += core_room.check()
    for mutant in mutants:
        try:
            if mutant.old == mutant.new:
                wrong.append(f"{mutant.name}: changes nothing")
            faulty(mutant)
        except DoesNotApply as why:
            wrong.append(f"{mutant.name}: {why}")
    return wrong


def arguments() -> tuple[list[str], list[Mutant], bool]:
    """Return the chosen faults of the core, the chosen text mutants, and whether to check only."""
    parser = argparse.ArgumentParser(prog="mutants", description="Plants faults and checks that the tests notice.")
    parser.add_argument("names", nargs="*", metavar="MUTANT", help="all of them if none is named")
    parser.add_argument("--room", choices=["core", *ROOMS], help="the mutants of one room")
    parser.add_argument("--check", action="store_true", help="plant nothing, only see whether each applies")
    asked = parser.parse_args()
    planted = core_room.names() if asked.room in (None, "core") else []
    texts = [mutant for name, mutants in ROOMS.items() if asked.room in (None, name) for mutant in mutants]
    if asked.names:
        if unknown := set(asked.names) - {*planted, *(mutant.name for mutant in texts)}:
            parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
        planted = [name for name in planted if name in asked.names]
        texts = [mutant for mutant in texts if mutant.name in asked.names]
    return planted, texts, asked.check


def main() -> int:
    planted, texts, check_only = arguments()
    wrong = check(texts)
    for complaint in wrong:
        print(f"mutants: {complaint}")
    if check_only:
        print(f"{len(planted) + len(texts)} mutants looked at, {len(wrong)} complaints")
    if check_only or wrong:
        return 1 if wrong else 0
    started = time.monotonic()
    verdicts: list[Verdict] = []
    verdicts += core_room.run_room(planted) if planted else []
    verdicts += room.run_room(texts) if texts else []
    alive = [verdict for verdict in verdicts if verdict.ended != "killed"]
    for verdict in alive:
        print(f"not killed: {verdict.name}: {verdict.ended}: {verdict.note}")
    killed = len(verdicts) - len(alive)
    print(f"{killed} of {len(verdicts)} mutants killed in {time.monotonic() - started:.0f} s")
    return 0 if verdicts and not alive else 1


if __name__ == "__main__":
    sys.exit(main())
