"""The progress line, which is shown only on a terminal."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TextIO

from drainq.threads import start_thread

INTERVAL = 0.25  # seconds between two reads of the tasks' state


class Progress:
    """Shows progress on a stream if the stream is a terminal.

    Args:
        stream: usually ``sys.stderr``; None shows nothing.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream if stream is not None and stream.isatty() else None

    @contextlib.contextmanager
    def during(self, name: str, tasks: Callable[[], tuple[int, int]] | None = None) -> Iterator[None]:
        """Show a name while the block runs, and the number of its tasks as ``done/all``."""
        if self._stream is None:
            yield
            return
        self._show(name)
        ended = threading.Event()
        watcher = None
        if tasks is not None:
            watcher = start_thread(self._watch, name="drainq-progress", args=(name, tasks, ended))
        try:
            yield
        finally:
            ended.set()
            if watcher is not None:
                watcher.join()
            self._show("")

    def _watch(self, name: str, tasks: Callable[[], tuple[int, int]], ended: threading.Event) -> None:
        while not ended.wait(INTERVAL):
            try:
                done, total = tasks()
            except Exception:  # Spark may be stopping; a progress line is not worth an error
                return
            if total:
                self._show(f"{name}: {done}/{total} tasks")

    def _show(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()
