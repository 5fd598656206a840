"""Faults in the delivery and in the workers."""

from __future__ import annotations

from .mutant import Mutant

DELIVERY = "python/drainq/delivery"
WORKERS = "python/drainq/workers"
SENDER = "tests/delivery/test_sender.py"
SENDING = "tests/delivery/test_delivery.py"
HOLDING = "tests/workers/test_holding.py"
CUT = "tests/delivery/test_cut.py"
LETTERS = "tests/delivery/test_dead_letters.py"
FAULTS = "tests/workers/test_faults.py"
DECLARED = "tests/workers/test_declared.py"

MUTANTS = [
    # -- delivery ---------------------------------------------------------------------------------
    Mutant(
        "late_answer_is_not_heard",
        "what the sink sends after close() stays lost",
        f"{DELIVERY}/delivery.py",
        "            if before is not Outcome.DEAD_LETTERED:\n                if before is not outcome:\n",
        "            if before is not Outcome.DEAD_LETTERED:\n                if before is Outcome.PENDING:\n",
        f"{SENDER}::test_close_returns_while_the_sink_hangs_and_the_books_agree_then_and_later",
    ),
    Mutant(
        "late_answer_leaves_its_letter",
        "what the sink sends after close() is sent again from the delayed queue",
        f"{DELIVERY}/delivery.py",
        "if outcome is Outcome.SENT and whole and key and self._dead_letters and self._dead_letters.withdraw(key):",
        "if False and self._dead_letters and key and self._dead_letters.withdraw(key):",
        f"{SENDER}::test_close_returns_while_the_sink_hangs_and_the_books_agree_then_and_later",
    ),
    Mutant(
        "cut_counts_entries",
        "at the cut an entry that stands for several items counts for one",
        f"{DELIVERY}/delivery.py",
        "self._books.move(self._size(parcel.items), Outcome.PENDING, Outcome.LOST)",
        "self._books.move(len(parcel.items), Outcome.PENDING, Outcome.LOST)",
        f"{CUT}::test_what_is_being_sent_at_the_cut_is_lost_until_the_sink_answers",
    ),
    Mutant(
        "answered_batch_is_kept",
        "a batch whose call has ended is kept in the dead letters all the same",
        f"{DELIVERY}/delivery.py",
        "if parcel.outcome is not Outcome.LOST or id(parcel) not in self._in_hand:",
        "if parcel.outcome is not Outcome.LOST:",
        f"{CUT}::test_a_batch_whose_answer_is_lost_counts_as_lost_and_is_kept_no_more",
    ),
    Mutant(
        "resend_has_no_deadline",
        "a turn of resending goes on when its time is over",
        f"{DELIVERY}/dead_letters.py",
        "if not goes_on or time.monotonic() >= deadline:",
        "if not goes_on:",
        f"{LETTERS}::test_a_turn_ends_by_its_deadline_and_when_it_is_stopped",
    ),
    Mutant(
        "nameless_refusal_of_a_letter_is_not_counted",
        "an item of a dead letter that is refused without being named stays counted as a dead letter",
        f"{DELIVERY}/dead_letters.py",
        "            self._books.move(self._size(nameless), Outcome.DEAD_LETTERED, Outcome.REFUSED)\n",
        "",
        f"{LETTERS}::test_items_that_are_refused_without_a_name_are_refused_and_not_kept",
    ),
    Mutant(
        "keys_of_another_sink_are_learned",
        "a worker takes items out of the messages of another sink",
        f"{DELIVERY}/dead_letters.py",
        'if payload.get("sink") == self._label and not payload.get("older"):',
        'if not payload.get("older"):',
        f"{LETTERS}::test_a_worker_that_begins_knows_the_keys_of_its_own_messages_alone",
    ),
    Mutant(
        "shared_queue_keeps_a_closed_worker",
        "a closed worker goes on to get items of a shared queue",
        f"{DELIVERY}/worker.py",
        "                self._shared.remove_handler(kind, _seconds_until(deadline))\n",
        "                pass\n",
        f"{HOLDING}::test_what_reaches_a_shared_queue_after_its_worker_left_has_no_handler",
    ),
    Mutant(
        "left_without_a_handler_vanishes",
        "items that find no handler while their worker closes are in none of its counts",
        f"{DELIVERY}/worker.py",
        "of.accepted - of.handled - of.failed - unrouted",
        "of.accepted - of.handled - of.failed - of.unrouted",
        f"{HOLDING}::test_a_worker_leaves_a_shared_queue_in_time_and_loses_what_it_accepted_and_no_more",
    ),
    Mutant(
        "late_batch_counts_twice",
        "a batch that comes after the books were closed is accepted once more",
        f"{DELIVERY}/worker.py",
        "                self._books.move(count, Outcome.LOST, Outcome.PENDING)\n",
        "                self._books.arrive(count)\n",
        f"{HOLDING}::test_a_batch_that_comes_after_the_books_were_closed_is_counted_once",
    ),
    Mutant(
        "rows_kept_from_the_start_of_their_period",
        "a row of a period is deleted before its time, and a late item begins it anew",
        f"{WORKERS}/metric_tables.py",
        "math.floor(now - metric.keep[period] - PERIODS[period])",
        "math.floor(now - metric.keep[period])",
        f"{DECLARED}::test_a_row_that_was_written_is_deleted_when_a_flush_would_leave_it_out",
    ),
    Mutant(
        "halves_of_a_batch_out_of_order",
        "behind poison the second half of a batch is sent before the first",
        f"{DELIVERY}/isolate_poison.py",
        "self._parts += [part[half:], part[:half]]",
        "self._parts += [part[:half], part[half:]]",
        f"{SENDING}::test_poison_stands_alone_and_the_rest_goes_in_order",
    ),
    Mutant(
        "outage_without_end",
        "a batch is tried for ever",
        f"{DELIVERY}/outage.py",
        "            left = self._retry_for - (now - self._down_since)\n",
        "            left = self._retry_for if tries < 99 else 0.0\n",
        f"{SENDING}::test_an_outage_is_given_up_after_retry_for_and_what_comes_later_is_tried_twice",
    ),
    Mutant(
        "each_batch_waits_anew",
        "every batch of an outage waits for the whole time again",
        f"{DELIVERY}/outage.py",
        "            if self._down_since is None or now - self._failed_at >",
        "            if tries == 1 or self._down_since is None or now - self._failed_at >",
        f"{SENDING}::test_an_outage_is_given_up_after_retry_for_and_what_comes_later_is_tried_twice",
    ),
    Mutant(
        "stop_is_waited_out",
        "a failure that cannot pass is tried again",
        f"{DELIVERY}/delivery.py",
        "                if failure is Failure.CANNOT_PASS:\n",
        "                if failure is Failure.CANNOT_PASS and tries > 3:\n",
        f"{SENDING}::test_a_failure_that_cannot_pass_stops_at_once_until_something_is_sent",
    ),
    Mutant(
        "producers_do_not_hear_of_a_stop",
        "what is produced while the delivery is stopped is accepted, and lost",
        f"{DELIVERY}/delivery.py",
        "        self.on_stop()\n",
        "        pass\n",
        f"{SENDER}::test_a_stopped_sender_refuses_producers_with_the_reason",
    ),
    # -- dead letters -----------------------------------------------------------------------------
    Mutant(
        "letters_of_another_are_ours",
        "what another worker gave up on is subtracted from our dead letters",
        f"{DELIVERY}/dead_letters.py",
        "        if origin == self._origin:\n",
        "        if origin:\n",
        f"{SENDER}::test_what_another_worker_gave_up_on_is_counted_apart",
    ),
    Mutant(
        "older_letter_overtakes",
        "an older item that was kept replaces a newer one",
        f"{DELIVERY}/dead_letters.py",
        "        if not self._kept or self._key_of is None:\n            return\n",
        "        return\n",
        f"{SENDER}::test_an_older_item_never_replaces_a_newer_one_of_its_key",
    ),
    Mutant(
        "older_letter_comes_after_the_newer",
        "of two letters with one key the older is sent behind the newer",
        f"{DELIVERY}/dead_letters.py",
        "            self._replace_older(sent, key)\n",
        "            pass\n",
        f"{SENDER}::test_of_two_letters_with_a_key_the_later_wins_even_if_it_goes_first",
    ),
    Mutant(
        "letter_goes_to_the_end",
        "a letter that finds the other side down is sent behind later ones",
        f"{DELIVERY}/dead_letters.py",
        "due = self._clock.now() + RESEND_DELAY if goes_on else envelope.schedule_at",
        "due = self._clock.now()",
        f"{SENDER}::test_letters_are_sent_in_the_order_of_the_batches_also_after_a_failure_in_the_middle",
    ),
    Mutant(
        "poison_keeps_its_letter_whole",
        "good items stay in a letter beside poison",
        f"{DELIVERY}/dead_letters.py",
        "                if not parts.halve(part):\n",
        "                if True:\n",
        f"{SENDER}::test_poison_has_a_letter_of_its_own_and_good_rows_of_a_letter_return",
    ),
    Mutant(
        "kept_from_before_is_not_known",
        "a worker that begins later lets an older letter replace what it wrote",
        f"{DELIVERY}/dead_letters.py",
        "            self._learn()\n",
        "            pass\n",
        f"{SENDER}::test_a_worker_that_begins_later_knows_what_is_kept",
    ),
    Mutant(
        "bytes_become_text",
        "bytes come back from the delayed queue as text",
        f"{DELIVERY}/payload.py",
        '    "$bytes": base64.b64decode,\n',
        '    "$bytes": str,\n',
        "tests/delivery/test_payload.py::test_a_value_comes_back_equal_and_of_its_type",
    ),
    # -- holding ----------------------------------------------------------------------------------
    Mutant(
        "half_a_batch_is_merged",
        "what was merged before a merge raised stays merged",
        f"{WORKERS}/aggregator.py",
        "            merged.update(before)\n",
        "            pass\n",
        f"{HOLDING}::test_a_batch_whose_merge_raises_in_the_middle_is_not_merged_in_part",
    ),
    Mutant(
        "changed_in_place",
        "a merge that changes its argument cannot be undone",
        f"{WORKERS}/aggregator.py",
        "        return copy.deepcopy(stored)\n",
        "        return stored\n",
        f"{HOLDING}::test_that_holds_for_a_merge_that_changes_what_it_is_given",
    ),
    Mutant(
        "nan_has_a_rank",
        "an item whose score is NaN pushes others out",
        f"{WORKERS}/topn.py",
        "zip(batch, scored) if score == score]",
        "zip(batch, scored)]",
        f"{HOLDING}::test_top_n_is_that_of_heapq_and_nan_has_no_rank",
    ),
    Mutant(
        "second_owner_of_a_type",
        "the second worker of a shared queue takes the items of the first",
        f"{DELIVERY}/type_owners.py",
        "    if owner is not None and owner is not worker:\n",
        "    if False:\n",
        f"{HOLDING}::test_an_item_type_of_a_shared_queue_belongs_to_one_worker",
    ),
    # -- rows one by one --------------------------------------------------------------------------
    Mutant(
        "null_keys_are_one",
        "rows whose key is NULL replace each other",
        "python/drainq/sql/upsert.py",
        "object() if None in values else tuple(",
        "tuple(",
        f"{FAULTS}::test_null_keys_are_never_the_same",
    ),
    # -- declared metrics -------------------------------------------------------------------------
    Mutant(
        "item_of_two_metrics_counts_twice",
        "an item that two metrics take is counted by both",
        f"{WORKERS}/declared.py",
        "(read, int(place not in taken))",
        "(read, 1)",
        f"{DECLARED}::test_items_of_several_classes_and_metrics_are_counted_once_each",
    ),
    Mutant(
        "old_rows_stay",
        "rows that are too old are not deleted",
        f"{WORKERS}/declared.py",
        "                    if merged.metric.keep:\n",
        "                    if False:\n",
        f"{DECLARED}::test_what_is_too_old_is_refused_or_deleted",
    ),
]
