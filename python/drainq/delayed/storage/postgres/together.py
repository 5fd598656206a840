"""Together: makes the simultaneous calls of several threads one transaction.

Schedulers and consumers with limits take turns in the database. If several threads of a process wait for a turn, the
thread whose turn comes does the work of all of them. So a busy process needs a turn for each batch, and not for each
call, and in an idle process no call waits.

# Invariants

1. A request runs once, by the thread that has the turn, and its caller waits until it has run or was withdrawn.
2. If a joint call fails for a reason that waiting does not change, each request runs alone, so that only the request
   that is refused gets the error. After any other failure all get it, and each caller tries again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from drainq.delayed.deadline import seconds_left
from drainq.delayed.storage.postgres.connection import PoolExhausted
from drainq.fork import renew_in_child
from drainq.sql.driver_errors import passes

A = TypeVar("A")
R = TypeVar("R")

_LONGEST_WAIT = 30.0  # seconds to wait for a turn if the call has no limit of its own


class _Request(Generic[A, R]):
    def __init__(self, value: A) -> None:
        self.value = value
        self.answer: list[R] = []
        self.error: Exception | None = None


class Together(Generic[A, R]):
    """Calls a function with the requests of all threads that wait.

    Args:
        run: gets requests and returns the answer to each; one call at a time.
        most: the most requests of one call.

    Example:
        >>> Together(lambda numbers: [number * 2 for number in numbers], most=8)(21)
        42
    """

    def __init__(self, run: Callable[[Sequence[A]], Sequence[R]], *, most: int) -> None:
        self._run = run
        self._most = most
        self._renew_in_child()
        renew_in_child(self)

    def _renew_in_child(self) -> None:
        self._waiting: list[_Request[A, R]] = []
        self._turn = threading.Lock()

    def __call__(self, value: A) -> R:
        """Run the request, and those that wait with it. Return its answer.

        Raises:
            PoolExhausted: the turn did not come in time.
        """
        request = _Request[A, R](value)
        self._waiting.append(request)
        try:
            if not self._turn.acquire(timeout=seconds_left(_LONGEST_WAIT)):
                self._waiting.remove(request)
                raise PoolExhausted("the turn of this call did not come: calls before it wait for the database")
        except ValueError:  # another thread is running it
            self._turn.acquire()
        except BaseException:
            if request in self._waiting:
                self._waiting.remove(request)
            raise
        try:
            while not request.answer and request.error is None:
                self._run_waiting()
        finally:
            if request in self._waiting:  # interrupted
                self._waiting.remove(request)
            self._turn.release()
        if request.error is not None:
            raise request.error
        return request.answer[0]

    def _run_waiting(self) -> None:
        group = [self._waiting.pop(0) for _ in range(min(self._most, len(self._waiting)))]
        try:
            self._answer(group)
        except Exception as error:
            if len(group) == 1 or passes(error):
                for request in group:
                    request.error = error
                return
            for request in group:
                try:
                    self._answer([request])
                except Exception as refusal:
                    request.error = refusal
        except BaseException:  # Ctrl-C in this thread: the others continue without it
            self._waiting[:0] = group
            raise

    def _answer(self, group: Sequence[_Request[A, R]]) -> None:
        for request, answer in zip(group, self._run([request.value for request in group]), strict=True):
            request.answer.append(answer)
