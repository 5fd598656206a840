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


class Wrapped:
    """A queue some of whose methods are the test's."""

    def __init__(self, queue, **methods):
        self.queue = queue
        vars(self).update(methods)

    def __getattr__(self, name):
        return getattr(self.queue, name)

    def __getitem__(self, key):
        return self.queue[key]


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

    crawler.update(MultiQueue=lambda: Wrapped(queue, join=join, shutdown=shutdown), fetch=fetch)
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

    queue = MultiQueue()

    def get_item():
        found = queue.get_item()
        threading.Event().wait(0.001)  # the other threads go on when one has taken an address
        return found

    crawler.update(fetch=fetch, MultiQueue=lambda: Wrapped(queue, get_item=get_item))
    stored: list[tuple[str, int]] = []
    crawler["crawl"](START, stored.extend)
    assert sorted(url for url, _ in stored) == sorted([START, *site])
    assert most == {"one": 1, "two": 1}
