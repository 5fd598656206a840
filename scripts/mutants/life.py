"""Faults at the ends of queues: collection, the interpreter's exit, forks, and what users learn at the end."""

from __future__ import annotations

from .mutant import Mutant

SRC = "crates/drainq-py/src"
BATCH = f"{SRC}/batch"
COLLECTION = "tests/batch/test_collection.py"
EXIT = "tests/batch/test_exit.py::test_the_process_ends_well_while_a_thread_is_in"
FORK = "tests/batch/test_fork.py"
TOLD = "tests/batch/test_told.py"

MUTANTS = [
    # -- collection -------------------------------------------------------------------------------
    Mutant(
        "callables_always_shown",
        "the collector empties a handler that a thread is about to call",
        f"{BATCH}/shared.rs",
        "        if !self.is_shown() {\n            return Ok(());\n        }\n",
        "",
        f"{COLLECTION}::test_no_callable_is_called_after_the_collector_emptied_it",
        dies="crashes",
    ),
    Mutant(
        "callables_hidden_while_called",
        "a cycle of a queue and its handler is never found",
        f"{BATCH}/shared.rs",
        "!is_called || (process.queue.is_running() && process.queue.is_quiet())",
        "!is_called",
        f"{COLLECTION}::test_a_queue_whose_own_method_is_its_handler_is_collected",
        dies="hangs",
    ),
    Mutant(
        "object_that_goes_closes_nothing",
        "a queue that is let go without a shutdown keeps its threads",
        f"{BATCH}/shared.rs",
        "            if let Some(shared) = weak.upgrade() {\n                shared.queue().close();\n            }\n",
        "            let _ = &weak;\n",
        "tests/batch/test_shutdown.py::test_a_queue_that_nobody_holds_delivers_its_items_and_ends",
        dies="hangs",
    ),
    Mutant(
        "ended_queue_holds_itself",
        "a queue whose handler is one of its own methods is never freed",
        f"{BATCH}/shared.rs",
        "            self.delivery.handlers.clear(py);\n",
        "            let _ = py;\n",
        f"{COLLECTION}::test_a_queue_whose_own_method_is_its_handler_is_collected",
    ),
    Mutant(
        "on_close_is_not_called",
        "no thread calls on_close at the end of a queue",
        f"{BATCH}/caller.rs",
        "            if self.callers.one_drains() {\n                self.shared.call_on_close(py);\n            }\n",
        "",
        f"{COLLECTION}::test_on_close_comes_once_after_the_last_batch_and_before_shutdown_returns",
    ),
    Mutant(
        "on_close_twice",
        "on_close is called by each that could",
        f"{BATCH}/callers.rs",
        "!self.is_closing.swap(true, Ordering::AcqRel)",
        "!self.is_closing.swap(true, Ordering::AcqRel) || true",
        f"{COLLECTION}::test_on_close_comes_once_after_the_last_batch_and_before_shutdown_returns",
    ),
    Mutant(
        "on_close_may_wait_for_itself",
        "a shutdown from on_close hangs",
        "crates/drainq-core/src/batch/worker.rs",
        "let before = DRAINING.replace((queue, 0));",
        "let before = DRAINING.replace((queue - queue, 0));",
        f"{COLLECTION}::test_a_consumer_hears_of_the_end_and_may_not_wait_for_it_there",
        dies="hangs",
    ),
    Mutant(
        "dropped_worker_forgets",
        "what a worker merged is lost when it is dropped without close",
        "python/drainq/delivery/worker.py",
        "        if self._begin_to_close():\n            self._finish(None)\n",
        "        if self._begin_to_close():\n            pass\n",
        "tests/workers/test_dropped.py",
    ),
    # -- exit -------------------------------------------------------------------------------------
    Mutant(
        "door_without_halt",
        "a thread that is ended below native code takes the process with it",
        f"{SRC}/gil.rs",
        "    let halt = Halt;\n    let done = work();\n    mem::forget(halt);\n    done\n",
        "    work()\n",
        EXIT,
        dies="crashes",
    ),
    Mutant(
        "queue_after_the_exit",
        "a queue that is made after drainq's exit callback takes items and never hands them out",
        f"{BATCH}/queue.rs",
        "        exit::check_not_over(py, &name)?;\n",
        "",
        "tests/batch/test_exit.py::test_a_queue_that_comes_after_the_exit_of_drainq_is_refused_and_one_that_was_there_rejects",
        dies="hangs",
    ),
    Mutant(
        "queues_made_at_exit_are_missed",
        "a queue that a handler makes while the interpreter exits is not shut down",
        f"{BATCH}/exit.rs",
        "    while let Some(queue) = live().into_iter().find(|queue| queue.is_running()) {\n",
        "    while let Some(queue) = None::<Arc<dyn Live>> {\n",
        "tests/batch/test_exit.py::test_queues_that_handlers_make_while_the_interpreter_exits_deliver_too",
    ),
    Mutant(
        "shutdown_does_not_join",
        "drain threads outlive the shutdown",
        f"{BATCH}/shutdown.rs",
        "            self.join_threads(py, deadline)?;\n",
        "",
        f"{TOLD}::test_no_drain_thread_is_left_when_shutdown_returns "
        f"{TOLD}::test_a_shutdown_that_was_interrupted_while_it_joined_is_finished_by_the_next",
    ),
    Mutant(
        "interrupted_join_forgets",
        "a shutdown that is interrupted while it joins forgets the threads",
        f"{BATCH}/shutdown.rs",
        "self.process().threads.lock().iter().map(|thread| thread.clone_ref(py)).collect();",
        "std::mem::take(&mut *self.process().threads.lock());",
        f"{TOLD}::test_a_shutdown_that_was_interrupted_while_it_joined_is_finished_by_the_next",
    ),
    Mutant(
        "no_lock_around_a_handler",
        "two threads are in one handler of a queue that spreads its types",
        f"{BATCH}/drain.rs",
        "if one_call_at_a_time.is_some() {",
        "if one_call_at_a_time.is_some() || true {",
        f"{TOLD}::test_a_handler_is_called_by_one_thread_at_a_time_however_its_items_are_spread",
    ),
    # -- fork -------------------------------------------------------------------------------------
    Mutant(
        "child_hands_out_the_parents_pass",
        "a child that was made in a handler hands out the rest of its parent's items",
        f"{BATCH}/drain.rs",
        "            if begun_in.is_past() {\n                exit::leave_child(py);\n            }\n            if !pass.account",
        "            if !pass.account",
        f"{FORK}::test_a_child_made_in_a_handler_hands_out_what_it_produces_and_nothing_of_its_parents",
        dies="hangs",
    ),
    Mutant(
        "child_leaves_its_items",
        "a child that was made in a handler ends without handing out what it produced",
        f"{BATCH}/exit.rs",
        "calls::join_others(py).and_then(|()| end_live(py));",
        "calls::join_others(py);",
        f"{FORK}::test_a_child_made_in_a_handler_hands_out_what_it_produces_and_nothing_of_its_parents",
    ),
    Mutant(
        "child_waits_for_its_parent",
        "a wait that was begun in the parent goes on in the child, where nothing ends it",
        f"{SRC}/deadline.rs",
        "if begun_in.is_past() {",
        "if begun_in.is_past() && false {",
        f"{FORK}::test_a_wait_that_a_signal_handler_forks_goes_on_in_the_parent_and_raises_in_the_child",
        dies="hangs",
    ),
    Mutant(
        "child_produces_into_the_parents_queue",
        "a produce call that waits for room when a signal handler forks waits for ever in the child",
        f"{BATCH}/produce/slow_path.rs",
        "            if begun_in.is_past() {",
        "            if begun_in.is_past() && false {",
        f"{FORK}::test_a_produce_that_waits_for_room_when_a_signal_handler_forks_goes_on_in_the_parent",
        dies="hangs",
    ),
    # -- what is told -----------------------------------------------------------------------------
    Mutant(
        "nothing_tells_later",
        "the last refusals of a burst are told only when another comes",
        f"{BATCH}/drops.rs",
        "!self.has_reporter() && self.start_reporter(py).is_err()",
        "false",
        f"{TOLD}::test_refusals_after_the_close_are_told_without_a_further_one",
    ),
    Mutant(
        "flush_tells_nothing",
        "a flush leaves refusals untold",
        f"{BATCH}/flush.rs",
        "        self.shared().drops.flush(py);\n        Ok(flushed)\n",
        "        Ok(flushed)\n",
        f"{TOLD}::test_a_flush_and_a_shutdown_tell_what_waits_and_leave_no_thread",
    ),
    Mutant(
        "errors_without_traceback",
        "the error handler and the log do not see where a handler raised",
        f"{SRC}/calls.rs",
        "error.into_value(py).into_bound(py)",
        '{ let _ = error.value(py).setattr("__traceback__", py.None()); error.value(py).clone() }',
        f"{TOLD}::test_an_error_handler_gets_the_traceback_of_the_handlers_frames",
    ),
    Mutant(
        "shutdown_beside_on_close",
        "a shutdown returns while another one calls on_close",
        f"{BATCH}/caller.rs",
        "        process.queue.while_draining(|| {",
        "        callers.set_closed();\n        process.queue.while_draining(|| {",
        f"{COLLECTION}::test_a_second_shutdown_waits_for_an_on_close_that_the_first_calls",
    ),
    Mutant(
        "child_tells_the_parents_drops",
        "a forked child tells of refusals of its parent once more",
        f"{BATCH}/shared.rs",
        "        self.drops.forget();\n",
        "",
        f"{FORK}::test_a_child_tells_of_its_own_drops_alone",
    ),
    Mutant(
        "reporter_unseen_by_the_collector",
        "the collector empties an on_drop that a thread is about to call",
        f"{BATCH}/shared.rs",
        "process.callers.are_left() || self.drops.has_reporter()",
        "process.callers.are_left()",
        f"{COLLECTION}::test_on_drop_stays_whole_until_the_last_refusals_are_told",
        dies="crashes",
    ),
]
