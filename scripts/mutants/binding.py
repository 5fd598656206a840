"""Faults in the batch queue's binding, `crates/drainq-py/src/batch`."""

from __future__ import annotations

from .mutant import Mutant

SRC = "crates/drainq-py/src"
BATCH = f"{SRC}/batch"

MUTANTS = [
    # -- items and their references ---------------------------------------------------------------
    Mutant(
        "dropped_item_leaks",
        "an item that is not handed out is never let go",
        f"{BATCH}/types/item.rs",
        "gil::held(|py| drop(unsafe { Bound::from_owned_ptr(py, object) }));",
        "let _ = object;",
        "tests/batch/test_fast_path.py::test_each_accepted_item_holds_one_reference "
        "tests/batch/test_room.py::test_if_possible_gives_up_when_there_is_no_room",
    ),
    Mutant(
        "weight_of_a_weighed_item",
        "an item with a weight counts for one",
        f"{BATCH}/types/item.rs",
        "if !self.is_weighed() {",
        "if true {",
        "tests/batch/test_columns.py::test_capacity_and_counters_are_in_rows",
    ),
    # -- handlers ---------------------------------------------------------------------------------
    Mutant(
        "failure_counts_as_handled",
        "a batch whose handler raised counts as handled",
        f"{BATCH}/handler.rs",
        "vec![(Outcome::DeadLettered, dead), (Outcome::Failed, size - dead)]",
        "vec![(Outcome::DeadLettered, dead), (Outcome::Handled, size - dead)]",
        "tests/batch/test_handler_errors.py::test_a_handler_that_raises_fails_its_batch_and_no_other",
    ),
    Mutant(
        "dead_letters_beyond_the_batch",
        "an error handler may claim more dead letters than the batch had items",
        f"{BATCH}/handler.rs",
        "report(py, on_error, &batch, size, error, queue).min(size)",
        "report(py, on_error, &batch, size, error, queue)",
        "tests/batch/test_handler_errors.py::test_no_more_items_are_dead_lettered_than_the_batch_had",
        dies="hangs",  # a debug build notices the overflow on the drain thread
    ),
    Mutant(
        "dead_letters_unasked",
        "what an error handler returns is a count although it does not say so",
        "python/drainq/_calls.py",
        "return operator.index(answer) if counts else 0",
        "return operator.index(answer)",
        "tests/batch/test_handler_errors.py::test_what_an_error_handler_returns_is_no_count_unless_it_says_so",
    ),
    Mutant(
        "unrouted_logged_each_time",
        "a type without a handler is logged with every batch",
        f"{BATCH}/handler_registry.rs",
        "!mem::replace(&mut logged[key as usize], true)",
        "{ logged[key as usize] = true; true }",
        "tests/batch/test_queue.py::test_a_type_without_a_handler_is_counted_every_time_and_logged_once",
    ),
    # -- the queue's end --------------------------------------------------------------------------
    Mutant(
        "exit_delivers_nothing",
        "the interpreter ends without its queues",
        f"{BATCH}/interpreter_exit.rs",
        'gil::call_method(py.import("atexit")?.as_any(), "register", [at_exit.as_any()])?;',
        "let _ = at_exit;",
        "tests/batch/test_lifecycle.py::test_a_handler_that_hangs_at_exit_does_not_hold_up_the_process",
    ),
    Mutant(
        "nobody_hears_of_abandoned",
        "a shutdown that gives up on items tells nobody",
        f"{BATCH}/shutdown.rs",
        "if abandoned > 0 {",
        "if false {",
        "tests/batch/test_lifecycle.py::test_a_handler_that_hangs_at_exit_does_not_hold_up_the_process",
    ),
    Mutant(
        "dropped_queue_lives_on",
        "a queue that is let go without a shutdown keeps its threads",
        f"{BATCH}/shared_queue.rs",
        "            if let Some(shared) = weak.upgrade() {\n                shared.queue().close();\n            }\n",
        "            let _ = weak.upgrade();\n",
        "tests/batch/test_shutdown.py::test_a_queue_that_nobody_holds_delivers_its_items_and_ends",
    ),
    # -- fork -------------------------------------------------------------------------------------
    Mutant(
        "child_keeps_the_routes",
        "a forked child puts its items into the parent's partitions",
        f"{BATCH}/shared_queue.rs",
        "        self.routing.forget_routes();\n",
        "",
        "tests/batch/test_lifecycle.py::test_a_forked_child_starts_empty_and_delivers_only_its_own",
        dies="hangs",
    ),
    Mutant(
        "child_has_the_parents_pool",
        "a forked child waits for the pool threads of its parent",
        f"{BATCH}/shared_scheduler.rs",
        "self.threads.replace_in_child(PoolThreads::new(self.policy));",
        "",
        "tests/batch/test_scheduler.py::test_a_scheduler_works_in_a_forked_child_and_at_exit",
        dies="hangs",
    ),
    # -- producing --------------------------------------------------------------------------------
    Mutant(
        "rest_of_a_list_is_not_counted",
        "of a list that finds no room one item counts as rejected",
        f"{BATCH}/produce/many.rs",
        "self.reject(py, reason, 1 + items.len() as u64);",
        "self.reject(py, reason, 1);",
        "tests/batch/test_room.py::test_if_possible_gives_up_when_there_is_no_room "
        "tests/batch/test_fast_path.py::test_produce_and_produce_many_fill_a_partition_as_a_list_would",
    ),
    Mutant(
        "interrupted_wait_is_not_counted",
        "an item whose wait ends without room counts nowhere",
        f"{BATCH}/produce/wait_for_room.rs",
        "                drop(item);\n                self.reject(py, Rejection::Full, weight);\n",
        "                drop(item);\n                let _ = weight;\n",
        "tests/batch/test_room.py::test_offer_waits_until_its_timeout",
    ),
    Mutant(
        "run_of_mixed_classes",
        "items of a list go by the route of the first one's class",
        f"{BATCH}/produce/many.rs",
        "        if ptr::eq(class, self.class) {\n",
        "        if ptr::eq(class, self.class) || true {\n",
        "tests/batch/test_fast_path.py::test_hundreds_of_types_keep_their_order_and_their_counts",
    ),
    Mutant(
        "run_of_mixed_partitions",
        "items of a list go to the partition of the first one",
        f"{BATCH}/produce/many.rs",
        "ptr::eq(route.partition, self.route.partition)",
        "(ptr::eq(route.partition, self.route.partition) || true)",
        "tests/batch/test_fast_path.py::test_hundreds_of_types_keep_their_order_and_their_counts",
    ),
    # -- producing in a process that just forked --------------------------------------------------
    Mutant(
        "threads_before_a_len_of_that_forks",
        "an item whose len_of forks is queued in the child without drain threads",
        f"{BATCH}/produce/slow_path.rs",
        "        // Last, because the callables above may have forked.\n        self.start_threads(object.py())?;\n",
        "",
        "tests/batch/test_fork_in_produce.py::test_an_item_whose_len_of_forks_is_handled_in_both_processes[produce-]",
        dies="hangs",
    ),
    Mutant(
        "run_goes_on_without_threads",
        "the rest of a run whose report forks is queued in the child without drain threads",
        f"{BATCH}/produce/many.rs",
        "            self.start_threads(py)?;\n",
        "",
        "tests/batch/test_fork_in_produce.py"
        "::test_a_run_of_one_class_during_which_an_on_drop_forks_is_handled_in_the_child",
    ),
    Mutant(
        "pool_without_threads_takes_items",
        "a queue of a pool whose threads could not start in a forked child takes items for ever",
        f"{BATCH}/drain_threads.rs",
        "                // The pool may have no thread at all, and an item that the queue took would wait for ever.\n"
        "                process.queue.close();\n",
        "",
        "tests/batch/test_fork.py::test_a_child_whose_threads_cannot_start_says_so_once_and_takes_nothing",
    ),
    # -- what the collector is shown --------------------------------------------------------------
    Mutant(
        "counters_are_hidden_from_the_collector",
        "a class that holds the counters of its queue is never collected",
        f"{BATCH}/stats.rs",
        "self.names.iter().try_for_each(|name| visit.call(name))",
        "Some(visit).map_or(Ok(()), |_| Ok(()))",
        "tests/batch/test_cycles.py::test_a_type_that_holds_the_counters_of_its_queue_is_collected_after_the_queue",
    ),
    Mutant(
        "awaited_item_is_hidden_from_the_collector",
        "an item that holds the coroutine which offers it is never collected",
        f"{BATCH}/produce/attempt.rs",
        "self.object.try_lock().map_or(Ok(()), |object| visit.call(&*object))",
        "self.object.try_lock().map_or(Ok(()), |_| Ok(()))",
        "tests/batch/test_cycles.py"
        "::test_an_item_that_holds_the_coroutine_which_offers_it_is_collected_while_the_queue_lives",
    ),
    # -- the balancer -----------------------------------------------------------------------------
    Mutant(
        "plan_of_any_length",
        "a balancer's plan may have any length",
        f"{BATCH}/user_drain_balancer.rs",
        "if plan.len() != measured.owners.len() || ",
        "if ",
        "tests/batch/test_rebalance.py::test_a_plan_that_makes_no_sense_is_refused_and_changes_nothing",
        dies="crashes",
    ),
    # -- the manager ------------------------------------------------------------------------------
    Mutant(
        "stopped_queue_keeps_its_name",
        "a queue cannot be made because another of the name was made and stopped meanwhile",
        f"{BATCH}/manager.rs",
        "|(other, at)| other == name && at.get().shared().queue().is_running());",
        "|(other, _)| other == name);",
        "tests/batch/test_manager.py::test_a_queue_that_takes_the_name_while_another_is_made_has_it_as_long_as_it_runs",
    ),
    Mutant(
        "names_of_ended_queues",
        "a queue that was shut down by hand keeps its name",
        f"{BATCH}/manager.rs",
        "QUEUES.lock().extract_if(.., |(_, queue)| is_over(queue)).collect();",
        "QUEUES.lock().extract_if(.., |(_, queue)| false && is_over(queue)).collect();",
        "tests/batch/test_manager.py::test_a_queue_shut_down_by_hand_is_forgotten",
    ),
    Mutant(
        "pools_outlive_shutdown_all",
        "shutdown_all leaves the threads of the shared schedulers",
        f"{BATCH}/shared_scheduler.rs",
        "pools.iter().for_each(|pool| pool.scheduler().stop());",
        "drop(pools);",
        "tests/batch/test_scheduler.py::test_the_scheduler_outlives_its_queues_until_shutdown_all",
    ),
    Mutant(
        "shutdown_all_in_a_handler",
        "a handler that shuts all queues down waits for itself",
        f"{BATCH}/shutdown.rs",
        "queues.iter().find(|shared| shared.queue().is_draining_here())",
        "queues.iter().find(|shared| false && shared.queue().is_draining_here())",
        "tests/batch/test_manager.py::test_a_handler_that_shuts_all_down_is_refused_and_all_queues_stay",
        dies="hangs",
    ),
    Mutant(
        "refused_shutdown_all_forgets",
        "a shutdown_all that is refused leaves queues that nobody can find",
        f"{BATCH}/manager.rs",
        "        let clean = shutdown::end_all(py, shared, timeout)?;\n        forget(&queues);\n",
        "        forget(&queues);\n        let clean = shutdown::end_all(py, shared, timeout)?;\n",
        "tests/batch/test_manager.py::test_a_handler_that_shuts_all_down_is_refused_and_all_queues_stay",
    ),
    Mutant(
        "shutdown_forgets_by_name",
        "a queue that took the name during a shutdown is forgotten with the old one",
        f"{BATCH}/manager.rs",
        "        forget(&[queue]);\n",
        "        drop(queue);\n        let all: Vec<_> = QUEUES.lock().extract_if(.., |(other, _)| *other == name).collect();\n"
        "        drop(all);\n",
        "tests/batch/test_manager.py::test_a_queue_that_takes_the_name_during_a_shutdown_is_kept",
    ),
    Mutant(
        "pool_is_started_without_threads",
        "a scheduler whose threads could not be started has none for ever",
        f"{BATCH}/shared_scheduler.rs",
        "                threads.started.fetch_sub(1, Ordering::Relaxed);\n",
        "                threads.started.store(threads.scheduler.threads(), Ordering::Relaxed);\n",
        "tests/batch/test_scheduler.py::test_threads_that_could_not_be_started_are_left_to_the_next_queue",
    ),
    Mutant(
        "interrupted_produce_counts_nowhere",
        "an item whose produce Ctrl-C ended counts nowhere",
        f"{BATCH}/produce/wait_for_room.rs",
        "                self.reject(py, Rejection::Full, weight);\n                return interrupted",
        "                if interrupted.is_ok() {\n                    self.reject(py, Rejection::Full, weight);\n"
        "                }\n                return interrupted",
        "tests/batch/test_lifecycle.py::test_an_interrupted_produce_counts_its_item_as_rejected",
    ),
    Mutant(
        "timeout_for_each_queue",
        "the timeout of shutdown_all is one for each queue",
        f"{BATCH}/shutdown.rs",
        "            Some(_) => common,",
        '            Some(_) => Deadline::after("timeout", timeout)?,',
        "tests/batch/test_manager.py::test_the_timeout_of_shutdown_all_is_for_all_queues_together",
        dies="hangs",
    ),
    # -- interpreters -----------------------------------------------------------------------------
    Mutant(
        "second_interpreter_is_served",
        "a queue in a sub-interpreter waits for the GIL that its own thread holds",
        f"{SRC}/interpreter.rs",
        "        Err(first) if first != this =>",
        "        Err(first) if first > this =>",
        "tests/batch/test_lifecycle.py::test_a_sub_interpreter_is_refused_and_the_first_one_goes_on",
    ),
    Mutant(
        "errors_found_when_raised",
        "a finaliser at the interpreter's end gets an ImportError for an answer",
        f"{SRC}/lib.rs",
        "        crate::errors::look_up(module.py())?;\n",
        "        let _ = crate::errors::look_up;\n",
        "tests/batch/test_lifecycle.py::"
        "test_a_finaliser_that_runs_when_nothing_can_be_imported_gets_the_queues_own_answers",
    ),
    # -- what is sent to another process ----------------------------------------------------------
    Mutant(
        "setting_stays_behind",
        "a configuration that is pickled forgets a setting",
        f"{BATCH}/config.rs",
        "for name in Self::NAMES {",
        'for name in Self::NAMES.iter().filter(|name| **name != "linger") {',
        "tests/batch/test_pickling.py::test_every_setting_of_every_configuration_arrives_as_it_was_sent",
    ),
    Mutant(
        "io_bound_arrives_as_fixed",
        "a policy that is pickled arrives as another one of the same number",
        f"{BATCH}/size_policies.rs",
        'core::ThreadPolicy::IoBound(count) => pickling::made_by(slf, "io_bound", (count,)),',
        'core::ThreadPolicy::IoBound(count) => pickling::made_by(slf, "fixed", (count,)),',
        "tests/batch/test_pickling.py::test_every_policy_selector_strategy_and_balancer_arrives_as_it_was_sent",
    ),
    Mutant(
        "pool_found_nothing",
        "the idle calls of a queue on a scheduler become rarer for ever, however many items come",
        f"{BATCH}/shared_scheduler.rs",
        "            loan.found();\n",
        "",
        "tests/batch/test_scheduler.py::test_an_item_makes_the_idle_calls_on_a_scheduler_frequent_again",
    ),
    Mutant(
        "exit_list_keeps_all",
        "what is left of a queue that has ended stays in memory for ever",
        f"{BATCH}/interpreter_exit.rs",
        "    live.retain(|other| other.strong_count() > 0);\n",
        "",
        "tests/batch/test_memory.py::test_a_queue_that_has_ended_leaves_no_memory_behind",
    ),
    Mutant(
        "idle_before_it_is_made",
        "on_idle is called before the program has the queue",
        f"{BATCH}/drain_threads.rs",
        "                if is_made {\n",
        "                if is_made || true {\n",
        "tests/batch/test_queue.py::test_on_idle_is_not_called_before_the_program_has_the_queue",
    ),
]
