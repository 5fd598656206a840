"""Faults in what an operator sees and steers: schedules under wrong clocks, pauses, limits, priorities, the past."""

from __future__ import annotations

from .mutant import Mutant

DELAYED = "python/drainq/delayed"
STORAGE = f"{DELAYED}/storage"
TESTS = "tests/delayed"

MUTANTS = [
    # -- schedules --------------------------------------------------------------------------------
    Mutant(
        "the_floor_passes_undelivered_ticks",
        "one check by a clock that is ahead hides the ticks in between",
        f"{STORAGE}/sqlite/ticks_sql.py",
        '("isFloor" OR (COALESCE("recordedAt", :until - 1) < :until AND NOT EXISTS (',
        '("isFloor" OR (COALESCE("recordedAt", :until - 1) < 9e18 OR NOT EXISTS (',
        f"{TESTS}/test_cron_clock.py",
    ),
    Mutant(
        "the_floor_passes_ticks_recorded_just_now",
        "ticks that a wrong clock delivered early hide those before them",
        f"{STORAGE}/memory/ticks.py",
        "at < until * 1000 and recorded < until",
        "at < until * 1000 and recorded < 2**62",
        f"{TESTS}/test_cron_clock.py::test_ticks_delivered_early_by_a_wrong_clock_hide_no_tick_before_them",
    ),
    Mutant(
        "ticks_to_come_count_as_the_last",
        "after a clock was ahead, missed ticks are not made up for",
        f"{DELAYED}/cron/service.py",
        "until = microseconds(now)",
        "until = 2**62",
        f"{TESTS}/test_cron_clock.py::test_ticks_planned_far_ahead_hide_none_that_is_missed_before_them",
    ),
    Mutant(
        "forget_keeps_the_floor",
        "a schedule that is forgotten stays dead",
        f"{STORAGE}/memory/ticks.py",
        "                del queue.floors[which]\n",
        "                pass\n",
        f"{TESTS}/test_cron_clock.py::test_a_schedule_that_is_forgotten_begins_anew",
    ),
    Mutant(
        "a_check_after_close_installs",
        "a function that hung plans ticks after its schedule was closed",
        f"{DELAYED}/cron/service.py",
        "            if handle.closed:  # while the function ran\n",
        "            if False:\n",
        f"{TESTS}/test_cron_operator.py::test_a_check_that_ends_after_close_installs_nothing",
    ),
    Mutant(
        "a_backfill_takes_its_end",
        "two back-fills side by side make the tick between them twice",
        f"{DELAYED}/cron/admin.py",
        "takewhile(lambda at: at < last,",
        "takewhile(lambda at: at <= last,",
        f"{TESTS}/test_cron_operator.py::test_a_backfill_makes_the_ticks_of_its_range_and_not_its_end",
    ),
    # -- asyncio ----------------------------------------------------------------------------------
    Mutant(
        "a_cut_off_poll_keeps_its_message",
        "a poll that the end of its loop cuts off keeps its message for the whole lease",
        f"{DELAYED}/call_threads.py",
        "                give_back_once()\n            raise\n",
        "                pass\n            raise\n",
        f"{TESTS}/test_aio.py",
    ),
    Mutant(
        "close_waits_for_nothing_given_back",
        "closing right after a cancel leaves a message leased",
        f"{DELAYED}/call_threads.py",
        "        wait(returning, timeout)\n",
        "",
        f"{TESTS}/test_aio.py::test_closing_waits_for_what_a_cancelled_poll_gives_back",
    ),
    # -- pausing, limits, the past ----------------------------------------------------------------
    Mutant(
        "a_pause_stops_nothing",
        "a paused queue delivers",
        f"{STORAGE}/sqlite/messages_sql.py",
        'AND ("paused" OR "ranked"))',
        'AND "ranked")',
        f"{TESTS}/test_operate.py::test_a_paused_queue_delivers_to_no_consumer_and_takes_offers",
    ),
    Mutant(
        "a_limit_forgets_what_is_in_flight",
        "more messages are in flight than the limit says",
        f"{STORAGE}/in_flight_limits.py",
        "self._left[prefix] -= key.startswith(prefix)",
        "self._left[prefix] -= 0",
        f"{TESTS}/test_operate.py::test_a_limit_counts_what_others_hold_and_not_what_has_expired",
    ),
    Mutant(
        "a_full_prefix_holds_up_the_queue",
        "a message without room keeps later ones from being taken",
        f"{STORAGE}/postgres/take_within_limits.py",
        "            if len(found) < wanted:\n                break\n",
        "            break\n",
        f"{TESTS}/test_operate.py::test_a_batch_goes_on_behind_the_messages_of_a_prefix_that_it_fills",
    ),
    Mutant(
        "a_history_grows",
        "the history is not bounded",
        f"{STORAGE}/sqlite/storage.py",
        """            cursor.execute(self._sql["TRIM_HISTORY"], {"kind": kind, "keep": keep})\n""",
        "",
        f"{TESTS}/test_history.py::test_a_history_keeps_its_size",
    ),
    Mutant(
        "a_history_is_trimmed_before_the_commit",
        "two consumers do not count each other's entries, and the history stays too long",
        f"{STORAGE}/postgres/storage.py",
        """        acked = self._do("ACK_AND_REMEMBER", {**self._held(done), "now": now})
        try:  # after the commit: within it, two consumers would not see, and so not count, each other's entries
            self._do("TRIM_HISTORY", {"kind": kind, "keep": keep})
""",
        """        with self._pool.transaction() as cursor:
            acked = cursor.execute(self._sql["ACK_AND_REMEMBER"], {**self._held(done), "now": now}).rowcount
            cursor.execute(self._sql["TRIM_HISTORY"], {"kind": kind, "keep": keep})
        try:
            pass
""",
        f"{TESTS}/test_history.py::test_a_history_keeps_its_size_when_two_consumers_acknowledge_at_once",
    ),
    Mutant(
        "an_acknowledgement_fails_with_the_trimming",
        "an acknowledgement that was committed raises because the history could not be trimmed",
        f"{STORAGE}/postgres/storage.py",
        "            if not passes(error):\n                raise\n            _log.info(",
        "            raise\n            _log.info(",
        f"{TESTS}/test_history.py::test_an_acknowledgement_counts_although_the_history_could_not_be_trimmed",
    ),
    Mutant(
        "a_database_clock_is_ahead_of_its_answer",
        "with the database's time a message is taken before it is due there",
        f"{DELAYED}/database_clock.py",
        "        ahead = self._ask() - self._monotonic()\n",
        "        ahead = -self._monotonic() + self._ask()\n",
        f"{TESTS}/test_operate.py::test_the_databases_time_goes_on_between_questions_and_is_never_ahead_of_the_answer",
    ),
    Mutant(
        "priorities_are_turned_round",
        "what is less urgent comes first",
        f"{STORAGE}/sqlite/messages_sql.py",
        '"priority" > :after ORDER BY "priority" LIMIT 1',
        '"priority" > :after ORDER BY "priority" DESC LIMIT 1',
        f"{TESTS}/test_priority.py",
    ),
    Mutant(
        "a_look_makes_a_file",
        "a command that only looks creates an SQLite file",
        f"{DELAYED}/admin.py",
        "if missing is not None:",
        "if False:",
        f"{TESTS}/test_cli.py::test_a_look_at_a_file_that_is_not_there_makes_none",
    ),
]
