"""``drainq top``: its reads of endpoints, its frames, and its exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sys
import time
from http.client import BadStatusLine
from types import SimpleNamespace
from unittest.mock import MagicMock, call
from urllib.error import URLError

import pytest

from drainq import BatchQueue, BatchQueueConfig, BufferStrategy, DrainqError, MultiQueue
from drainq.cli import main
from drainq.commands import top
from drainq.commands.frame import amount, frame, hung, width
from drainq.commands.scrape import Scrape, endpoint_url, parse, scrape
from drainq.commands.snapshot import rate, snapshot
from drainq.delayed import DelayedQueue
from drainq.monitoring import MetricsServer, watch

pytestmark = pytest.mark.usefixtures("no_pause")


@pytest.fixture
def no_pause(monkeypatch):
    """No test waits for the time between two looks."""
    monkeypatch.setattr(top, "time", SimpleNamespace(sleep=lambda seconds: None))


@pytest.fixture
def server():
    with MetricsServer(port=0) as endpoint:
        yield endpoint


@pytest.fixture
def closed_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("9464", "http://127.0.0.1:9464/metrics"), ("db1:9464", "http://db1:9464/metrics"),
        ("http://db1:9464", "http://db1:9464/metrics"), ("http://db1/", "http://db1/metrics"),
        ("https://db1/own/path", "https://db1/own/path"), ("[::1]:9464", "http://[::1]:9464/metrics"),
    ],
)  # fmt: skip
def test_an_endpoint_is_a_port_a_place_or_a_url(typed, url):
    assert endpoint_url(typed) == url


@pytest.mark.parametrize("typed", ["", "ftp://x", "host:port", "http://:80", "host:99999999"])
def test_what_is_no_endpoint_is_refused_and_shown(typed):
    with pytest.raises(DrainqError, match="an endpoint is a port.*got"):
        endpoint_url(typed)


def test_labels_keep_what_is_escaped_in_them():
    text = 'a_total{queue="x \\"y\\" \\\\ {z}",n="1\\n2"} 3\n# EOF\nb 1e3\nc NaN\n'
    found = parse(text)
    assert found["a_total"] == [({"queue": 'x "y" \\ {z}', "n": "1\n2"}, 3.0)]
    assert found["b"] == [({}, 1000.0)]


def test_what_a_queue_lost_is_not_that_of_another():
    text = "".join(
        f'drainq_batch_queued{{queue="{name}"}} 0\ndrainq_batch_rejected_total{{queue="{name}",reason="full"}} {count}\n'
        f'drainq_batch_failed_total{{queue="{name}"}} {10 * count}\n'
        for name, count in (("a", 3), ("b", 0), ("c", 5))
    )
    found = snapshot(Scrape("here", 1.0, parse(text)), None)["batch_queues"]
    assert {queue["name"]: queue["lost"] for queue in found} == {
        "a": {"full": 3, "failed": 30}, "b": {}, "c": {"full": 5, "failed": 50}
    }  # fmt: skip


@pytest.mark.parametrize("text", ["<html>", "a{b} 1", "a 1 2 3", "a one"])
def test_text_that_holds_no_samples_is_refused(text):
    with pytest.raises(ValueError):
        parse(text)


def test_a_rate_is_a_difference_over_time_and_none_where_a_counter_went_back():
    before, now = (Scrape("u", at, {"c": [({}, value)]}) for at, value in ((1.0, 10.0), (3.0, 30.0)))
    assert rate(now, before, "c") == 10.0
    assert rate(before, None, "c") is None
    assert rate(before, now, "c") is None
    assert rate(Scrape("u", 4.0, {"c": [({}, 1.0)]}), now, "c") is None
    assert rate(Scrape("u", 4.0, now.samples), now, "c") == 0.0, "a counter that stands"
    assert rate(now, now, "c") is None, "of one moment"
    assert rate(now, Scrape("u", 1.0, error="away"), "c") is None


def test_a_row_shows_the_fullest_partition_and_the_busiest_thread_and_no_share_beyond_all():
    used = [(number, 100 if number == 19 else number) for number in range(20)]
    queue = {
        "name": "q", "running": True, "queued": 12_345, "capacity": 200, "accepted_per_second": None, "rebalances": 0,
        "handled_per_second": 2.5, "lost": {}, "partitions": [{"used": one} for _, one in used],
        "threads": [{"busy": 1.4}, {"busy": 0.25}, *[{"busy": None}] * 15],
    }  # fmt: skip
    less = {**queue, "partitions": [{"used": 3}], "threads": [{"busy": 0.25}], "lost": {"full": 2, "failed": 1_000_000}}
    none = {**queue, "partitions": [], "threads": [], "accepted_per_second": 1_234.4}
    kinds = ("multi_queues", "delayed_queues", "workers", "sources")
    process = {
        "url": "u",
        "error": None,
        "version": "1",
        "batch_queues": [queue, less, none],
        **{kind: [] for kind in kinds},
    }
    assert frame([process], 80)[2:] == [
        "batch   q                         12.3k  100%      -   2.50      0          100%",
        "batch   q                         12.3k    2%      -   2.50  1.00M           25%",
        "          full                                                   2",
        "          failed                                             1.00M",
        "batch   q                         12.3k    0%   1234   2.50      0             -",
    ]
    assert [amount(number) for number in (9_999, 10_000, 1e6, 1e9)] == ["9999", "10.0k", "1.00M", "1.00G"]


def test_a_frame_of_a_process_without_queues_says_so_and_its_further_lines_are_indented(monkeypatch):
    kinds = ("batch_queues", "multi_queues", "delayed_queues", "workers", "sources")
    process = {"url": "http://h:1/metrics", "error": None, "version": "1.2", **{kind: [] for kind in kinds}}
    said = ["no queue, worker or source is published", "  here; see drainq.monitoring.watch"]
    assert frame([process], 40) == ["http://h:1/metrics, drainq 1.2", *said]
    away = {"url": "http://h:2/metrics", "error": "away"}
    assert frame([away, away], 40) == ["http://h:2/metrics: away", "", "http://h:2/metrics: away"]
    assert (amount(float("nan")), hung("ok", "", 40), hung("ok", "x y", 5)) == ("-", "ok", "ok x\n   y")
    monkeypatch.setattr("drainq.commands.frame.sys.stdout", SimpleNamespace(isatty=lambda: False))
    monkeypatch.delenv("COLUMNS", raising=False)
    widths = [width()]
    for columns in ("7", "70"):
        monkeypatch.setenv("COLUMNS", columns)
        widths.append(width())
    assert widths == [100, 20, 70]


def test_a_frame_waits_an_interval_if_one_of_the_endpoints_answers(server, closed_port, capsys):
    waits = []
    assert top.one_frame(
        [server.url, f"http://127.0.0.1:{closed_port}/metrics"], 2.5, as_json=False, pause=waits.append
    )
    assert waits == [2.5]


def test_a_plain_screen_draws_no_more_lines_than_it_has(monkeypatch, capsys):
    monkeypatch.setattr("drainq.commands.top.os.get_terminal_size", lambda: SimpleNamespace(lines=3))
    monkeypatch.setitem(sys.modules, "rich.live", None)  # rich is not installed
    with top._screen() as draw:
        draw(["one", "two", "three"])
    assert capsys.readouterr().out == "\x1b[2J\x1b[Hone\x1b[K\ntwo\x1b[K\n\x1b[J\n"


def lossy_queue(name):
    queue = BatchQueue(name, BatchQueueConfig(threads=1, partitions=2, strategy=BufferStrategy.IF_POSSIBLE))
    queue.add_handler(int, len)
    queue.produce_many([1, 2, 3])
    queue.produce("no handler")
    assert queue.flush()
    return queue


def test_a_snapshot_shows_every_kind_of_object(server):
    multi = MultiQueue()
    multi.add_sub_queue("mail").put_many([1, 2])
    with lossy_queue("shown") as queue, DelayedQueue.open("memory:", "later") as delayed:
        delayed.offer_or_update("k", 1, 0)
        watches = [watch(multi, "outbox"), watch(delayed, "later")]
        found = snapshot(scrape(server.url), None)
        for one in watches:
            one.close()
        assert found["error"] is None
        [batch] = [one for one in found["batch_queues"] if one["name"] == "shown"]
        assert (batch["accepted"], batch["handled"], batch["lost"]) == (4, 3, {"unrouted": 1})
        assert [one["partition"] for one in batch["partitions"]] == [0, 1]
        assert [one["thread"] for one in batch["threads"]] == [0]
        [shown] = [one for one in found["multi_queues"] if one["name"] == "outbox"]
        assert (shown["depth"], shown["sub_queues"]) == (2, {"mail": 2})
        [shown] = [one for one in found["delayed_queues"] if one["name"] == "later"]
        assert (shown["ready"], shown["dead"]) == (1, 0)
        queue.shutdown()


def test_one_frame_shows_several_processes_and_says_which_does_not_answer(server, closed_port, capsys):
    with lossy_queue("framed"):
        code = main(["top", "--once", server.url, str(closed_port)])
    out = capsys.readouterr().out
    assert code == 1
    assert "\nbatch   framed " in out and re.search(r"\n +unrouted +1\n", out)
    assert f"http://127.0.0.1:{closed_port}/metrics: " in out


def test_the_endpoints_come_from_the_environment_if_none_is_named(server, monkeypatch, capsys):
    monkeypatch.setenv(top.VARIABLE, f"{server.url} {server.port}")
    assert main(["top", "--json"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    [process] = json.loads(line)["processes"]  # the two are the same
    assert process["url"] == server.url


@pytest.mark.parametrize("arguments", [["--interval", "0"], ["--interval", "x"], ["ftp://x"]])
def test_a_mistake_is_one_line_and_exit_code_2(arguments, capsys):
    try:
        code = main(["top", *arguments])
    except SystemExit as stopped:
        code = stopped.code
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"up 1\n", "answers, but not with drainq's metrics"),
        (b"<html>" + b"x" * 90, f"answers with a line that is no sample: {'<html>' + 'x' * 74!r}"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (URLError(OSError(111, "Connection\nrefused")), "[Errno 111] Connection refused"),
        (TimeoutError(), "TimeoutError"),
        (BadStatusLine("SSH-2.0"), "SSH-2.0"),
        (b"# HELP x\n\ndrainq_build_info 1", None),
    ],
)
def test_what_an_endpoint_answers_is_read_or_is_the_error_of_its_scrape(monkeypatch, answer, error):
    opener = MagicMock()
    opener().open().__enter__().read.side_effect = [answer]
    monkeypatch.setattr("drainq.commands.scrape.build_opener", opener)
    found = scrape("http://h:1/metrics")
    assert (found.url, found.error, found.samples) == (
        "http://h:1/metrics",
        error,
        {} if error else {"drainq_build_info": [({}, 1.0)]},
    )
    assert opener().open.call_args == call("http://h:1/metrics", timeout=5.0)


def test_samples_are_added_up_and_labels_listed_of_those_that_have_the_labels():
    text = 'a{q="x"} 1\na{s="2",q="x"} 2\na{s="1",q="x"} 4\na{s="2",q="x",t="0"} 8\na{s="3",q="y"} 16\n'
    found = Scrape("u", 1.0, parse(text))
    assert (found.labels("a", "s"), found.labels("a", "s", q="x"), found.labels("b", "s")) == (
        ["2", "1", "3"],
        ["2", "1"],
        [],
    )
    assert (found.value("a"), found.value("a", q="x"), found.value("a", q="x", s="2"), found.value("b")) == (
        31,
        15,
        10,
        0,
    )


@pytest.mark.parametrize(("options", "terminal", "live"), [
    ([], True, True), ([], False, False), (["--once"], True, False), (["--json"], True, False),
])  # fmt: skip
def test_the_screen_is_live_on_a_terminal_unless_one_frame_is_asked_for(monkeypatch, options, terminal, live):
    shown = []
    monkeypatch.setattr(top, "_live", lambda *asked: shown.append(asked) or 7)
    monkeypatch.setattr(top, "one_frame", lambda *asked, **more: shown.append((*asked, more)) or 8)
    monkeypatch.setattr(top.sys, "stdout", SimpleNamespace(isatty=lambda: terminal))
    assert main(["top", "9464", "--interval", "3", *options]) == (7 if live else 8)
    one = ({"as_json": "--json" in options, "pause": top.time.sleep},)
    assert shown == [(["http://127.0.0.1:9464/metrics"], 3.0, *(() if live else one))]


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_line_is_longer_than_the_screen_and_none_is_wrapped(server, columns):
    name = "a queue with quite a long name for a narrow screen"
    with lossy_queue(name):
        lines = frame([snapshot(scrape(server.url), None)], columns)
    assert [line for line in lines if len(line) > columns] == []
    [row] = [line for line in lines if line.startswith("batch   a")]
    shown = {40: "a qu\u2026een", 80: "a queue wit\u2026rrow screen", 200: name}[columns]
    assert row.startswith(f"batch   {shown} ")
    reason = lines[lines.index(row) + 1].split()
    assert reason == ["un\u2026ted"] if columns == 40 else reason == ["unrouted", "1"]
    header = "kind name waiting full in/s out/s lost oldest busy".split()
    assert next(line for line in lines if line.startswith("kind")).split() == header[: 5 if columns == 40 else 9]


SAMPLES = [  # the labels, the kind of object, and its values
    ('queue="b"', "batch", "queued capacity accepted_total handled_total dead_lettered_total failed_total"),
    ('queue="b"', "batch", "unrouted_total abandoned_total rebalances_total"),
    ('queue="b",reason="full"', "batch", "rejected_total"),
    ('queue="b",partition="0"', "batch", "partition_used partition_owner"),
    ('queue="b",partition="1"', "batch", "partition_used partition_owner"),
    ('queue="b",thread="0"', "batch", "thread_busy_seconds_total thread_handled_total thread_in_flight"),
    ('queue="m"', "multi", "depth put_total got_total rejected_total oldest_age_seconds blocked_putters"),
    ('queue="m"', "multi", "blocked_getters"),
    ('queue="m",sub_queue="s"', "multi", "sub_queue_depth"),
    ('queue="m",sub_queue="t"', "multi", "sub_queue_depth"),
    ('queue="d"', "delayed", "ready scheduled in_flight redelivered dead oldest_ready_age_seconds"),
    ('worker="w"', "worker", "accepted_total sent_total retried_total refused_total dead_lettered_total lost pending"),
    ('source="p"', "source", "size capacity fetched_total errors_total"),
]


def scraped(at):
    """Return a scrape in which no two values are the same; each grows by its first value a second."""
    names = [f"drainq_{kind}_{name}{{{labels}}}" for labels, kind, values in SAMPLES for name in values.split()]
    lines = [f"{name} {number * at}" for number, name in enumerate(names, 1)]
    return Scrape("http://h:1/metrics", at, parse("\n".join(['drainq_build_info{version="1.2"} 1', *lines])))


def test_each_value_of_a_process_has_its_place_in_the_snapshot():
    assert snapshot(scraped(3), scraped(1)) == {
        "url": "http://h:1/metrics", "error": None, "version": "1.2",
        "batch_queues": [{
            "name": "b", "running": False, "queued": 3, "capacity": 6, "accepted": 9, "handled": 12,
            "accepted_per_second": 3.0, "handled_per_second": 4.0, "dead_lettered": 15,
            "lost": {"full": 30, "failed": 18, "unrouted": 21, "abandoned": 24}, "rebalances": 27,
            "partitions": [{"partition": 0, "used": 33, "owner": 36}, {"partition": 1, "used": 39, "owner": 42}],
            "threads": [{"thread": 0, "busy": 15.0, "handled": 48, "in_flight": 51}],
        }],
        "multi_queues": [{
            "name": "m", "depth": 54, "put_per_second": 19.0, "got_per_second": 20.0, "rejected": 63,
            "oldest_age": 66.0, "blocked_putters": 69, "blocked_getters": 72, "sub_queues": {"s": 75, "t": 78},
        }],
        "delayed_queues": [{
            "name": "d", "ready": 81, "scheduled": 84, "in_flight": 87, "redelivered": 90, "dead": 93,
            "oldest_ready_age": 96.0,
        }],
        "workers": [{
            "name": "w", "accepted": 99, "sent": 102, "retried": 105, "refused": 108, "dead_lettered": 111,
            "lost": 114, "pending": 117, "sent_per_second": 34.0,
        }],
        "sources": [{"name": "p", "size": 120, "capacity": 123, "fetched_per_second": 42.0, "errors": 129}],
    }  # fmt: skip


def test_the_values_of_an_object_are_its_own_and_not_the_sum_of_its_kind():
    scrapes = [scraped(3), scraped(1)]
    alone = snapshot(*scrapes)
    for each in scrapes:
        for found in each.samples.values():
            for labels, value in [*found]:
                found.append(({kind: f"{name}2" for kind, name in labels.items()}, 7 * value))
    both = snapshot(*scrapes)
    for kind in ("batch_queues", "multi_queues", "delayed_queues", "workers", "sources"):
        assert both[kind][:1] == alone[kind] and len(both[kind]) == 2, kind


FRAME = """\
http://h:1/metrics, drainq 1.2
kind    name                    waiting  full   in/s  out/s   lost  oldest  busy
batch   b (shut down)                 3  100%      3      4     93          100%
          full                                                  30
          failed                                                18
          unrouted                                              21
          abandoned                                             24
multi   m                            54           19     20     63    66 s
          t                          78
          s                          75
delayed d                            81                         93    96 s
          scheduled                  84
          in flight                  87
worker  w                           117                  34    222
          refused                                              108
          lost                                                 114
source  p                           120   98%     42           129"""


def test_of_many_sub_queues_the_fullest_are_shown_wherever_they_stand():
    shown = snapshot(scraped(3), scraped(1))
    shown["multi_queues"][0]["sub_queues"] = {f"sub{number}": number for number in range(20)}
    lines = [line.split() for line in frame([shown], 80) if line.strip().startswith("sub")]
    assert lines == [[f"sub{number}", str(number)] for number in range(19, 3, -1)]


def test_a_live_screen_draws_with_rates_from_its_second_look_on_until_it_is_interrupted(monkeypatch):
    drawn, pauses, scrapes = [], [], map(scraped, (1, 3, 4))

    class Screen:
        def __enter__(self):
            return lambda lines: drawn.append("\n".join(lines))

        def __exit__(self, kind, *exception):
            drawn.append(kind)

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(top, "scrape", lambda url: next(scrapes))
    monkeypatch.setattr(top, "width", lambda: 80)
    monkeypatch.setattr(top, "_screen", Screen)
    monkeypatch.setattr(top, "time", SimpleNamespace(sleep=pause))
    monkeypatch.setattr(top.sys, "stdout", SimpleNamespace(isatty=lambda: True))
    with pytest.raises(KeyboardInterrupt):
        top._run(SimpleNamespace(endpoints=["h:1"], interval=2.5, once=False, json=False))
    assert (drawn[1], drawn[3], pauses) == (FRAME, KeyboardInterrupt, [2.5] * 3)
    first, later = (drawn[place].splitlines()[2].split() for place in (0, 2))
    assert first[4:] == ["1", "100%", "-", "-", "31", "-"] and later[6:8] == ["3", "4"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminal")
def test_a_live_screen_ends_with_q_typed_without_enter_and_gives_the_keyboard_back(monkeypatch):
    import pty
    import termios

    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    scrapes = iter([scraped(1), scraped(3)])
    monkeypatch.setattr(top, "scrape", lambda url: next(scrapes))
    monkeypatch.setattr(top, "_screen", lambda: contextlib.nullcontext(lambda lines: os.write(ours, next(keys))))
    monkeypatch.setattr(top, "time", time)
    keys = iter([b"x", b"q"])
    with open(theirs) as keyboard:
        monkeypatch.setattr(top.sys, "stdin", keyboard)
        assert top._live(["h:1"], 0.05) == 0
        assert termios.tcgetattr(keyboard) == before
    os.close(ours)
    assert next(keys, None) is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminal")
def test_a_live_screen_that_is_interrupted_gives_the_keyboard_back(monkeypatch):
    import pty
    import termios

    def interrupted(lines):
        raise KeyboardInterrupt

    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    monkeypatch.setattr(top, "scrape", lambda url: scraped(1))
    monkeypatch.setattr(top, "_screen", lambda: contextlib.nullcontext(interrupted))
    with open(theirs) as keyboard:
        monkeypatch.setattr(top.sys, "stdin", keyboard)
        with pytest.raises(KeyboardInterrupt):
            top._live(["h:1"], 0.05)
        assert termios.tcgetattr(keyboard) == before
    os.close(ours)


def test_the_screen_of_rich_is_the_second_page_and_colours_the_header_the_kinds_and_losses(monkeypatch):
    pytest.importorskip("rich.live")
    live = MagicMock()
    monkeypatch.setattr("rich.live.Live", live)
    drawn = ["kind    name  lost", "batch   batch    3", "          full   3", "          t       "]
    with top._screen() as draw:
        draw(drawn)
    (text,), more = live().update.call_args
    assert live.call_args_list[0] == call(screen=True, auto_refresh=False) and more == {"refresh": True}
    assert text.plain == "\n".join(drawn)
    spans = [(text.plain[span.start : span.end].strip(), span.style) for span in text.spans]
    assert ("batch", "bold cyan") in spans and (drawn[2].strip(), "bold red") in spans and (drawn[0], "dim") in spans
    assert len({span for span in spans if span[0] != "full"}) == 3
    assert live().__enter__.call_count == live().__exit__.call_count == 1


def test_an_endpoint_is_asked_without_a_proxy(server, monkeypatch, closed_port):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port}")
    assert scrape(server.url).error is None
