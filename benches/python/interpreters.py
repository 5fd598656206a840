"""Single calls and the whole way on every CPython at hand, from the one abi3 wheel and from a wheel for that version.

Run it:  python -m benches.python.interpreters [--rounds N] [--out DIR] python3.10 python3.12 ...

Each interpreter gets two temporary environments with a wheel each. A round is a process of each environment, one
after the other, so that a slow moment of the machine meets all of them. A process compares drainq with the
standard library's queues burst by burst.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benches import protocol
from benches.protocol import AtMostTimes, Faster, Goal, Report

ROOT = Path(__file__).resolve().parent.parent.parent
ABI3, OWN = "drainq, abi3", "drainq, version-specific"
WHEELS = {ABI3: [], OWN: ["--no-default-features"]}
"""Both kinds of wheel, with the options that build it."""

CALLS = """
import json, statistics
from benches.python import hot_path as bench
from benches.python.batch_loads import dataclasses
from benches.python.batch_rivals import RIVALS, SIMPLE
from benches.versus.batch_queue import ROOM, through
items, lists = [bench.Item()] * 10_000, [[bench.Item()] * 100] * 100
one = bench.open_queue([bench.Item])
with one:
    calls = {
        "produce": bench.ours(one, items), "SimpleQueue.put": bench.simple_queue(items),
        "produce_many(100)": bench.ours(one, lists, many=True), "deque.extend": bench.deque(lists, many=True),
    }
    costs = {name: [] for name in calls}
    for _ in range(60):
        for name, call in calls.items():
            costs[name].append(call.cost(1, 10_000))
load = dataclasses(100)
for name, rival in (("end to end", RIVALS[bench.OURS]), (SIMPLE, RIVALS[SIMPLE])):
    costs[name] = [through(rival, load, 100_000, 4, ROOM).wall for _ in range(5)]
print(json.dumps({name: statistics.median(cost) for name, cost in costs.items()}))
"""

COMPARED: tuple[tuple[str, str, Callable[[str, str], Goal]], ...] = (
    ("produce", "SimpleQueue.put", lambda ours, rival: AtMostTimes(ours, rival, 1.0)),
    ("produce_many(100)", "deque.extend", lambda ours, rival: AtMostTimes(ours, rival, 1.5)),
    ("end to end", "SimpleQueue", lambda ours, rival: Faster(ours, rival, 1.2)),
)
"""What a process measures of drainq, beside what, and what must hold."""


def main() -> int:
    """Measure with the interpreters that were named."""
    parser = argparse.ArgumentParser(description="Single calls on several interpreters.")
    parser.add_argument("pythons", nargs="+", metavar="PYTHON", help="the command of an interpreter")
    options = protocol.arguments(parser)
    report = Report("interpreters", options)
    rounds = protocol.rounds(options, 9, quick=2)
    with tempfile.TemporaryDirectory() as folder:
        rooms = {
            (version_of(python), wheel): environment(python, wheel, Path(folder))
            for python in options.pythons
            for wheel in WHEELS
        }
        runs: dict[tuple[str, str], list[dict[str, float]]] = {key: [] for key in rooms}
        for number in range(-1, rounds):
            for key, room in rooms.items():
                costs = measure(room)
                if number >= 0:
                    runs[key].append(costs)
    for version in dict.fromkeys(version for version, _ in rooms):
        for call, rival, goal_of in COMPARED:
            costs = {wheel: [run[call] for run in runs[version, wheel]] for wheel in WHEELS}
            costs[rival] = [run[rival] for run in runs[version, ABI3]]
            report.add(protocol.figure(f"{call}, CPython {version}", "s/item", costs, [goal_of(ABI3, rival)]))
    return report.finish()


def version_of(python: str) -> str:
    """Return the version of an interpreter."""
    command = [python, "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def environment(python: str, wheel: str, folder: Path) -> Path:
    """Make an environment of this interpreter with drainq from the wheel. Return its interpreter."""
    print(f"building: {wheel}, {python}", file=sys.stderr, flush=True)
    room = folder / f"{version_of(python)}-{len(WHEELS[wheel])}"
    run(python, "-m", "venv", room)
    inside = room / "bin" / "python"
    build = [sys.executable, "-m", "maturin", "build", "--release", "--quiet", "--interpreter", inside]
    run(*build, "--out", room / "wheels", *WHEELS[wheel])
    (made,) = (room / "wheels").glob("*.whl")
    run(inside, "-m", "pip", "install", "--quiet", made)
    return inside


def run(*command: str | Path) -> None:
    """Run a command at the root of the project."""
    subprocess.run([str(word) for word in command], cwd=ROOT, check=True)


def measure(python: Path) -> dict[str, float]:
    """Measure the seconds for an item of each call, in a new process."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [str(python), "-c", CALLS]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ, cwd=python.parent)
    costs: dict[str, float] = json.loads(done.stdout)
    return costs


if __name__ == "__main__":
    sys.exit(main())
