"""Faults of the batch queue's coroutines, `python/drainq/aio.py` and their native part."""

from __future__ import annotations

from .mutant import Mutant

AIO = "python/drainq/aio.py"
TESTS = "tests/batch/test_coroutines.py"

MUTANTS = [
    Mutant(
        "given_up_is_not_counted",
        "the item of a cancelled task is in no counter",
        AIO,
        """    except BaseException:  # a cancelled task, or a loop that is closed
        attempt.give_up()
        raise""",
        """    except BaseException:
        raise""",
        f"{TESTS}::test_totals_are_exact_with_tasks_cancelled_at_random",
    ),
    Mutant(
        "awaits_after_the_push",
        "a task that is cancelled may have its item in the queue",
        AIO,
        """            accepted = attempt.try_now()
            if accepted is not None:
                return accepted
            if deadline""",
        """            accepted = attempt.try_now()
            if accepted is not None:
                await asyncio.sleep(0)
                return accepted
            if deadline""",
        f"{TESTS}::test_a_task_that_is_cancelled_right_after_its_item_went_in_has_its_result",
    ),
    Mutant(
        "handler_waits_for_itself",
        "an async handler that produces into its own full queue hangs",
        AIO,
        "if number in HANDLING.get():\n            attempt",
        "if False:\n            attempt",
        f"{TESTS}::test_what_would_wait_for_itself_raises",
        "hangs",
    ),
]
