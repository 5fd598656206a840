"""The crawler of docs/tutorials/crawler.md ends at Ctrl-C, and stores what it fetched."""

from __future__ import annotations

import threading
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

    class Watched:
        """The queue of the crawl, whose ``join`` is interrupted."""

        def __getattr__(self, name):
            return {"join": join, "shutdown": shutdown}.get(name) or getattr(queue, name)

        def __getitem__(self, key):
            return queue[key]

    crawler.update(MultiQueue=Watched, fetch=fetch)
    before, stored = set(threading.enumerate()), []
    try:
        with pytest.raises(KeyboardInterrupt):
            crawler["crawl"](START, stored.extend)
        assert (stored, set(threading.enumerate()) - before) == ([(START, 1)], set())
    finally:
        shutdown(immediate=True)


def test_one_page_of_a_host_is_fetched_at_a_time():
    crawler: dict[str, Any] = {"__name__": "crawler"}
    exec(program(ROOT / "docs/tutorials/crawler.md"), crawler)
    hosts, links = ("one", "two"), 20
    site = {f"https://{host}.example/{n}": [] for host in hosts for n in range(links)}
    busy, most, lock = dict.fromkeys(hosts, 0), dict.fromkeys(hosts, 0), threading.Lock()

    def fetch(url):
        if url == START:
            return list(site)
        host = url.partition("//")[2].partition(".")[0]
        with lock:
            busy[host] += 1
            most[host] = max(most[host], busy[host])
        threading.Event().wait(0.001)
        with lock:
            busy[host] -= 1
        return []

    class Slow:
        """The queue of the crawl, which lets the other threads go on when one has taken an address."""

        def __init__(self):
            self.queue = MultiQueue()

        def get_item(self):
            found = self.queue.get_item()
            threading.Event().wait(0.001)
            return found

        def __getattr__(self, name):
            return getattr(self.queue, name)

        def __getitem__(self, key):
            return self.queue[key]

    crawler.update(fetch=fetch, MultiQueue=Slow)
    stored: list[tuple[str, int]] = []
    crawler["crawl"](START, stored.extend)
    assert sorted(url for url, _ in stored) == sorted([START, *site])
    assert most == {"one": 1, "two": 1}
