"""Faults in what a caller is told: answers, warnings, names, counts by weight, and who hears of an idle pass."""

from __future__ import annotations

from .mutant import Mutant

SRC = "crates/drainq-py/src"
BATCH = f"{SRC}/batch"
WEIGHTS = "tests/batch/test_weights.py"
REGISTRY = "tests/batch/test_handler_registry.py"
MANAGER = "tests/batch/test_manager.py"
ANSWERS = "tests/monitoring/test_answers.py"

MUTANTS = [
    Mutant(
        "other_shutdown_timeout_in_silence",
        "a queue that exists is given to a caller who asked for another shutdown_timeout, without a warning",
        f"{BATCH}/config.rs",
        "            && self.shutdown_timeout == other.shutdown_timeout)",
        "        )",
        f"{MANAGER}::test_each_setting_that_the_second_caller_does_not_get_is_warned_of",
    ),
    Mutant(
        "shutdown_by_name_without_its_timeout",
        "shutdown by name waits for a handler that hangs for as long as it hangs",
        f"{BATCH}/manager.rs",
        "let clean = queue.get().shutdown(py, timeout)?;",
        "let clean = queue.get().shutdown(py, timeout.and(None))?;",
        f"{MANAGER}::test_shutdown_by_name_waits_no_longer_than_its_timeout",
    ),
    Mutant(
        "no_idle_report_beside_a_busy_type",
        "a type without items hears of no idle pass as long as another type has some",
        f"{BATCH}/drain_threads.rs",
        "            if pass.drainer().found_nothing_for(key) {",
        "            if false && pass.drainer().found_nothing_for(key) {",
        f"{REGISTRY}::test_a_type_without_items_hears_of_an_idle_pass_while_another_type_keeps_the_thread_busy",
    ),
    Mutant(
        "a_cancelled_coroutine_counts_one",
        "an item of many rows that a coroutine gives up counts as one",
        f"{BATCH}/produce/attempt.rs",
        "reject(py, reason, self.weight.unwrap_or(1));",
        "reject(py, reason, 1);",
        f"{WEIGHTS}::test_what_a_coroutine_gives_up",
    ),
    Mutant(
        "ctrl_c_in_an_on_drop_is_lost",
        "Ctrl-C while a producer reports a drop ends nothing",
        f"{BATCH}/drop_reports.rs",
        "            if !python_calls::interrupt_again(py, &error) {",
        "            if true {",
        "tests/batch/test_log.py::test_ctrl_c_while_a_drop_is_reported_comes_again_after_the_call",
    ),
    Mutant(
        "ctrl_c_in_the_log_ends_an_on_drop",
        "Ctrl-C while a drop is logged ends the on_drop that is called next",
        f"{BATCH}/drop_reports.rs",
        '        let logged = python_calls::try_log(py, "warning", &message);\n',
        '        python_calls::log(py, "warning", &message);\n        let logged = Ok(());\n',
        "tests/batch/test_log.py::test_ctrl_c_while_a_drop_is_reported_comes_again_after_the_call",
    ),
    Mutant(
        "second_ctrl_c_of_a_call_is_lost",
        "Ctrl-C within each of two reports of a call ends nothing",
        f"{SRC}/python_calls.rs",
        "let once_more = error.is_instance_of::<PyKeyboardInterrupt>(py);",
        "let once_more = error.is_instance_of::<PyKeyboardInterrupt>(py) && false;",
        "tests/batch/test_log.py::test_ctrl_c_within_each_of_two_reports_of_one_call_comes_again_after_the_call",
    ),
    Mutant(
        "ctrl_c_in_a_repr_is_lost",
        "Ctrl-C while an error shows a value ends nothing",
        f"{SRC}/errors.rs",
        "        Err(error) if error.is_instance_of::<PyException>(py) => {\n            let name",
        "        Err(error) => {\n            let name",
        "tests/batch/test_callables.py::test_an_error_shows_a_value_whose_repr_raises_and_ctrl_c_within_it_is_not_lost",
    ),
    Mutant(
        "one_cancelled_task_stops_the_others",
        "of the tasks that one call wakes, those behind a cancelled one sleep on",
        f"{SRC}/multi/event_loops.rs",
        '            if !gil::call_method(future, "done", [])?.is_truthy()? {\n',
        "            {\n",
        "tests/multi/test_async.py"
        "::test_a_task_that_is_cancelled_between_its_wake_up_and_its_turn_leaves_the_others_of_the_loop_theirs",
    ),
    Mutant(
        "last_value_of_a_long_buffer",
        "a sketch of a long buffer misses a last piece of one value",
        f"{SRC}/sketch/values.rs",
        "for start in (0..length).step_by(PIECE) {",
        "for start in (0..length.max(1) - 1).step_by(PIECE) {",
        "tests/sketch/test_buffers.py::test_a_long_buffer_is_read_to_its_last_value",
    ),
    Mutant(
        "groups_miscounted_while_a_thread_adds",
        "the number of groups is wrong while another thread adds some",
        f"{SRC}/columns/group_by.rs",
        "Place::Away(_, before) => *before,",
        "Place::Away(_, before) => *before + 1,",
        "tests/columns/test_group_by_threads.py::test_the_number_of_groups_is_that_of_before_or_after_while_a_thread_adds",
    ),
    Mutant(
        "url_that_nobody_can_ask",
        "the URL of an endpoint that listens at all addresses is no address",
        f"{SRC}/monitoring/endpoint_thread.rs",
        "        if address.ip().is_unspecified() {",
        "        if false {",
        f"{ANSWERS}::test_the_url_can_be_asked_from_this_machine",
    ),
    Mutant(
        "numbers_of_names_skip_two",
        "the second queue of a name is number 3",
        f"{SRC}/monitoring/object_registry.rs",
        "    let mut number = 2;\n",
        "    let mut number = 3;\n",
        f"{ANSWERS}::test_the_third_of_a_name_gets_the_next_free_number",
    ),
    Mutant(
        "a_late_client_hears_nothing",
        "a client whose request does not end is cut off without an answer",
        f"{SRC}/monitoring/endpoint_thread.rs",
        "            let _ = self.stream.write(&http_answer::too_slow());\n",
        "            let _ = http_answer::too_slow();\n",
        "tests/monitoring/test_endpoint_thread.py::test_slow_clients_are_given_up_after_some_seconds",
    ),
    Mutant(
        "busy_type_after_the_cut",
        "a thread that comes back from a handler that hung delivers what was abandoned",
        f"{BATCH}/drain_threads.rs",
        "            if !pass.account(batch, &outcomes) {",
        "            if !pass.account(batch, &outcomes) && false {",
        "tests/batch/test_shutdown.py::test_what_was_abandoned_is_not_handled_afterwards",
    ),
    Mutant(
        "balancer_asked_no_more",
        "a balancer that raised once is never asked again",
        f"{BATCH}/rebalance.rs",
        'failed", caller.shared().name()), &error);\n',
        'failed", caller.shared().name()), &error);\n                    break;\n',
        "tests/batch/test_rebalance.py::test_a_balancer_that_raises_is_asked_again",
    ),
    Mutant(
        "offer_never_waits",
        "an offer without a time limit gives up in a queue whose strategy is to wait",
        f"{BATCH}/produce/methods.rs",
        "            None => self.shared().may_wait(),",
        "            None => MayWait::No,",
        "tests/batch/test_room.py::test_a_blocking_queue_lets_each_call_wait",
    ),
    Mutant(
        "made_after_the_exit_callback",
        "a queue that is made after the exit callback takes items that nobody handles",
        f"{BATCH}/interpreter_exit.rs",
        "    IS_OVER.store(true, Ordering::Relaxed);",
        "    IS_OVER.store(false, Ordering::Relaxed);",
        "tests/batch/test_lifecycle.py"
        "::test_a_queue_that_is_made_after_the_exit_callback_is_refused_and_one_before_it_is_served",
    ),
    Mutant(
        "threads_outlive_the_shutdown",
        "the threads of a queue are alive when its shutdown returns",
        f"{BATCH}/shutdown.rs",
        "            self.join_threads(py, deadline)?;",
        "            let _ = Self::join_threads;",
        "tests/batch/test_shutdown.py::test_the_threads_of_a_queue_have_ended_when_its_shutdown_returns",
    ),
    Mutant(
        "reporter_for_ever",
        "once a thread has told of refusals, those of a later burst wait for a flush",
        f"{BATCH}/drop_reports.rs",
        "                reports.reporter = None;\n                drop(reports);",
        "                drop(reports);",
        "tests/batch/test_told.py::test_refusals_after_a_reporter_has_ended_are_told_too",
    ),
    Mutant(
        "get_many_wakes_nobody",
        "a putter of a full set queue sleeps on after a get_many has made room",
        f"{SRC}/sources/set_queue/get.rs",
        "take(py, now)).collect();\n        self.release(state);",
        "take(py, now)).collect();\n        drop(state);",
        "tests/sources/test_set_queue_model.py::test_whatever_makes_room_wakes_who_waits_for_it",
    ),
    Mutant(
        "clear_gives_keys",
        "clear hands back the keys in place of the items",
        f"{SRC}/sources/set_queue/contents.rs",
        "entries.into_iter().map(|entry| entry.item.unwrap_or(entry.key))",
        "entries.into_iter().map(|entry| entry.key)",
        "tests/sources/test_set_queue_model.py::test_with_a_key_the_items_come_out_and_the_keys_are_compared",
    ),
    Mutant(
        "child_opens_what_was_shut_down",
        "a queue that was shut down before a fork takes items in the child",
        f"{BATCH}/shared_queue.rs",
        "        if !self.queue().is_running() {\n            fresh.queue.close();\n        }\n",
        "",
        "tests/batch/test_fork_settings.py::test_a_queue_that_was_shut_down_stays_so",
    ),
    Mutant(
        "only_widely_held_are_renewed",
        "of many set queues some keep their parent's items in a forked child",
        f"{SRC}/fork.rs",
        "registered.retain(|other| other.strong_count() > 0);",
        "registered.retain(|other| other.strong_count() > 1);",
        "tests/sources/test_set_queue_fork.py::test_however_many_queues_there_are_all_start_empty",
    ),
]
