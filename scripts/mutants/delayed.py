"""Faults in the delayed queue, the database room and the timer."""

from __future__ import annotations

from .mutant import Mutant

PACKAGE = "python/drainq"
STORAGE = f"{PACKAGE}/delayed/storage"
TESTS = "tests/delayed"

MUTANTS = [
    # -- the database room ------------------------------------------------------------------------
    Mutant(
        "password_up_to_the_first_at",
        "a password with '@' in it is shown from there on",
        f"{PACKAGE}/sql/url.py",
        'text = re.sub(r"(://[^:]*:).*@", ',
        'text = re.sub(r"(://[^:]*:)[^@]*@", ',
        "tests/sql/test_url.py::test_a_text_that_holds_a_url_is_shown_without_its_password",
    ),
    Mutant(
        "password_stays_in_the_uri",
        "a password in the query reaches the driver inside the URI",
        f"{PACKAGE}/sql/url.py",
        "if _SECRET.fullmatch(name):",
        'if name == "password":',
        "tests/sql/test_url.py::test_every_form_is_read",
    ),
    Mutant(
        "a_demotion_cannot_pass",
        "a read-only server ends a consumer",
        f"{PACKAGE}/sql/errors.py",
        '    "25006": _PASSES,  # read-only transaction\n',
        "",
        "tests/sql/test_errors.py::test_a_sqlstate_means_what_the_table_says",
    ),
    Mutant(
        "a_full_disk_cannot_pass",
        "a full SQLite disk ends a consumer",
        f"{PACKAGE}/sql/errors.py",
        "    13: _PASSES,  # FULL\n",
        "",
        f"{TESTS}/test_fail_over.py::test_consume_outlives_a_full_sqlite_disk",
    ),
    # -- the timer --------------------------------------------------------------------------------
    Mutant(
        "the_watch_is_not_handed_over",
        "a work that hangs holds up every alarm",
        f"{PACKAGE}/timer.py",
        "start = bool(self._heap) and self._call_the_watch()",
        "start = False",
        "tests/test_timer.py::test_works_that_hang_hold_up_no_other_alarm",
    ),
    Mutant(
        "a_wake_during_a_turn_is_lost",
        "what woke a repetition during its turn is not seen before the next",
        f"{PACKAGE}/timer.py",
        "                self._woken = True\n",
        "                pass\n",
        "tests/test_timer.py::test_a_repetition_runs_one_turn_at_a_time_and_a_wake_during_a_turn_is_not_lost",
    ),
    # -- fail-over --------------------------------------------------------------------------------
    Mutant(
        "the_round_goes_on",
        "each try gets the next dead connection",
        f"{STORAGE}/postgres_pool.py",
        "                self._round += 1\n",
        "                pass\n",
        f"{TESTS}/test_fail_over.py::test_one_dead_connection_that_says_nothing_costs_one_try_for_all_of_its_round",
    ),
    Mutant(
        "nobody_listens_before_use",
        "a connection that the server ended is found out by a failing try",
        f"{STORAGE}/postgres_direct.py",
        "return self._heard(0.0)",
        "return False",
        f"{TESTS}/test_fail_over.py::test_without_retries_an_idle_connection_that_the_server_ended_costs_no_try",
    ),
    Mutant(
        "no_deadline_on_the_client",
        "a frozen backend holds a call for as long as it is frozen",
        f"{STORAGE}/postgres_connection.py",
        "if not ready and time.monotonic() >= until:",
        "if not ready and time.monotonic() >= until + 3600:",
        f"{TESTS}/test_fail_over.py::test_a_frozen_backend_costs_a_call_one_try",
    ),
    Mutant(
        "consume_ends_with_the_database",
        "a database that is away ends a consumer",
        f"{PACKAGE}/delayed/consume.py",
        "        except QueueUnavailable as error:\n            self._failures += 1\n",
        "        except ZeroDivisionError as error:\n            self._failures += 1\n",
        f"{TESTS}/test_fail_over.py::test_consume_outlives_a_kill_of_all_connections_and_a_crash",
    ),
    Mutant(
        "each_failure_is_logged",
        "a database that is away fills the log",
        f"{PACKAGE}/delayed/retry.py",
        "        if now < self._next:\n",
        "        if now < self._next - 3600:\n",
        f"{TESTS}/test_fail_over.py::test_consume_outlives_each_error_that_passes",
    ),
    # -- a shared server --------------------------------------------------------------------------
    Mutant(
        "settings_stay_behind_a_pooler",
        "another program behind the same pooler gets our settings",
        f"{STORAGE}/postgres_connection.py",
        'f"SET LOCAL {name} = {value}"',
        'f"SET {name} = {value}"',
        f"{TESTS}/test_shared_server.py::test_another_program_behind_the_same_pooler_sees_default_settings",
    ),
    Mutant(
        "prepared_behind_a_pooler",
        "statements are prepared on connections that others get",
        f"{STORAGE}/postgres_connection.py",
        "if self._prepare is False or (self._prepare is None and connection.behind_a_pooler):",
        "if self._prepare is False:",
        f"{TESTS}/test_shared_server.py::test_many_threads_behind_a_pooler_without_prepared_statements_never_fail",
    ),
    Mutant(
        "listen_through_a_pooler",
        "LISTEN stays on a connection that others get",
        f"{STORAGE}/postgres_listen.py",
        "                    if connection.behind_a_pooler:\n",
        "                    if False:\n",
        f"{TESTS}/test_shared_server.py::test_another_program_behind_the_same_pooler_sees_default_settings",
    ),
    Mutant(
        "a_migration_waits_for_ever",
        "a migration behind a long reader locks every writer out",
        f"{STORAGE}/postgres_migrate.py",
        '            cursor.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}", prepare=False)\n'
        '            self._execute(cursor, "LOCK_SCHEDULE", {"name": f"drainq migrate',
        '            self._execute(cursor, "LOCK_SCHEDULE", {"name": f"drainq migrate',
        f"{TESTS}/test_shared_server.py::test_while_a_long_reader_keeps_a_migration_waiting_other_programs_write",
    ),
    # -- right ends -------------------------------------------------------------------------------
    Mutant(
        "a_replaced_message_keeps_its_count",
        "a message that the source's library replaced is buried undelivered",
        f"{STORAGE}/sqlite_sql.py",
        """'CASE WHEN "attemptsOf" <> "createdAt" THEN 0 ELSE "attempts" END'""",
        """'"attempts"'""",
        f"{TESTS}/test_shared_table.py::test_deliveries_of_a_message_that_the_library_replaced_count_from_zero",
    ),
    Mutant(
        "a_stored_offer_is_ignored",
        "an offer whose answer was lost says IGNORED of its own message",
        f"{STORAGE}/postgres_offer.py",
        "stored = self._stored(cursor, kind, offers, now) if again else {}",
        "stored = {}",
        f"{TESTS}/test_right_ends.py::test_an_offer_whose_answer_was_lost_says_what_became_of_it",
    ),
    Mutant(
        "chunks_in_the_callers_order",
        "two large batches of the same keys deadlock",
        f"{STORAGE}/postgres_batch.py",
        "                places = sorted(places, key=lambda place: offers[place].key)\n",
        "",
        f"{TESTS}/test_right_ends.py::test_two_large_batches_of_the_same_keys_in_any_order_never_deadlock",
    ),
    Mutant(
        "no_deadline_on_a_direct_answer",
        "a frozen backend holds a statement without a cursor for as long as it is frozen",
        f"{STORAGE}/postgres_direct.py",
        "            until += GRACE\n",
        "            until += 3600\n",
        f"{TESTS}/test_direct.py::test_a_server_that_does_not_answer_is_given_up_and_its_connection_with_it",
    ),
    Mutant(
        "an_interrupted_statement_goes_on",
        "a statement runs on after Ctrl-C, and its connection is of no more use",
        f"{STORAGE}/postgres_direct.py",
        "                self._give_up_on_it()\n",
        "                self.pgconn.finish()\n",
        f"{TESTS}/test_direct.py::test_an_interrupt_cancels_the_statement_and_leaves_the_connection_usable",
    ),
    Mutant(
        "a_poll_by_priority_reads_the_backlog",
        "a poll by priority sorts all that is due",
        f"{STORAGE}/postgres_take_sql.py",
        """        ORDER BY "scheduledAt", "id"
        LIMIT {limit}
        FOR UPDATE SKIP LOCKED) AS due""",
        """        ORDER BY "scheduledAt" + 0, "id"
        LIMIT {limit}
        FOR UPDATE SKIP LOCKED) AS due""",
        f"{TESTS}/test_priority.py::test_a_poll_by_priority_does_not_look_at_the_backlog",
    ),
    Mutant(
        "an_idle_consumer_asks_twice",
        "a poll that found nothing is made again at once",
        f"{STORAGE}/postgres_take.py",
        "        elif start == LOWEST or mark.is_empty():\n",
        "        elif mark.is_empty() and start != LOWEST:\n",
        f"{TESTS}/test_listen.py::test_an_idle_consumer_asks_once_and_sleeps",
    ),
    Mutant(
        "the_mark_hides_what_is_left",
        "a consumer that empties a queue leaves messages below the mark",
        f"{STORAGE}/scan_floor.py",
        "            self._empty = not rows and (self._empty or start == LOWEST)\n",
        "            self._empty = not rows\n",
        f"{TESTS}/test_scan_floor.py",
    ),
    Mutant(
        "our_own_news_wakes_us",
        "an offer wakes the consumers of its own process twice",
        f"{PACKAGE}/delayed/session.py",
        "        if whose == self.wakeup.token:\n            return\n",
        "",
        f"{TESTS}/test_listen.py::test_news_of_our_own_offers_wakes_nobody_twice",
    ),
    Mutant(
        "an_offer_for_later_wakes_at_once",
        "a consumer polls in vain at each offer for later",
        f"{PACKAGE}/delayed/offer.py",
        "            session.wakeup.wake_in(due_in)\n",
        "            session.wakeup.wake()\n",
        f"{TESTS}/test_listen.py::test_offers_for_later_wake_nobody_before_their_time",
    ),
    Mutant(
        "a_commit_wakes_nobody",
        "a consumer sleeps its poll period after an offer in a caller's transaction",
        f"{PACKAGE}/delayed/offer.py",
        "            wake_after_commit(connection, session.wakeup.wake, session.time.poll_period)\n",
        "",
        f"{TESTS}/test_right_ends.py::test_an_offer_in_a_callers_transaction_wakes_a_consumer_at_the_commit",
    ),
    Mutant(
        "a_read_only_file_cannot_be_opened",
        "a file that may only be read cannot be looked at",
        f"{PACKAGE}/sql/connect.py",
        '                if "readonly" not in str(error):\n                    raise\n',
        "                raise\n",
        f"{TESTS}/test_right_ends.py::test_a_file_that_may_only_be_read_can_be_looked_at",
    ),
]
