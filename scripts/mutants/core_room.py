"""The room of the core: the faults of `core.py` are planted, one after the other, and must be noticed.

Under `--cfg loom`, and with `--cfg drainq_mutants`, the environment variable DRAINQ_MUTANT names the fault to make. So
two builds serve all of them, and a run of all takes about two minutes.

A mutant is killed if its model or test passes without it and fails with it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from .core import FAULTS, TEST_FAULTS, TESTS, UNFENCED
from .mutant import ROOT, Verdict

SOURCES = ROOT / "crates" / "drainq-core" / "src"
PATIENCE = 300
"""Seconds after which a model has neither passed nor failed."""


def build(cfg: str) -> dict[str, Path]:
    """Build the models (`loom`) or the tests (`drainq_mutants`); returns the test programs by name."""
    command = ["cargo", "test", "-p", "drainq-core", "--lib", "--profile", "model", "--target-dir", f"target/{cfg}"]
    tests = [] if cfg == "loom" else TESTS
    command += [word for test in tests for word in ("--test", test)]
    flags = f"{os.environ.get('RUSTFLAGS', '')} --cfg {cfg}".strip()
    built = subprocess.run(
        [*command, "--no-run", "--message-format", "json-render-diagnostics"],
        cwd=ROOT,
        env={**os.environ, "RUSTFLAGS": flags},
        stdout=subprocess.PIPE,
        text=True,
    )
    if built.returncode != 0:
        sys.exit(f"mutants: the core does not build with --cfg {cfg}")
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    programs = {
        message["target"]["name"]: Path(message["executable"]) for message in messages if message.get("executable")
    }
    if sorted(programs) != sorted(["drainq_core", *tests]):
        sys.exit(f"mutants: expected the library and {tests}, cargo built {programs}")
    return programs


def run(programs: dict[str, Path], model: str, mutant: str | None) -> tuple[str, str]:
    """Run one model or test, with a fault or without; returns how it ended and its first complaint."""
    room, _, rest = model.partition("::")
    program, name = (programs[room], rest) if room in programs else (programs["drainq_core"], model)
    environment = {key: value for key, value in os.environ.items() if key != "DRAINQ_MUTANT"}
    environment["RUST_BACKTRACE"] = "0"
    environment["PROPTEST_DISABLE_FAILURE_PERSISTENCE"] = "1"
    planted = ["claim_fence"] if model.startswith(UNFENCED) else []
    planted += [mutant] if mutant is not None else []
    environment["DRAINQ_MUTANT"] = ",".join(planted)
    command = [str(program), "--exact", name, "--nocapture", "--test-threads", "1"]
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return "no end", f"not over after {PATIENCE} s"
    if "running 1 test" not in done.stdout:
        return "no such model", ""
    if done.returncode == 0:
        return ("passed" if "1 passed" in done.stdout else "no such model"), ""
    complaint = re.search(r"panicked at [^\n]*\n([^\n]*)", done.stdout)
    # A failure in the middle of a model may end the whole program: loom aborts in a destructor.
    return ("failed", complaint[1].strip()) if complaint else ("broke", done.stdout[-200:])


def planted_in_the_sources() -> set[str]:
    """Return the names of all faults in the core's sources."""
    asks = re.compile(r'\b(?:planted|order|full_fence)\(\s*"(\w+)"')
    return {name for path in SOURCES.rglob("*.rs") for name in asks.findall(path.read_text(encoding="utf-8"))}


def functions_of_the_core() -> set[str]:
    """Return the names of all functions in the core's sources and tests."""
    folders = (SOURCES, SOURCES.parent / "tests")
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.rs")]
    return {name for text in texts for name in re.findall(r"\bfn (\w+)", text)}


def names() -> list[str]:
    """Return the names of all faults, in the order in which they are planted."""
    return [name for lists in (FAULTS, TEST_FAULTS) for faults in lists.values() for name in faults]


def check() -> list[str]:
    """Return the differences between the list and the sources."""
    listed, found = set(names()), planted_in_the_sources()
    wrong = [f"{name}: in the sources, but not in scripts/mutants/core.py" for name in sorted(found - listed)]
    wrong += [f"{name}: listed, but not in the sources" for name in sorted(listed - found)]
    functions = functions_of_the_core()
    tests = [test for lists in (FAULTS, TEST_FAULTS) for test in lists]
    return wrong + [f"{test}: no such test" for test in tests if test.rpartition("::")[2] not in functions]


def run_room(chosen: list[str]) -> list[Verdict]:
    """Plant the chosen faults, one after the other, and run the model or test of each."""
    return plant("loom", FAULTS, chosen) + plant("drainq_mutants", TEST_FAULTS, chosen)


def plant(cfg: str, lists: dict[str, dict[str, str]], chosen: list[str]) -> list[Verdict]:
    """Plant those of the chosen faults that are in these lists."""
    verdicts: list[Verdict] = []
    programs: dict[str, Path] = {}
    for model, faults in lists.items():
        wanted = {name: fault for name, fault in faults.items() if name in chosen}
        if not wanted:
            continue
        programs = programs or build(cfg)
        sound, _ = run(programs, model, None)
        print(f"{model}: {sound}")
        for name, fault in wanted.items():
            started = time.monotonic()
            ended, complaint = run(programs, model, name)
            if sound == "passed" and ended == "failed":
                ended = "killed"
            elif ended == "passed":
                ended = "survived"
            verdicts.append(Verdict(name, ended, time.monotonic() - started, f"{fault}: {complaint[:60]}"))
            print(verdicts[-1], flush=True)
    return verdicts
