"""Faults in the Python packages."""

from __future__ import annotations

from .mutant import Mutant

PACKAGE = "python/drainq"

MUTANTS = [
    # -- workers ----------------------------------------------------------------------------------
    Mutant(
        "top_n_prefers_the_later",
        "of equal scores the later item stays",
        f"{PACKAGE}/workers/topn.py",
        "elif score > heap[0][0]:",
        "elif score >= heap[0][0]:",
        "tests/workers/test_topn.py::test_agrees_with_sorting_everything",
    ),
    Mutant(
        "top_n_keeps_its_heaps",
        "what was handed on is handed on again",
        f"{PACKAGE}/workers/topn.py",
        "            self._sink(best[None] if self._group is None else list(best.items()))\n        self._heaps = {}\n",
        "            self._sink(best[None] if self._group is None else list(best.items()))\n",
        "tests/workers/test_topn.py::test_begins_anew_after_a_flush",
    ),
    Mutant(
        "kept_items_are_forgotten",
        "a flush that fails counts its items as sent",
        f"{PACKAGE}/workers/worker.py",
        "            self._retried += self._pending\n            return False\n",
        "            self._retried += self._pending\n",
        "tests/workers/test_aggregator.py::test_what_the_sink_refuses_is_kept_and_handed_on_with_what_comes",
    ),
    Mutant(
        "interval_never_over",
        "a worker flushes only when asked",
        f"{PACKAGE}/workers/worker.py",
        "if self._interval is not None and self._pending and",
        "if False and self._interval is not None and self._pending and",
        "tests/workers/test_aggregator.py::test_the_interval_decides_when_a_batch_or_idleness_flushes",
    ),
    Mutant(
        "persister_commits_in_parts",
        "a flush that the database refuses half-way has written the first half",
        f"{PACKAGE}/sql/database.py",
        '                self.connection.execute("ROLLBACK")\n',
        '                self.connection.execute("COMMIT")\n',
        "tests/sql/test_upsert.py::test_a_block_that_raises_writes_nothing",
    ),
    Mutant(
        "poison_takes_its_half",
        "the rows beside a bad row are given up with it",
        f"{PACKAGE}/workers/writer.py",
        "            elif len(rows) == 1:\n",
        "            elif len(rows) <= 2:\n",
        "tests/workers/test_writer.py::test_poison_is_refused_row_by_row_and_the_rest_written",
    ),
    Mutant(
        "halves_out_of_order",
        "of one key an earlier row wins when its batch was halved",
        f"{PACKAGE}/workers/writer.py",
        "parts += [rows[half:], rows[:half]]",
        "parts += [rows[:half], rows[half:]]",
        "tests/workers/test_writer.py::test_of_one_key_the_last_wins_also_beside_poison",
    ),
    # -- upserts ----------------------------------------------------------------------------------
    Mutant(
        "null_swallows_a_sum",
        "NULL merged with a value is NULL",
        f"{PACKAGE}/sql/upsert.py",
        "return lambda stored, new: new if stored is None else stored if new is None else merge(stored, new)",
        "return lambda stored, new: None if stored is None or new is None else merge(stored, new)",
        "tests/sql/test_upsert.py::test_batches_agree_with_a_plain_model",
    ),
    Mutant(
        "rows_in_any_order",
        "two writers that touch the same rows can deadlock",
        f"{PACKAGE}/sql/upsert.py",
        "return [by_key[key] for key in sorted(by_key)]",
        "return list(by_key.values())",
        "tests/sql/test_upsert.py::test_a_batch_is_written_in_the_order_of_its_keys",
    ),
    # -- the source scheduler ---------------------------------------------------------------------
    Mutant(
        "shares_left_unused",
        "what a source could not give is lost to the others",
        f"{PACKAGE}/sources/scheduler.py",
        "                    n -= len(got)\n",
        "                    n -= share\n",
        "tests/sources/test_scheduler.py::test_unused_shares_go_to_the_others",
    ),
    Mutant(
        "interrupted_step_keeps_its_items",
        "a step that is interrupted while it takes does not give back",
        f"{PACKAGE}/sources/scheduler.py",
        "        except BaseException:\n            self._give_back(taken)\n            raise\n",
        "        except BaseException:\n            raise\n",
        "tests/sources/test_scheduler.py::test_an_interrupt_loses_nothing_that_the_target_has_not_seen",
    ),
    Mutant(
        "backlog_resumes_too_soon",
        "a full target is fed again before it is down to its low-water mark",
        f"{PACKAGE}/sources/scheduler.py",
        "elif not self._paused or self._resume_backlog is None or backlog <= self._resume_backlog:",
        "else:",
        "tests/sources/test_scheduler.py::test_with_a_low_water_mark_a_full_target_is_left_alone_until_it_is_down_to_it",
    ),
    Mutant(
        "failed_counts_as_moved",
        "items on which the target raised count as moved",
        f"{PACKAGE}/sources/scheduler.py",
        "            account.failed += count\n",
        "            account.moved += count\n",
        "tests/sources/test_scheduler.py::test_a_target_that_raises_counts_its_items_as_failed_and_the_others_go_on",
    ),
    # -- metrics ----------------------------------------------------------------------------------
    Mutant(
        "offset_the_wrong_way",
        "a time zone is added where it is to be taken away",
        f"{PACKAGE}/metrics/line.py",
        'return local + offset if sign == b"-" else local - offset',
        "return local + offset",
        "tests/metrics/test_line.py::test_stamps_are_moments",
    ),
]
