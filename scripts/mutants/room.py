"""Runs a room of text mutants: all its tests without a fault first, then each test with its fault.

Only a test that passes on the sound copy can kill. It has to run to its end: a test that is skipped, is not
found or cannot be collected is no proof.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from .mutant import Mutant, Verdict
from .tree import DoesNotApply, Tree

PATIENCE = 90
"""Seconds after which a test of a planted fault counts as hanging. Without a fault each test takes far less."""

IMPATIENCE = 45
"""The same for a mutant whose test may hang."""


def run_room(mutants: Sequence[Mutant]) -> list[Verdict]:
    """Plant the mutants one after the other, and run the test of each."""
    tree = Tree()
    tree.copy()
    if complaint := tree.build():
        sys.exit(f"mutants: the copy does not build without a fault\n{complaint}")
    tree.keep_native()
    sound = _sound_tests(tree, mutants)
    verdicts = []
    for mutant in mutants:
        started = time.monotonic()
        ended, note = _run(tree, mutant, sound)
        verdicts.append(Verdict(mutant.name, ended, time.monotonic() - started, f"{mutant.breaks}: {note}"[:150]))
        print(verdicts[-1], flush=True)
    return verdicts


def _sound_tests(tree: Tree, mutants: Sequence[Mutant]) -> set[str]:
    """Return the tests that pass without a fault."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    started = time.monotonic()
    ended, note = _pytest(tree, tests, PATIENCE + 10 * len(tests))
    if ended == "passed":
        sound = set(tests)
    else:  # a test of them fails, so they run one by one
        print(f"without a fault: {note}", flush=True)
        sound = {test for test in tests if _pytest(tree, [test], PATIENCE)[0] == "passed"}
    for test in tests:
        if test not in sound:
            print(f"  NO PROOF  {test} does not pass without a fault", flush=True)
    print(f"without a fault: {len(sound)} of {len(tests)} tests pass, {time.monotonic() - started:.0f} s", flush=True)
    return sound


def _run(tree: Tree, mutant: Mutant, sound: set[str]) -> tuple[str, str]:
    if missing := [test for test in mutant.tests if test not in sound]:
        return "no proof", f"{missing[0]} does not pass without it"
    try:
        tree.plant(mutant)
    except DoesNotApply as why:
        return "misfit", str(why)
    try:
        if mutant.is_native and (complaint := tree.build()):
            return "no build", complaint.splitlines()[0]
        ended, note = _pytest(tree, mutant.tests, IMPATIENCE if mutant.dies == "hangs" else PATIENCE)
    finally:
        tree.restore(mutant)
        if mutant.is_native:
            tree.restore_native()
    if ended == "failed" or ended == mutant.dies:
        return "killed", note
    return ("survived" if ended == "passed" else ended), note


def _pytest(tree: Tree, tests: Sequence[str], patience: float) -> tuple[str, str]:
    """Run tests on the copy. Return how they ended, and the failed test or the last line of pytest."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", "--tb=line", *tests]
    path = {"PYTHONPATH": str(tree.top / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    started = subprocess.Popen(
        command, cwd=tree.top, env={**os.environ, **path}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = started.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)  # the test's own processes as well
        started.communicate()
        return "hangs", f"not over after {patience:.0f} s"
    return _ended(started.returncode, said)


def _ended(code: int, said: str) -> tuple[str, str]:
    summaries = re.findall(r"^.*\b\d+ (?:passed|failed|skipped|errors?)\b.* in [\d.]+s.*$", said, re.MULTILINE)
    last = summaries[-1] if summaries else said.strip().rpartition("\n")[2]
    if code == 0 and "skipped" in last:
        return "skipped", last
    if code == 0 and re.search(r"\b[1-9]\d* passed", last):
        return "passed", last
    if code == 1 and "failed" in last:
        failed = re.search(r"^FAILED (\S+)", said, re.MULTILINE)
        return "failed", failed[1].rpartition("::")[2] if failed else last
    if code < 0 or code > 128:
        return "crashes", f"pytest ended with {code}"
    return "broke", f"pytest ended with {code}: {last}"
