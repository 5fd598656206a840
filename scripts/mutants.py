#!/usr/bin/env python3
"""Shows that each model can fail: plants one fault after the other and runs the model that must notice.

A fault is a place in the core that asks `planted("name")`, `order("name", ..)` or `full_fence("name")`.
Under `--cfg loom` the environment variable DRAINQ_MUTANT names the one to make. So one build serves all
of them, and a run of all takes about a minute.

A mutant is killed if its model passes without it and fails with it. Exit code: 0 if all are killed and
the list below is the list of faults in the sources, else 1.

    python3 scripts/mutants.py             # all of them
    python3 scripts/mutants.py lease_end   # some
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "crates" / "drainq-core" / "src"
PATIENCE = 300
"""Seconds after which a model has neither passed nor failed."""


@dataclass(frozen=True)
class Mutant:
    """One fault: its name, the model that must fail, and what is wrong."""

    name: str
    model: str
    fault: str


MUTANTS = [
    Mutant("ring_publish", "models::ring::every_item_arrives_once_and_each_producers_in_order", "publish an item Relaxed"),
    Mutant("ring_read", "models::ring::every_item_arrives_once_and_each_producers_in_order", "read a place Relaxed"),
    Mutant("ring_free", "models::ring::a_place_is_free_again_once_its_item_was_taken", "move the head Relaxed"),
    Mutant("ring_head", "models::ring::a_place_is_free_again_once_its_item_was_taken", "read the head Relaxed in a claim"),
    Mutant("ring_limit", "models::ring::a_producer_may_go_by_what_another_saw_of_the_consumer", "pass the limit on Relaxed"),
    Mutant("ring_limit_read", "models::ring::a_producer_may_go_by_what_another_saw_of_the_consumer", "read the limit Relaxed"),
    Mutant("ring_check_then_push", "models::ring::an_item_is_accepted_before_the_close_or_refused", "check CLOSED, then add"),
    Mutant("ring_len", "models::ring::the_length_is_never_negative", "read the head Relaxed for the length"),
    Mutant("segment_install", "models::ring::every_item_arrives_once_and_each_producers_in_order", "install a segment Relaxed"),
    Mutant("segment_find", "models::ring::every_item_arrives_once_and_each_producers_in_order", "a producer finds it Relaxed"),
    Mutant("segment_read", "models::ring::every_item_arrives_once_and_each_producers_in_order", "the consumer finds it Relaxed"),
    Mutant("segment_recycle", "models::ring::a_segment_is_used_again_with_all_its_places_empty", "give a segment back Relaxed"),
    Mutant("segment_reuse", "models::ring::a_segment_is_used_again_with_all_its_places_empty", "use it again Relaxed"),
    Mutant("table_publish", "models::table::a_reader_of_the_length_sees_the_element", "publish the length Relaxed"),
    Mutant("table_read", "models::table::a_reader_of_the_length_sees_the_element", "read the length Relaxed"),
    Mutant("lease_begin", "models::lease::the_next_owner_sees_the_whole_pass_of_the_last", "begin a pass Relaxed"),
    Mutant("lease_end", "models::lease::the_next_owner_sees_the_whole_pass_of_the_last", "end a pass Relaxed"),
    Mutant("lease_no_fence", "models::lease::the_next_owner_sees_the_whole_pass_of_the_last", "assign without the cycle fence"),
    Mutant("lease_anybody", "models::lease::after_the_revoke_the_old_owner_starts_no_other_pass", "begin without being the owner"),
    Mutant("cycle_fence_drain_thread", "models::cycle_fence::a_counted_pass_is_over_only_with_full_fences_on_both_sides", "AcqRel"),
    Mutant("cycle_fence_rebalancer", "models::cycle_fence::a_counted_pass_is_over_only_with_full_fences_on_both_sides", "AcqRel"),
    Mutant("wake_producer_fence", "models::wake::an_item_published_to_an_idle_thread_is_never_missed", "no fence in the producer"),
    Mutant("wake_sleeper_fence", "models::wake::an_item_published_to_an_idle_thread_is_never_missed", "no fence in the sleeper"),
    Mutant("wake_settle", "models::wake::within_the_producers_lock_no_fence_is_needed", "no settling before the second look"),
    Mutant("wake_second_look", "models::wake::an_item_published_to_an_idle_thread_is_never_missed", "no second look"),
    Mutant("space_caller_fence", "models::space::a_waiting_producer_is_called_when_a_place_is_freed", "no fence after freeing"),
    Mutant("space_waiter_fence", "models::space::a_waiting_producer_is_called_when_a_place_is_freed", "no fence after enlisting"),
    Mutant("space_pass_on", "models::space::a_called_producer_that_gives_up_calls_the_next", "a call is lost with its producer"),
    Mutant("space_unused_call", "models::space::each_freed_place_finds_its_producer", "a call that was not needed is lost"),
    Mutant("move_epoch", "models::moves::a_partition_given_to_a_sleeping_thread_is_drained", "a move does not bump the epoch"),
    Mutant("move_wake", "models::moves::a_partition_given_to_a_sleeping_thread_is_drained", "a move does not wake the owner"),
    Mutant("move_fence", "models::moves::a_partition_given_to_a_sleeping_thread_is_drained", "no fence before that wake-up"),
    Mutant("move_epoch_publish", "models::moves::a_partition_given_to_a_sleeping_thread_is_drained", "bump the epoch Relaxed"),
    Mutant("move_epoch_read", "models::moves::a_partition_given_to_a_sleeping_thread_is_drained", "read the epoch Relaxed"),
    Mutant("move_at_pass_end", "models::moves::a_pass_hands_the_partition_over_when_it_ends", "a pass ends, nobody is told"),
    Mutant("grow_epoch", "models::moves::a_new_partition_is_drained", "growth does not bump the epoch"),
    Mutant("flush_publish", "models::ends::a_flush_returns_after_the_handler_call", "say Relaxed that a pass is over"),
    Mutant("flush_read", "models::ends::a_flush_returns_after_the_handler_call", "hear it Relaxed"),
    Mutant("flush_call", "models::ends::a_flush_returns_after_the_handler_call", "do not call who waits for it"),
    Mutant("flush_after_cut", "models::ends::a_flush_does_not_count_what_the_cut_gave_up", "count what the cut took as done"),
    Mutant("close_call_producers", "models::ends::a_close_releases_a_blocked_producer_with_its_item", "leave producers waiting"),
    Mutant("close_wake_threads", "models::ends::a_close_loses_nothing_and_ends_the_thread", "leave drain threads asleep"),
    Mutant("close_wake_peers", "models::ends::at_a_close_every_thread_ends", "end without waking the others"),
    Mutant("cut_unpublished", "models::ends::a_cut_counts_an_item_that_is_being_pushed", "leave a claimed place behind"),
    Mutant("cut_account", "models::ends::a_cut_counts_each_item_once", "account for a batch after the cut"),
    Mutant("multi_enter", "multi::models::every_blocked_putter_is_woken_by_room_of_its_own", "line up without a look"),
    Mutant("multi_pass_on", "multi::models::a_putter_that_gives_up_passes_its_wake_up_on", "a wake-up goes to nobody"),
    Mutant("multi_spent", "multi::models::every_blocked_getter_is_woken_by_an_item_of_its_own", "a wake-up counts twice"),
    Mutant("multi_final", "multi::models::shutdown_wakes_getters_and_putters", "shutdown wakes nobody"),
]


def build() -> Path:
    """Build the models; returns the test program."""
    command = ["cargo", "test", "-p", "drainq-core", "--lib", "--profile", "model", "--target-dir", "target/loom"]
    flags = f"{os.environ.get('RUSTFLAGS', '')} --cfg loom".strip()
    built = subprocess.run(
        [*command, "--no-run", "--message-format", "json-render-diagnostics"],
        cwd=ROOT,
        env={**os.environ, "RUSTFLAGS": flags},
        stdout=subprocess.PIPE,
        text=True,
    )
    if built.returncode != 0:
        sys.exit("mutants: the models do not build")
    programs = [message["executable"] for line in built.stdout.splitlines() if (message := json.loads(line)).get("executable")]
    if len(programs) != 1:
        sys.exit(f"mutants: expected one test program, cargo built {programs}")
    return Path(programs[0])


def run(program: Path, model: str, mutant: str | None) -> tuple[str, str]:
    """Run one model, with a fault or without; returns how it ended and its first complaint."""
    environment = {key: value for key, value in os.environ.items() if key != "DRAINQ_MUTANT"}
    environment["RUST_BACKTRACE"] = "0"
    if mutant is not None:
        environment["DRAINQ_MUTANT"] = mutant
    command = [str(program), "--exact", model, "--nocapture", "--test-threads", "1"]
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
    """The names of all faults that the core asks for."""
    asks = re.compile(r'\b(?:planted|order|full_fence)\(\s*"(\w+)"')
    return {name for path in SOURCES.rglob("*.rs") for name in asks.findall(path.read_text(encoding="utf-8"))}


def main() -> int:
    parser = argparse.ArgumentParser(description="Plants faults and checks that the models notice.")
    parser.add_argument("names", nargs="*", metavar="MUTANT", help="all of them if none is named")
    names = parser.parse_args().names
    known = {mutant.name for mutant in MUTANTS}
    if unknown := set(names) - known:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    if (found := planted_in_the_sources()) != known:
        print(f"mutants: only in the sources {sorted(found - known)}, only in this list {sorted(known - found)}")
        return 1
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    program = build()
    bad = 0
    sound: dict[str, str] = {}
    for mutant in chosen:
        if mutant.model not in sound:
            sound[mutant.model] = run(program, mutant.model, None)[0]
        started = time.monotonic()
        ended, complaint = run(program, mutant.model, mutant.name)
        seconds = time.monotonic() - started
        killed = sound[mutant.model] == "passed" and ended == "failed"
        bad += not killed
        verdict = "killed" if killed else "SURVIVED" if ended == "passed" else f"UNCLEAR ({sound[mutant.model]}, {ended})"
        print(f"{verdict:9} {mutant.name:22} {seconds:6.1f} s  {mutant.fault}")
        print(f"          by {mutant.model}: {complaint[:110]}", flush=True)
    print(f"{len(chosen) - bad} of {len(chosen)} mutants killed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
