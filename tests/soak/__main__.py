"""The driver: starts rooms one after the other, each as a process, watches their heartbeats, and says what was wrong.

    python -m tests.soak --seconds 600                           # all rooms, turn and turn about
    python -m tests.soak --room batch --seed 1234 --rounds 20    # what failed, again
    python -m tests.soak --seconds 3600 --keep-going             # do not stop at the first failure

Exit code: 0 if no round failed. A room without a heartbeat for STALL seconds is asked for the stacks of all its
threads, Python's and, where there is gdb, the machine's; then it is killed, and counts as failed.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.soak.room import ROOMS

ROOT = Path(__file__).resolve().parents[2]
STALL = 200.0
"""Seconds without a new round after which a room stalls: longer than any wait within a round."""


@dataclass
class Ended:
    """How a process of a room ended."""

    seed: int  # of its last round
    rounds: int
    problem: str  # empty: none
    said: str


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description="Random programs on real threads, with an exact account.")
    parser.add_argument("--room", choices=ROOMS, action="append", help="all of them if none is named")
    parser.add_argument("--seed", type=int, help="of the first round; random if not given")
    parser.add_argument("--rounds", type=int, help="run one room, and this seed so many times")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    asked = parser.parse_args()
    if asked.rounds and (asked.seed is None or len(asked.room or ()) != 1):
        parser.error("--rounds needs one --room and a --seed")
    first = int(time.time()) % 1_000_000 * 1000 if asked.seed is None else asked.seed
    rooms, end, seed = asked.room or list(ROOMS), time.monotonic() + asked.seconds, first
    done, failures = dict.fromkeys(rooms, 0), 0
    print(f"soak: seed {first}, {asked.seconds:.0f} s", flush=True)
    while (left := end - time.monotonic()) > 0:
        for room in rooms:
            share = min(max(2.0, left / len(rooms)), 20.0)
            ended = run(room, seed, seconds=share, rounds=asked.rounds)
            done[room] += ended.rounds
            if ended.problem:
                failures += 1
                print(f"FAILED {room}, seed {ended.seed}: {ended.problem}\n{ended.said}", flush=True)
                print(f"again: python -m tests.soak --room {room} --seed {ended.seed} --rounds 20", flush=True)
        if asked.rounds or (failures and not asked.keep_going):
            break
        seed += 1000
    print(f"soak: {failures} failures; rounds: {done}", flush=True)
    return 1 if failures or not all(done.values()) else 0


def run(room: str, seed: int, *, seconds: float, rounds: int | None) -> Ended:
    """Run one room for a while, in a process of its own."""
    command = [sys.executable, "-m", "tests.soak.room", room, "--seed", str(seed)]
    command += ["--rounds", str(rounds), "--same", "--seconds", "1e9"] if rounds else ["--rounds", "900"]
    command += [] if rounds else ["--seconds", str(seconds)]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, text=True,
            start_new_session=True, env={**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        )  # fmt: skip
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_read, args=(process, lines), daemon=True).start()
        ended = Ended(seed, 0, "", "")
        over = False
        while True:
            try:
                line = lines.get(timeout=STALL)
            except queue.Empty:
                ended.problem = f"no heartbeat for {STALL:.0f} s"
                _show_stacks(process)
                break
            if line is None:
                break
            word, _, rest = line.partition(" ")
            if word == "round":
                ended.seed = int(rest)
                ended.rounds += 1
            over = over or word == "over"
        code = _end(process)
        if not ended.problem and (code != 0 or not over):
            ended.problem = f"the process ended with {code}"
        said.seek(0)
        ended.said = said.read()[-20_000:]
    return ended


def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
        if line.startswith("over"):
            break
    process.wait()
    lines.put(None)


def _show_stacks(process: subprocess.Popen[str]) -> None:
    if gdb := shutil.which("gdb"):
        command = [gdb, "-p", str(process.pid), "-batch", "-ex", "thread apply all bt 12"]
        shown = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        print("\n".join(line[:160] for line in shown.stdout.splitlines() if line.startswith(("#", "Thread"))))
    process.send_signal(signal.SIGABRT)  # faulthandler prints Python's own


def _end(process: subprocess.Popen[str]) -> int:
    """Return its exit code, once it and whatever it started are gone."""
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
