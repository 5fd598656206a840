"""Faults in the Python packages, as text: each is named in docs/explain/proof.md."""

from __future__ import annotations

from .mutant import Mutant

MUTANTS = [
    Mutant(
        "given_up_is_not_counted",
        "the item of a cancelled task is in no counter",
        "python/drainq/aio.py",
        (
            "    except BaseException:  # a cancelled task, or a loop that is closed\n"
            "        attempt.give_up()\n"
            "        raise"
        ),
        ("    except BaseException:\n        raise"),
        "tests/batch/test_coroutines.py::test_totals_are_exact_with_tasks_cancelled_at_random",
    ),
    Mutant(
        "ack_of_what_is_not_ours",
        "a consumer whose lease is over deletes what another one has by then",
        "python/drainq/delayed/storage/sqlite/messages_sql.py",
        '_OURS = \'WHERE "id" IN (SELECT value FROM json_each(:ids)) AND "lockUuid" = :lock\'',
        "_OURS = 'WHERE \"id\" IN (SELECT value FROM json_each(:ids)) AND :lock IS NOT NULL'",
        "tests/delayed/test_storage_calls.py",
    ),
    Mutant(
        "update_keeps_the_lease",
        "a message that is updated while it is handled is deleted by the acknowledgement",
        "python/drainq/delayed/storage/sqlite/messages_sql.py",
        '    "lockUuid" = NULL, "attempts" = 0, "lastError" = NULL, "priority" = ?6',
        '    "attempts" = 0, "lastError" = NULL, "priority" = ?6',
        "tests/delayed/test_ack.py tests/delayed/test_consume.py::test_a_message_updated_while_it_is_handled_comes_again",
    ),
    Mutant(
        "ticks_made_again",
        "a scheduler whose clock is behind makes ticks that were handled",
        "python/drainq/delayed/storage/sqlite/ticks_sql.py",
        "WHERE :nominal > COALESCE((",
        "WHERE :nominal IS NOT NULL OR :nominal > COALESCE((",
        "tests/delayed/cron/test_once.py::test_a_tick_that_was_forgotten_for_its_age_is_not_made_again",
    ),
    Mutant(
        "older_letter_overtakes",
        "an older item that was kept replaces a newer one",
        "python/drainq/delivery/dead_letters.py",
        ("        if not self._kept or self._key_of is None:\n            return\n"),
        "        return\n",
        "tests/delivery/test_sender.py::test_an_older_item_never_replaces_a_newer_one_of_its_key",
    ),
    Mutant(
        "kept_from_before_is_not_known",
        "a worker that begins later lets an older letter replace what it wrote",
        "python/drainq/delivery/dead_letters.py",
        "            self._learn()\n",
        "            pass\n",
        "tests/delivery/test_sender.py::test_a_worker_that_begins_later_knows_what_is_kept",
    ),
    Mutant(
        "late_answer_is_not_heard",
        "what the sink sends after close() stays lost",
        "python/drainq/delivery/delivery.py",
        ("            if before is not Outcome.DEAD_LETTERED:\n                if before is not outcome:\n"),
        ("            if before is not Outcome.DEAD_LETTERED:\n                if before is Outcome.PENDING:\n"),
        "tests/delivery/test_close.py::test_close_returns_while_the_sink_hangs_and_the_books_agree_then_and_later",
    ),
    Mutant(
        "late_answer_leaves_its_letter",
        "what the sink sends after close() is sent again from the delayed queue",
        "python/drainq/delivery/delivery.py",
        "if not parcel.unsent and key and self._dead_letters and self._dead_letters.withdraw(key):",
        "if False and self._dead_letters and key and self._dead_letters.withdraw(key):",
        "tests/delivery/test_close.py::test_close_returns_while_the_sink_hangs_and_the_books_agree_then_and_later",
    ),
    Mutant(
        "ctrl_c_between_commit_and_count",
        "Ctrl-C right after a commit leaves the round out of what the command says last",
        "python/drainq/metrics/follow/rounds.py",
        "                hold_ctrl_c()\n",
        "",
        "tests/metrics/test_follow_file.py::test_ctrl_c_right_after_a_commit_comes_when_the_round_is_counted",
    ),
    Mutant(
        "long_names_run_together",
        "two long paths that begin alike are one",
        "python/drainq/metrics/storable_text.py",
        "hashlib.sha256(encoded).hexdigest()[:32]",
        "hashlib.sha256(encoded[:100]).hexdigest()[:32]",
        "tests/metrics/test_storable_text.py",
    ),
    Mutant(
        "poll_not_closed",
        "what is done while a batch is read comes again with it",
        "python/drainq/sources/prefetch_read.py",
        "                batch = SourceBatch(answer, poll)\n",
        ("                batch = SourceBatch(answer, poll)\n                self._buffer._end_poll(poll)\n"),
        "tests/sources/test_prefetch_intake.py::test_a_refill_that_began_before_done_cannot_bring_the_item_back tests/sources/test_prefetch_intake.py::test_held_items_cannot_be_brought_back_by_a_done_either",
    ),
    Mutant(
        "capacity_is_exceeded",
        "a refill puts more into the buffer than it has room for",
        "python/drainq/sources/prefetch_read.py",
        "        return self._size.capacity - len(self._buffer)\n",
        "        return 1 + self._size.capacity - len(self._buffer)\n",
        "tests/sources/test_prefetch.py::test_the_capacity_holds_and_the_rest_enters_first_next_time",
    ),
    Mutant(
        "failed_batch_passes",
        "a task whose handler failed ends as if it had not",
        "python/drainq/spark/queue_of_task.py",
        ("    if failed:\n        raise failed[0]\n"),
        "    del failed[:]\n",
        "tests/spark/test_aggregate.py::test_a_handler_error_reaches_the_driver_with_its_own_words tests/spark/test_aggregate.py::test_a_task_queue_drains_at_its_end_and_drops_when_nobody_wants_more",
    ),
    Mutant(
        "last_chunk_is_lost",
        "the last rows of a partition never reach the queue",
        "python/drainq/spark/row_task.py",
        ("    if chunk:\n        yield chunk\n"),
        "",
        "tests/spark/test_aggregate.py::test_the_rdd_door_gives_the_same",
    ),
    Mutant(
        "item_of_two_metrics_counts_twice",
        "an item that two metrics take is counted by both",
        "python/drainq/workers/declared.py",
        "(read, int(place not in taken))",
        "(read, 1)",
        "tests/workers/test_declared.py::test_items_of_several_classes_and_metrics_are_counted_once_each",
    ),
]
