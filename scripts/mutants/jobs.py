"""Faults in what runs in Spark tasks, in the metrics job, and in the way of prefetched items."""

from __future__ import annotations

from .mutant import Mutant

PACKAGE = "python/drainq"

MUTANTS = [
    # -- prefetching ------------------------------------------------------------------------------
    Mutant(
        "poll_not_closed",
        "what is done while a batch is read comes again with it",
        f"{PACKAGE}/sources/intake.py",
        "                batch = SourceBatch(answer, poll)\n",
        "                batch = SourceBatch(answer, poll)\n                self._buffer.end_poll(poll)\n",
        "tests/sources/test_prefetch_intake.py::test_a_refill_that_began_before_done_cannot_bring_the_item_back "
        "tests/sources/test_prefetch_intake.py::test_held_items_cannot_be_brought_back_by_a_done_either",
    ),
    Mutant(
        "held_items_may_be_known",
        "an item is held although an equal one is in the buffer",
        f"{PACKAGE}/sources/intake.py",
        "        return not known\n",
        "        return True\n",
        "tests/sources/test_prefetch.py",
    ),
    Mutant(
        "one_bad_key_costs_the_rest",
        "an item without a usable key costs those behind it",
        f"{PACKAGE}/sources/intake.py",
        "self._put_again(queue, chunk[len(chunk) - length_hint(rest) - 1], error)\n",
        "return self._put_again(queue, chunk[len(chunk) - length_hint(rest) - 1], error)\n",
        "tests/sources/test_prefetch_retry.py::test_an_item_without_a_usable_key_is_an_error_and_costs_no_other_item",
    ),
    Mutant(
        "capacity_is_exceeded",
        "a refill puts more into the buffer than it has room for",
        f"{PACKAGE}/sources/intake.py",
        "        return max(0, self._size.capacity - len(self._buffer))\n",
        "        return max(0, 1 + self._size.capacity - len(self._buffer))\n",
        "tests/sources/test_prefetch.py::test_the_capacity_holds_and_the_rest_enters_first_next_time",
    ),
    # -- Spark ------------------------------------------------------------------------------------
    Mutant(
        "failed_batch_passes",
        "a task whose handler failed ends as if it had not",
        f"{PACKAGE}/spark/queue.py",
        "    if failed:\n        raise failed[0]\n",
        "    del failed[:]\n",
        "tests/spark/test_aggregate.py::test_a_handler_error_reaches_the_driver_with_its_own_words "
        "tests/spark/test_aggregate.py::test_a_task_queue_drains_at_its_end_and_drops_when_nobody_wants_more",
    ),
    Mutant(
        "task_ends_undrained",
        "a task takes its results before its handlers have had everything",
        f"{PACKAGE}/spark/queue.py",
        "    if not queue.shutdown():\n",
        "    if False:\n",
        "tests/spark/test_aggregate.py::test_partial_results_add_up",
    ),
    Mutant(
        "merge_takes_the_sum_of_maxima",
        "partial maxima are added up",
        f"{PACKAGE}/spark/aggregate.py",
        'functions = {"sum": F.sum, "max": F.max, "min": F.min}',
        'functions = {"sum": F.sum, "max": F.sum, "min": F.min}',
        "tests/spark/test_aggregate.py::test_merge_takes_the_least_and_the_largest_of_all_tasks",
    ),
    Mutant(
        "last_chunk_is_lost",
        "the last rows of a partition never reach the queue",
        f"{PACKAGE}/spark/row_task.py",
        "    if chunk:\n        yield chunk\n",
        "",
        "tests/spark/test_aggregate.py::test_the_rdd_door_gives_the_same",
    ),
    Mutant(
        "sink_forgets_the_rest",
        "the rows of a task that do not fill a batch are not written",
        f"{PACKAGE}/spark/batcher.py",
        "        self._hand_on(1)\n",
        "",
        "tests/spark/test_sink_task.py::test_each_row_is_in_one_batch",
    ),
    Mutant(
        "sink_keeps_writing",
        "after a failure the batches that wait are written all the same",
        f"{PACKAGE}/spark/writer_sink.py",
        "        if self._window.closed:\n",
        "        if False:\n",
        "tests/spark/test_sink_task.py::test_after_a_failure_nothing_that_waits_is_written",
    ),
    Mutant(
        "sink_window_is_open",
        "a batch that is being written does not count as in flight",
        f"{PACKAGE}/spark/window.py",
        "            self._busy[writer] += 1\n",
        "            self._busy[writer] += 0\n",
        "tests/spark/test_sink_task.py::test_no_more_batches_are_under_way_than_asked_for",
    ),
    Mutant(
        "sink_closes_elsewhere",
        "writers are closed while the queue shuts down, by any thread",
        f"{PACKAGE}/spark/sink_task.py",
        "                    queue.flush(timeout=settings.close_timeout if self._window.closed else None)\n",
        "",
        "tests/spark/test_sink_task.py::test_a_writer_is_made_called_and_closed_by_one_thread",
    ),
    Mutant(
        "sink_halves_the_wrong_rows",
        "a half of a batch that failed has the rows of the other half",
        f"{PACKAGE}/spark/writer_sink.py",
        "rows[first : first + len(items)]",
        "rows[: len(items)]",
        "tests/spark/test_sink_task.py::test_rows_that_fail_alone_are_found",
    ),
    Mutant(
        "unparked_rows_pass",
        "a row that the delayed queue does not take counts as skipped",
        f"{PACKAGE}/spark/parking.py",
        "    required = True\n",
        "    required = False\n",
        "tests/spark/test_sink_task.py::test_a_row_that_cannot_be_parked_fails_the_task_with_the_reason",
    ),
    Mutant(
        "parked_rows_are_plain_json",
        "a parked row loses its types",
        f"{PACKAGE}/spark/parking.py",
        '{"row": pack(row), ',
        '{"row": row, ',
        "tests/spark/test_sink_task.py::test_a_parked_row_comes_back_with_its_types",
    ),
    Mutant(
        "dependencies_stay_at_home",
        "the archive for executors has drainq alone",
        f"{PACKAGE}/spark/ship.py",
        '("drainq", *_dependencies())',
        '("drainq",)',
        "tests/spark/test_ship.py::test_the_archive_has_the_package_its_native_part_and_what_it_depends_on",
    ),
    Mutant(
        "resource_closes_in_use",
        "a resource is closed although somebody uses it",
        f"{PACKAGE}/spark/resource.py",
        "            if kept.alarm is not None:\n                kept.alarm.cancel()\n                kept.alarm = None\n",
        "",
        "tests/spark/test_resource.py::test_an_alarm_that_was_set_does_not_close_what_is_in_use_again",
    ),
    Mutant(
        "child_closes_its_parents",
        "a forked child closes its parent's resource",
        f"{PACKAGE}/spark/resource.py",
        " or self.process != os.getpid()",
        "",
        "tests/spark/test_resource.py::test_a_child_that_leaves_its_parents_block_closes_nothing",
    ),
    # -- metrics ----------------------------------------------------------------------------------
    Mutant(
        "median_of_the_wrong_rank",
        "a percentile is that of the rank below",
        f"{PACKAGE}/metrics/sketch.py",
        "rank = max(1, -(-total * percent // 100))",
        "rank = max(1, total * percent // 100)",
        "tests/metrics/test_sketch.py::test_ranks_are_exact_whole_numbers",
    ),
    Mutant(
        "query_in_the_endpoint",
        "an endpoint keeps its query",
        f"{PACKAGE}/metrics/line.py",
        'return target.partition(b"?")[0] or NO_ENDPOINT',
        "return target or NO_ENDPOINT",
        "tests/metrics/test_line.py::test_an_endpoint_is_the_path_without_its_query",
    ),
    Mutant(
        "long_names_run_together",
        "two long paths that begin alike are one",
        f"{PACKAGE}/metrics/partial_rows.py",
        "hashlib.sha256(encoded).hexdigest()[:32]",
        "hashlib.sha256(encoded[:100]).hexdigest()[:32]",
        "tests/metrics/test_partial_rows.py",
    ),
]
