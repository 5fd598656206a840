"""Faults in the multi-queue and the set queue: in the core, where Python's tests must notice, and in the binding."""

from __future__ import annotations

from .mutant import Mutant

CORE = "crates/drainq-core/src"
BINDING = "crates/drainq-py/src"
TESTS = "tests/multi"

MUTANTS = [
    # -- the multi-queue's account ------------------------------------------------------------------
    Mutant(
        "room_is_not_told",
        "a get that makes room leaves a blocked put asleep",
        f"{CORE}/multi/state.rs",
        "        if has_putters {\n            self.wake_putters(slot, wakes);\n        }\n        entry\n",
        "        let _ = (has_putters, wakes);\n        entry\n",
        f"{TESTS}/test_put.py::test_a_blocked_put_resumes_after_a_get_and_is_then_visible",
        dies="hangs",
    ),
    Mutant(
        "new_capacity_is_not_told",
        "a put that waits for room does not hear of a larger capacity",
        f"{CORE}/multi/settings.rs",
        "        self.sub_mut(slot).capacity = capacity;\n        self.seat(slot);\n        self.wake_putters(slot, wakes);\n",
        "        self.sub_mut(slot).capacity = capacity;\n        self.seat(slot);\n        let _ = wakes;\n",
        f"{TESTS}/test_put.py::test_raising_the_capacity_wakes_putters",
        dies="hangs",
    ),
    Mutant(
        "removal_wakes_nobody",
        "a put that waits for room in a sub-queue sleeps on when that is removed",
        f"{CORE}/multi/state.rs",
        "        self.totals.removed += leftovers as u64;\n        self.wake_putters(slot, wakes);\n        true\n",
        "        self.totals.removed += leftovers as u64;\n        let _ = wakes;\n        true\n",
        f"{TESTS}/test_remove_sub_queue.py::test_removal_wakes_blocked_putters",
        dies="hangs",
    ),
    Mutant(
        "leftovers_vanish",
        "what a removed sub-queue had left counts nowhere",
        f"{CORE}/multi/state.rs",
        "        self.depth -= leftovers;\n        self.totals.removed += leftovers as u64;\n",
        "        self.depth -= leftovers;\n",
        f"{TESTS}/test_stats.py::test_totals_keep_counting_across_removals",
    ),
    Mutant(
        "put_back_behind",
        "what a broken get_many gives back comes after what is there",
        f"{CORE}/multi/state.rs",
        "self.sub_mut(slot).items.push_front(entry);",
        "self.sub_mut(slot).items.push_back(entry);",
        f"{TESTS}/test_get.py::test_what_get_many_took_goes_back_when_the_wait_is_broken",
    ),
    Mutant(
        "disabled_items_count",
        "items of a disabled sub-queue count as there to be got",
        f"{CORE}/multi/state.rs",
        "            self.servable += 1;\n            self.full += usize::from(is_full);\n            if depth == 1 {\n"
        "                self.selector.set_ready(slot, true);\n            }\n        }\n",
        "            self.full += usize::from(is_full);\n            if depth == 1 {\n"
        "                self.selector.set_ready(slot, true);\n            }\n        }\n        self.servable += 1;\n",
        f"{TESTS}/test_enable.py::test_items_put_into_a_disabled_sub_queue_count_once_it_is_enabled",
    ),
    Mutant(
        "one_key_taken_as_another",
        "a selection's choice costs the others their turn",
        f"{CORE}/multi/state.rs",
        "        self.selector.served(slot);\n",
        "",
        f"{TESTS}/test_selection.py",
    ),
    Mutant(
        "shutdown_refuses_what_is_there",
        "after shutdown nothing can be got, although something is left",
        f"{CORE}/multi/queue.rs",
        "        self.shared.with(|state, wakes| state.take(wakes).map(|(_, entry)| entry.item))",
        "        self.shared.with(|state, wakes| {\n            if state.is_shut_down { return Err(Nothing::ShutDown) }\n"
        "            state.take(wakes).map(|(_, entry)| entry.item)\n        })",
        f"{TESTS}/test_shutdown.py::test_gets_go_on_until_nothing_is_left_then_raise",
    ),
    Mutant(
        "wake_up_for_nobody",
        "a wake-up of a waiter whose loop was closed is lost",
        f"{CORE}/multi/queue.rs",
        "                self.with(|state, wakes| state.pass_on(line, ticket, wakes));\n",
        "                let _ = (line, ticket);\n",
        f"{TESTS}/test_async.py::test_a_task_of_a_loop_that_was_closed_does_not_keep_a_wake_up",
        dies="hangs",
    ),
    # -- the multi-queue's binding ------------------------------------------------------------------
    Mutant(
        "select_may_name_anything",
        "a selection may choose a sub-queue that was not offered",
        f"{BINDING}/multi/take.rs",
        "let Some(chosen) = offered.iter().find(|sub| sub.is(&chosen)) else {",
        "let Some(chosen) = offered.iter().find(|sub| sub.is(&chosen)).or(offered.first()) else {",
        f"{TESTS}/test_selection.py::test_an_answer_that_was_not_offered_is_a_type_error_that_shows_it",
    ),
    Mutant(
        "cancelled_put_is_not_counted",
        "a put_async that was begun and given up counts nowhere",
        f"{BINDING}/multi/awaitable.rs",
        "            sub.get().reject_one();\n",
        "            let _ = sub;\n",
        f"{TESTS}/test_async.py",
    ),
    Mutant(
        "awaited_twice",
        "an awaitable that has ended takes another item",
        f"{BINDING}/multi/awaitable.rs",
        "        if let Some(Attempt::Put(sub, _)) = self.attempt.take()\n",
        "        if let Some(Attempt::Put(sub, _)) = self.attempt.as_ref()\n",
        f"{TESTS}/test_async.py::test_awaiting_twice_is_a_runtime_error",
    ),
    # -- the set queue --------------------------------------------------------------------------------
    Mutant(
        "set_put_wakes_nobody",
        "a getter sleeps beside an item",
        f"{BINDING}/sources/set_queue/inside.rs",
        "                state.getters.wake(1);\n",
        "",
        "tests/sources/test_set_queue.py::test_a_blocked_get_wakes_for_an_item",
        dies="hangs",
    ),
    Mutant(
        "set_take_wakes_nobody",
        "a putter sleeps beside room",
        f"{BINDING}/sources/set_queue/inside.rs",
        "        self.got += 1;\n        self.putters.wake(1);\n",
        "        self.got += 1;\n",
        "tests/sources/test_set_queue.py::test_a_blocked_put_wakes_for_room_and_may_find_a_duplicate_by_then",
        dies="hangs",
    ),
    Mutant(
        "set_putters_of_a_duplicate_sleep",
        "a put that waits for room is not told that its item is in by now",
        f"{BINDING}/sources/set_queue/inside.rs",
        "                state.putters.wake_tagged(identity.hash()); // perhaps duplicates of this one by now\n",
        "",
        "tests/sources/test_set_queue.py",
        dies="hangs",
    ),
    Mutant(
        "set_wake_up_is_not_passed_on",
        "a waiter sleeps beside room that another one was woken for and did not use",
        f"{BINDING}/sources/set_queue/inside.rs",
        "        if something {\n            state.line(line).wake(1);\n        }\n",
        "        let _ = something;\n",
        "tests/sources/test_set_queue.py",
        dies="hangs",
    ),
    Mutant(
        "set_duplicates_do_not_count",
        "an item that is refused as a duplicate counts nowhere",
        f"{BINDING}/sources/set_queue/inside.rs",
        "                state.duplicates += 1;\n                break Ok(Some(false));",
        "                break Ok(Some(false));",
        "tests/sources/test_set_queue.py::test_stats_account_for_every_offer",
    ),
    Mutant(
        "set_clock_may_go_wrong",
        "a clock that gives a negative time is taken at its word",
        f"{BINDING}/sources/set_queue/inside.rs",
        '                Duration::try_from_secs_f64(seconds)\n                    .map_err(|_| errors::bad_value(format!("clock.now() must be',
        '                Duration::try_from_secs_f64(seconds.abs())\n                    .map_err(|_| errors::bad_value(format!("clock.now() must be',
        "tests/sources/test_set_queue.py::test_a_clock_that_goes_wrong_is_an_error_before_any_change",
    ),
]
