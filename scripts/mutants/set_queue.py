"""Faults in the set queue of the binding."""

from __future__ import annotations

from .mutant import Mutant

BINDING = "crates/drainq-py/src"

MUTANTS = [
    Mutant(
        "set_queue_cannot_break_a_cycle",
        "a set queue in a tuple of its own is never collected",
        f"{BINDING}/sources/set_queue/mod.rs",
        "        let forgotten = self.state.lock().queue.reset();\n        drop(forgotten);\n",
        "",
        "tests/sources/test_set_queue.py::test_a_cycle_that_the_queue_alone_can_break_is_collected",
    ),
    Mutant(
        "set_queue_collected_before_renewal",
        "a collection that comes before the renewal of a forked child finalises the parent's items there",
        f"{BINDING}/sources/set_queue/mod.rs",
        "        if !fork::is_renewed() {\n            return Ok(());\n        }\n",
        "",
        "tests/sources/test_set_queue_fork.py::test_a_collection_before_the_renewal_finalises_no_item_of_the_parent",
    ),
    Mutant(
        "time_to_live_from_the_call",
        "an item that came after a long wait is forgotten as if it had been taken when the wait began",
        f"{BINDING}/sources/set_queue/get.rs",
        "        loop {\n            let now = self.now(py)?;\n",
        "        let now = self.now(py)?;\n        loop {\n",
        "tests/sources/test_set_queue_in_flight.py::"
        "test_ttl_counts_from_the_moment_of_the_take_however_long_the_get_had_waited",
    ),
    Mutant(
        "set_put_wakes_nobody",
        "a getter sleeps though there is an item",
        f"{BINDING}/sources/set_queue/put.rs",
        "                state.notify_duplicates(identity.hash());\n                self.release(state);\n",
        "                state.notify_duplicates(identity.hash());\n                drop(state);\n",
        "tests/sources/test_set_queue_waiting.py::test_a_blocked_get_wakes_for_an_item",
        dies="hangs",
    ),
    Mutant(
        "set_take_wakes_nobody",
        "a putter sleeps though there is room",
        f"{BINDING}/sources/set_queue/get.rs",
        "                self.release(state);\n                return Ok(taken.item);\n",
        "                drop(state);\n                return Ok(taken.item);\n",
        "tests/sources/test_set_queue_waiting.py::test_a_blocked_put_wakes_for_room_and_may_find_a_duplicate_by_then",
        dies="hangs",
    ),
    Mutant(
        "set_putters_of_a_duplicate_sleep",
        "a put that waits for room goes on waiting though its item is in by now",
        f"{BINDING}/sources/set_queue/put.rs",
        "                state.notify_duplicates(identity.hash());\n",
        "",
        "tests/sources/test_set_queue_waiting.py",
        dies="hangs",
    ),
    Mutant(
        "set_wake_up_is_not_passed_on",
        "a waiter sleeps though there is room that another waiter was notified of and did not use",
        f"{BINDING}/sources/set_queue/waiting.rs",
        "leave(ticket);\n            self.queue.release(state);\n",
        "leave(ticket);\n            drop(state);\n",
        "tests/sources/test_set_queue_signals.py",
        dies="hangs",
    ),
    Mutant(
        "set_duplicates_do_not_count",
        "an item that is refused as a duplicate counts nowhere",
        f"{BINDING}/sources/set_queue/put.rs",
        "                state.duplicates += 1;\n                drop(state);\n",
        "                drop(state);\n",
        "tests/sources/test_set_queue.py::test_stats_account_for_every_offer",
    ),
    Mutant(
        "set_clock_may_go_wrong",
        "a clock that gives a negative time is taken at its word",
        f"{BINDING}/sources/set_queue/mod.rs",
        '                Duration::try_from_secs_f64(seconds)\n                    .map_err(|_| errors::bad_value(format!("clock.now() must be',
        '                Duration::try_from_secs_f64(seconds.abs())\n                    .map_err(|_| errors::bad_value(format!("clock.now() must be',
        "tests/sources/test_set_queue_in_flight.py::test_a_clock_that_goes_wrong_is_an_error_before_any_change",
    ),
    Mutant(
        "set_queue_waiter_keeps_its_token",
        "a call of a set queue that was notified and gives up stays among the waiters",
        f"{BINDING}/sources/set_queue/waiting.rs",
        "            let _waker = state.waiters(self.wait_for).leave(ticket);\n",
        "            let _ = ticket;\n",
        "tests/sources/test_set_queue_signals.py::test_the_wake_up_of_an_interrupted_putter_goes_to_the_next "
        "tests/sources/test_set_queue_signals.py::test_the_wake_up_of_an_interrupted_getter_goes_to_the_next",
    ),
    Mutant(
        "text_compared_with_bytes_under_the_lock",
        "a comparison that warns runs under the lock",
        f"{BINDING}/sources/identity.rs",
        "            if ours != theirs {\n                return Same::No;\n            }\n",
        "            let _ = ours != theirs;\n",
        "tests/sources/test_set_queue_hostile.py::test_under_python_b_the_hook_of_a_warning_may_use_the_queue",
    ),
    Mutant(
        "child_has_the_items_of_a_set_queue",
        "a forked child delivers its parent's items once more",
        f"{BINDING}/sources/set_queue/state.rs",
        "        std::mem::forget(state.queue.reset());",
        "",
        "tests/sources/test_set_queue_fork.py::test_a_child_starts_empty_and_the_parent_keeps_its_items",
    ),
    Mutant(
        "child_drops_the_items_of_its_parent",
        "the items of the parent are finalised in the child",
        f"{BINDING}/sources/set_queue/state.rs",
        "        std::mem::forget(state.queue.reset());",
        "        drop(state.queue.reset());",
        "tests/sources/test_set_queue_fork.py::test_the_items_of_the_parent_are_not_finalised_in_a_child",
    ),
    Mutant(
        "set_clear_wakes_no_put",
        "a put sleeps beside the room that a clear made",
        f"{BINDING}/sources/set_queue/contents.rs",
        "        let entries = state.queue.clear();\n        self.release(state);\n",
        "        let entries = state.queue.clear();\n        drop(state);\n",
        "tests/sources/test_set_queue_waiting.py::test_a_clear_wakes_as_many_puts_as_it_makes_room_for",
        dies="hangs",
    ),
]
