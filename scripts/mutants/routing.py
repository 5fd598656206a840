"""Faults on an item's way in: keys, classes, the route cache, the GIL yield, counts, and what is accepted at the door."""

from __future__ import annotations

from .mutant import Mutant

BATCH = "crates/drainq-py/src/batch"
KEYS = "tests/batch/test_keys.py"
GETTERS = "tests/batch/test_getters.py"
GIL_YIELD = "tests/batch/test_gil_yield.py"
DOOR = "tests/batch/test_callables.py"

MUTANTS = [
    # -- the GIL, between producers and drain threads ---------------------------------------------
    Mutant(
        "fast_path_closed_without_the_gil",
        "a drain thread falls idle in the middle of a produce call, which then does not wake it",
        f"{BATCH}/drain_threads.rs",
        "        process.gil_yield.ask();\n        gil::held(|_| {\n            close_fast_path();\n"
        "            process.gil_yield.granted_to_sleep(process.queue.is_drained());\n        });\n",
        "        let _ = process;\n        close_fast_path();\n",
        f"{GIL_YIELD}::test_a_drain_thread_falls_idle_only_with_the_gil",
    ),
    Mutant(
        "gil_is_asked_for_in_silence_before_sleep",
        "a drain thread that is about to sleep waits for the GIL, and no producer yields it",
        f"{BATCH}/drain_threads.rs",
        "        process.gil_yield.ask();\n        gil::held(|_| {\n            close_fast_path();\n"
        "            process.gil_yield.granted_to_sleep(process.queue.is_drained());\n        });\n",
        "        let _ = process;\n        gil::held(|_| close_fast_path());\n",
        f"{GIL_YIELD}::test_a_drain_thread_that_is_about_to_sleep_gets_the_gil_from_a_producer_without_room",
    ),
    Mutant(
        "gil_yield_keeps_the_gil",
        "a producer waits for the drain thread without giving the GIL up",
        f"{BATCH}/produce/gil_yield.rs",
        "gil::released(py, || waiter.wait(LONGEST_YIELD));",
        "let _ = (py, waiter.wait(LONGEST_YIELD));",
        f"{GIL_YIELD}::test_a_list_on_the_fast_path_checks_once_whether_a_drain_thread_waits",
    ),
    Mutant(
        "gil_yield_off_the_fast_path",
        "a producer fills its partition while the drain thread waits for the GIL",
        f"{BATCH}/produce/fast_path.rs",
        "        if queued {\n",
        "        if false {\n",
        f"{GIL_YIELD}::test_a_producer_whose_partition_or_queue_fills_up_lets_the_handler_run[one-by-one]",
    ),
    Mutant(
        "gil_yield_after_a_fast_run",
        "lists that are produced on the fast path never yield the GIL",
        f"{BATCH}/produce/many.rs",
        "        self.yield_gil_if_due(list.py(), partition);\n        run.index",
        "        run.index",
        f"{GIL_YIELD}::test_a_list_on_the_fast_path_checks_once_whether_a_drain_thread_waits",
    ),
    Mutant(
        "overdue_drain_thread_is_ignored",
        "a drain thread gets the GIL only when its partition fills up",
        f"{BATCH}/produce/fast_path.rs",
        "(process.queue.holds_one_in(partition, FAST_SHARE) || gil_yield.is_overdue())",
        "process.queue.holds_one_in(partition, FAST_SHARE)",
        f"{GIL_YIELD}::test_a_drain_thread_that_waited_for_long_gets_the_gil_from_a_partition_that_is_nearly_empty",
    ),
    # -- keys and classes -------------------------------------------------------------------------
    Mutant(
        "key_added_in_two_steps",
        "two threads that meet a new key at once give it two numbers",
        f"{BATCH}/types/keys.rs",
        'gil::call(&self.firsts.bind(name.py()).getattr("setdefault")?, [name, name])',
        "self.firsts.bind(name.py()).set_item(name, name).map(|()| name.clone())",
        f"{KEYS}::test_threads_that_meet_a_new_key_at_the_same_time_give_it_one_number",
    ),
    Mutant(
        "child_keeps_the_routes_of_names",
        "a forked child puts the items of a dispatch key into the parent's partitions",
        f"{BATCH}/routing.rs",
        "        self.named_routes.clear();\n",
        "",
        f"{GETTERS}::test_a_forked_child_has_no_route_of_a_name",
        dies="hangs",
    ),
    Mutant(
        "comparison_of_a_plain_key_quietly",
        "an exception in the comparison of a string with an equal key is lost, Ctrl-C too",
        f"{BATCH}/types/keys.rs",
        "        let first = gil::look_up_or_set(self.firsts.bind(name.py()), name)?;\n",
        "        let first = gil::look_up(self.firsts.bind(name.py()), name).unwrap_or_default();\n",
        f"{KEYS}::test_an_exception_in_the_comparison_with_a_plain_key_is_not_swallowed",
    ),
    Mutant(
        "getter_asked_twice",
        "a dispatch key is asked again where its route is not in the cache",
        f"{BATCH}/produce/raw_method.rs",
        "shared.produce_named(object, &name, shared.may_wait())",
        "shared.produce(object, shared.may_wait())",
        f"{GETTERS}::test_an_item_is_asked_once",
    ),
    Mutant(
        "subclass_read_as_a_tuple",
        "the item of a tuple's subclass is read past its __getitem__",
        f"{BATCH}/types/key_rule.rs",
        "let tuple = object.cast_exact::<PyTuple>().ok()?.as_ptr();",
        "let tuple = object.cast::<PyTuple>().ok()?.as_ptr();",
        f"{GETTERS}::test_a_getter_gives_what_its_call_gives",
    ),
    Mutant(
        "hash_under_the_lock",
        "the hash of a key runs while the names are locked",
        f"{BATCH}/types/keys.rs",
        "        let first = self.first(name)?;\n",
        "        let held = self.names.lock();\n        let first = self.first(name)?;\n        drop(held);\n",
        f"{KEYS}::test_a_hash_may_call_the_queue_and_give_up_the_gil",
    ),
    Mutant(
        "handler_ends_under_the_lock",
        "a handler that is replaced ends while the handlers are locked",
        f"{BATCH}/handler_registry.rs",
        "            handlers[key as usize].replace(registered)\n",
        "            drop(handlers[key as usize].replace(registered));\n            None\n",
        f"{KEYS}::test_the_end_of_a_replaced_handler_may_call_the_queue",
        dies="hangs",
    ),
    Mutant(
        "serial_of_a_call",
        "several threads are in the handler of one type at once",
        f"{BATCH}/per_process.rs",
        "        serials[key as usize].clone()\n",
        "        Arc::default()\n",
        f"{KEYS}::test_a_handler_registered_again_is_still_called_by_one_thread_at_a_time",
    ),
    Mutant(
        "flush_of_one_partition",
        "removing a handler waits for one of the partitions that hold its type",
        "crates/drainq-core/src/batch/flush.rs",
        "if !queue.settings.sticky {",
        "if false {",
        f"{KEYS}::test_removing_a_handler_waits_for_all_partitions_that_hold_its_type",
    ),
    # -- counts -----------------------------------------------------------------------------------
    Mutant(
        "equal_classes_lose_counts",
        "of classes that are equal per_type shows the last",
        f"{BATCH}/stats.rs",
        'Ok(gil::call_method(per_type, "setdefault", [name, stats.as_any()])?.cast_into()?)',
        "per_type.set_item(name, stats).map(|()| stats.clone())",
        f"{KEYS}::test_classes_are_told_apart_by_identity_whatever_their_metaclass_says",
    ),
    Mutant(
        "broken_hash_breaks_per_type",
        "per_type raises for ever once a hash raises",
        f"{BATCH}/stats.rs",
        "Err(error) if error.is_instance_of::<PyException>(py) => {",
        "Err(error) if error.is_instance_of::<PyException>(py) && false => {",
        f"{KEYS}::test_a_key_whose_hash_raises_later_is_still_counted",
    ),
    Mutant(
        "per_type_hides_ctrl_c",
        "Ctrl-C within a hash is taken for a hash that raises",
        f"{BATCH}/stats.rs",
        "Err(error) if error.is_instance_of::<PyException>(py) => {",
        "Err(error) if error.is_instance_of::<PyException>(py) || true => {",
        f"{KEYS}::test_ctrl_c_within_a_hash_is_no_broken_hash",
    ),
    Mutant(
        "weights_without_a_limit",
        "an item may count for 2**64 - 1 rows, and the counters wrap",
        f"{BATCH}/routing.rs",
        "Ok(Some(weight)) if weight <= MAX_WEIGHT => return Ok(weight),",
        "Ok(Some(weight)) => return Ok(weight),",
        "tests/batch/test_columns.py::test_len_of_that_makes_no_sense_raises_and_offers_nothing",
        dies="crashes",
    ),
    Mutant(
        "true_is_a_number_of_rows",
        "len_of may say True",
        f"{BATCH}/routing.rs",
        "if rows.is_instance_of::<PyBool>() { Ok(None) }",
        "if rows.is_instance_of::<PyBool>() && false { Ok(None) }",
        "tests/batch/test_columns.py::test_len_of_that_makes_no_sense_raises_and_offers_nothing",
    ),
    Mutant(
        "buffer_without_a_limit",
        "a buffer may be larger than the memory, and the process aborts",
        "crates/drainq-core/src/batch/config.rs",
        "if value > MAX_BUFFER_SIZE {",
        "if false {",
        "tests/batch/test_config.py::test_a_buffer_that_is_too_large_is_refused_with_the_limit",
    ),
    # -- what is handed over to be called ---------------------------------------------------------
    Mutant(
        "async_handlers_are_accepted",
        "an async handler is accepted and never runs",
        "python/drainq/callables.py",
        "if (lazy := _lazy(value)) and not (may_yield and lazy[1] is _GENERATOR):",
        "if (lazy := _lazy(value)) and False:",
        f"{DOOR}::test_what_a_call_would_not_run_is_refused",
    ),
    Mutant(
        "arguments_are_not_looked_at",
        "a handler without an argument is accepted and fails with data in its hands",
        "python/drainq/callables.py",
        "    if why:\n",
        "    if why and False:\n",
        f"{DOOR}::test_what_takes_other_arguments_is_refused",
    ),
    Mutant(
        "decorators_are_looked_through",
        "a decorated handler is judged by the function inside",
        "python/drainq/callables.py",
        "inspect.signature(value, follow_wrapped=False)",
        "inspect.signature(value)",
        f"{DOOR}::test_a_decorator_is_judged_by_what_it_takes_itself",
    ),
    Mutant(
        "a_coroutine_is_an_answer",
        "a batch counts as handled although its handler's call made a coroutine that nobody runs",
        f"{BATCH}/handler.rs",
        'called.and_then(|answer| callables::check_answer("the handler", answer))',
        "called.map(drop)",
        f"{DOOR}::test_a_handler_whose_call_ran_nothing_has_failed",
    ),
    Mutant(
        "a_coroutine_of_on_drop_is_an_answer",
        "an on_drop whose call only made a coroutine is never heard of",
        f"{BATCH}/drop_reports.rs",
        'answer.and_then(|answer| callables::check_answer("on_drop", answer))',
        "answer.map(drop)",
        f"{DOOR}::test_another_callable_whose_call_ran_nothing_is_said_to_have_failed",
    ),
    Mutant(
        "on_idle_is_not_looked_at",
        "an async on_idle is accepted and never runs",
        f"{BATCH}/handler.rs",
        '        callables::check_if_given(&part("on_idle"), on_idle.as_ref(), &[])?;\n',
        "",
        f"{DOOR}::test_the_methods_of_a_handler_are_looked_at_too",
    ),
]
