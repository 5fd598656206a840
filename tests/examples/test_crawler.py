"""The crawler of docs/tutorials/crawler.md ends at Ctrl-C, and stores what it fetched."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from tests.patience import PATIENCE
from tests.shape.documents import program
from tests.shape.project import ROOT

from drainq import MultiQueue

START, LINK = "https://one.example/", "https://two.example/"


def test_ctrl_c_ends_the_threads_and_stores_the_pages_that_they_are_fetching():
    crawler: dict[str, Any] = {"__name__": "crawler"}
    exec(program(ROOT / "docs/tutorials/crawler.md"), crawler)
    fetching, ended, queue = threading.Event(), threading.Event(), MultiQueue()

    def join():
        assert fetching.wait(PATIENCE)
        raise KeyboardInterrupt

    def shutdown(**how):
        queue.shutdown(**how)
        ended.set()

    def fetch(url):
        fetching.set()
        return [LINK] if ended.wait(PATIENCE) else []

    watched = SimpleNamespace(
        add_sub_queue=queue.add_sub_queue, stream=queue.stream, task_done=queue.task_done, join=join, shutdown=shutdown
    )
    crawler.update(MultiQueue=lambda: watched, fetch=fetch)
    before, stored = set(threading.enumerate()), []
    try:
        with pytest.raises(KeyboardInterrupt):
            crawler["crawl"](START, stored.extend)
        assert (stored, set(threading.enumerate()) - before) == ([(START, 1)], set())
    finally:
        shutdown(immediate=True)
