"""Faults in the delayed queue: its statements, its leases, its schedules, and what it takes from failed batches."""

from __future__ import annotations

from .mutant import Mutant

DELAYED = "python/drainq/delayed"
SQLITE = f"{DELAYED}/storage/sqlite/messages_sql.py"
SQLITE_TICKS = f"{DELAYED}/storage/sqlite/ticks_sql.py"
TESTS = "tests/delayed"

MUTANTS = [
    # -- statements ---------------------------------------------------------------------------------
    Mutant(
        "ack_of_what_is_not_ours",
        "a consumer whose lease is over deletes what another one has by then",
        SQLITE,
        """_OURS = 'WHERE "id" IN (SELECT value FROM json_each(:ids)) AND "lockUuid" = :lock'""",
        """_OURS = 'WHERE "id" IN (SELECT value FROM json_each(:ids)) AND :lock IS NOT NULL'""",
        f"{TESTS}/test_ack.py",
    ),
    Mutant(
        "update_keeps_the_lease",
        "a message that is updated while it is handled is deleted by the acknowledgement",
        SQLITE,
        '    "lockUuid" = NULL, "attempts" = 0, "lastError" = NULL, "priority" = ?6\n',
        '    "attempts" = 0, "lastError" = NULL, "priority" = ?6\n',
        f"{TESTS}/test_ack.py {TESTS}/test_consume.py::test_a_message_updated_while_it_is_handled_comes_again",
    ),
    Mutant(
        "same_offer_is_an_update",
        "an offer of what is there already begins the message anew",
        SQLITE,
        """WHERE "pKind" = ?2 AND "pKey" = ?1 AND ("payload", "scheduledAtInitially", "priority") IS NOT (?3, ?4, ?6)
\"\"\"
\"\"\"Give a message""",
        """WHERE "pKind" = ?2 AND "pKey" = ?1
\"\"\"
\"\"\"Give a message""",
        f"{TESTS}/test_offer.py::test_offering_the_same_to_the_millisecond_changes_nothing",
    ),
    Mutant(
        "due_a_millisecond_late",
        "a message is not there at its time",
        SQLITE,
        """"scheduledAt" <= :now
        AND NOT EXISTS""",
        """"scheduledAt" < :now
        AND NOT EXISTS""",
        f"{TESTS}/test_poll.py::test_a_message_comes_at_its_time_and_not_a_millisecond_before",
    ),
    Mutant(
        "release_counts_as_an_attempt",
        "a message that was fetched and not handled counts as tried",
        SQLITE,
        """"lockUuid" = NULL, "attempts" = "attempts" - 1""",
        """"lockUuid" = NULL, "attempts" = "attempts\"""",
        f"{TESTS}/test_consume.py::test_what_was_fetched_and_not_handled_is_given_back_as_new",
    ),
    Mutant(
        "redrive_over_a_live_message",
        "dead letters whose key is taken are tried anyway",
        SQLITE,
        """    AND NOT EXISTS (SELECT 1 FROM {table} AS q WHERE q."pKind" = d."pKind" AND q."pKey" = d."pKey")\n""",
        "",
        f"{TESTS}/test_dead_letters.py::test_a_dead_letter_whose_key_is_taken_stays_dead",
    ),
    Mutant(
        "bury_without_deleting",
        "a message that was given up on is alive and dead",
        f"{DELAYED}/storage/sqlite/storage.py",
        """            return cursor.execute(self._sql["ACK"], self._held(held)).rowcount\n""",
        """            return len(self._held(held))\n""",
        f"{TESTS}/test_dead_letters.py",
    ),
    Mutant(
        "delete_what_was_changed",
        "a message that was read is deleted although it was changed since",
        SQLITE,
        """WHERE "id" = :id AND "createdAt" = :created AND "scheduledAtInitially" = :at AND "payload" = :payload
""",
        """WHERE :id AND :created AND :at AND :payload IS NOT NULL
""",
        f"{TESTS}/test_ack.py::test_a_read_message_that_was_changed_since_stays "
        f"{TESTS}/test_ack.py::test_a_read_message_that_was_created_anew_stays",
    ),
    # -- transactions and leases ----------------------------------------------------------------------
    Mutant(
        "failed_statement_commits",
        "a batch of offers that fails half-way leaves its first half",
        f"{DELAYED}/storage/sqlite/statements.py",
        """                    cursor.execute("ROLLBACK")\n""",
        """                    cursor.execute("COMMIT")\n""",
        f"{TESTS}/test_offer.py {TESTS}/test_migrate.py",
    ),
    Mutant(
        "child_uses_the_parents_connection",
        "a forked child works on the connection of its parent",
        f"{DELAYED}/storage/sqlite/statements.py",
        "        renew_in_child(self)\n",
        "",
        f"{TESTS}/test_faults.py::test_a_forked_child_opens_the_file_anew",
    ),
    Mutant(
        "lease_kept_too_late",
        "the lease of a long handler is extended when it is over",
        f"{DELAYED}/lease.py",
        "self._held_since >= self._lease / 3:",
        "self._held_since >= self._lease * 3:",
        f"{TESTS}/test_consume.py::test_the_lease_is_extended_while_the_handler_runs",
    ),
    Mutant(
        "transient_errors_for_ever",
        "a call is tried once more than it was allowed",
        f"{DELAYED}/database_retry.py",
        "retries >= config.max_retries",
        "retries > config.max_retries",
        f"{TESTS}/test_retry.py::test_three_retries_are_four_tries_and_every_error_is_kept",
    ),
    Mutant(
        "tries_after_the_total_timeout",
        "a try begins after the time for all of them",
        f"{DELAYED}/database_retry.py",
        "monotonic() - started + delay > config.total_timeout",
        "monotonic() - started > config.total_timeout",
        f"{TESTS}/test_retry.py::test_no_try_begins_after_the_total_timeout",
    ),
    # -- schedules --------------------------------------------------------------------------------------
    Mutant(
        "ticks_made_again",
        "a scheduler whose clock is behind makes ticks that were handled",
        SQLITE_TICKS,
        "WHERE :nominal > COALESCE((",
        "WHERE :nominal IS NOT NULL OR :nominal > COALESCE((",
        f"{TESTS}/cron/test_once.py::test_a_tick_that_was_forgotten_for_its_age_is_not_made_again",
    ),
    Mutant(
        "delivered_ticks_are_dropped",
        "another configuration drops a tick that a consumer has",
        SQLITE_TICKS,
        """    AND "scheduledAt" > :after AND "lockUuid" IS NULL AND "attempts" = 0 AND "scheduledAt" = "scheduledAtInitially"
""",
        """    AND "scheduledAt" > :after
""",
        f"{TESTS}/cron/test_install_tick.py::test_a_tick_that_was_delivered_but_not_acknowledged_survives_another_configuration "
        f"{TESTS}/cron/test_install_tick.py::test_uninstalling_keeps_what_is_in_flight",
    ),
    Mutant(
        "forgotten_ticks_stay_known",
        "what was uninstalled cannot be installed again",
        f"{DELAYED}/storage/statements.py",
        """            cursor.execute(self._sql["FORGET_TICKS"], {"kind": kind, "keys": self._keys([key for _, key in doomed])})\n""",
        "",
        f"{TESTS}/cron/test_install_tick.py::test_what_was_uninstalled_may_be_installed_again",
    ),
    Mutant(
        "prefixes_run_together",
        "a schedule's uninstalling takes the ticks of a prefix that begins alike",
        f"{DELAYED}/cron/tick_key.py",
        "    match = _AFTER_PREFIX.fullmatch(key, len(prefix) + 1)",
        "    match = re.compile('(.+)').fullmatch(key, len(prefix) + 1)",
        f"{TESTS}/cron/test_install_tick.py::test_prefixes_of_any_characters_do_not_touch_each_other",
    ),
    Mutant(
        "period_on_its_boundary",
        "a periodic tick that is now is made once more",
        f"{DELAYED}/cron/tick_times.py",
        "((after - _EPOCH) // period + 1) * period",
        "((after - _EPOCH) // period) * period",
        f"{TESTS}/test_tick_times.py::test_a_periodic_tick_is_strictly_after",
    ),
    Mutant(
        "overlap_fires_twice",
        "a time of the day fires in both passes of an overlap",
        f"{DELAYED}/cron/tick_times.py",
        "    starred = len(fields) == 6 or fields[0].startswith(",
        "    starred = True or fields[0].startswith(",
        f"{TESTS}/test_tick_times.py::test_a_time_of_the_day_fires_once_on_the_days_the_clock_changes",
    ),
    Mutant(
        "oldest_missed_ticks",
        "of ticks that were missed the oldest are made up for",
        f"{DELAYED}/cron/tick_times.py",
        "return missed[-limit:]",
        "return missed[:limit]",
        f"{TESTS}/test_tick_times.py::test_missed_ticks_are_the_newest_of_those_that_passed",
    ),
    # -- failed batches -----------------------------------------------------------------------------
    Mutant(
        "dead_letters_uncounted",
        "a batch that is kept for later counts as one item",
        f"{DELAYED}/failed_batches.py",
        "        return len(items)\n",
        "        return 1\n",
        f"{TESTS}/test_to_delayed_queue.py",
    ),
]
