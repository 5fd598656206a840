"""``drainq top``: shows the queues of running programs on one screen, read from their metrics endpoints.

1. On a terminal the screen is redrawn each interval until ``q``, with colours if ``rich`` is installed. Otherwise one
   frame is printed, as with ``--once``.
2. Exit codes: 0 every endpoint answered, 1 an endpoint did not, 2 a user's mistake, 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from drainq.commands.frame import frame, width
from drainq.commands.scrape import DEFAULT_URL, Scrape, endpoint_url, scrape
from drainq.commands.snapshot import snapshot

VARIABLE = "DRAINQ_METRICS_URLS"


def add_commands(subparsers: Any) -> None:
    """Add ``top`` to the commands."""
    parser = subparsers.add_parser(
        "top",
        help="the queues of running programs, on one screen",
        description="Show the queues of programs that run drainq.monitoring.MetricsServer.",
    )
    parser.add_argument(
        "endpoints",
        nargs="*",
        metavar="ENDPOINT",
        help=f"a port, host:port or a URL; several for several processes (default: ${VARIABLE}, or {DEFAULT_URL})",
    )
    parser.add_argument(
        "--interval", type=_interval, default=1.0, metavar="SECONDS", help="between two looks (default: %(default)s)"
    )
    parser.add_argument("--once", action="store_true", help="print one frame and stop")
    parser.add_argument("--json", action="store_true", help="print one frame as a line of JSON and stop")
    parser.set_defaults(run=_run)


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"needs seconds from 0.1 to 3600, got {text!r}")
    return seconds


def _run(arguments: argparse.Namespace) -> int:
    given = arguments.endpoints or os.environ.get(VARIABLE, "").split() or [DEFAULT_URL]
    urls = list(dict.fromkeys(map(endpoint_url, given)))
    if arguments.once or arguments.json or not sys.stdout.isatty():
        return one_frame(urls, arguments.interval, as_json=arguments.json, pause=time.sleep)
    return _live(urls, arguments.interval)


def look(urls: Sequence[str], before: Sequence[Scrape | None]) -> tuple[list[Scrape], list[dict[str, Any]]]:
    """Read all endpoints at once. Return the scrapes, and their snapshots compared with the scrapes before."""
    with ThreadPoolExecutor(min(len(urls), 32)) as threads:
        scrapes = list(threads.map(scrape, urls))
    return scrapes, [snapshot(now, earlier) for now, earlier in zip(scrapes, before)]


def one_frame(urls: Sequence[str], interval: float, *, as_json: bool, pause: Callable[[float], object]) -> int:
    """Print one frame, with rates over one interval. Return the exit code."""
    first, _ = look(urls, [None] * len(urls))
    if any(one.error is None for one in first):
        pause(interval)
    scrapes, processes = look(urls, first)
    if as_json:
        print(json.dumps({"processes": processes}))
    else:
        print("\n".join(frame(processes, width())))
    return int(any(one.error is not None for one in scrapes))


def _live(urls: Sequence[str], interval: float) -> int:
    """Draw the screen until ``q`` or Ctrl-C. Return the exit code of the last frame."""
    with _keys() as asked_to_end, _screen() as draw:
        before: Sequence[Scrape | None] = [None] * len(urls)
        while True:
            scrapes, processes = look(urls, before)
            draw(frame(processes, width()))
            if asked_to_end(interval):
                return int(any(one.error is not None for one in scrapes))
            before = scrapes


def _paused(seconds: float) -> bool:
    time.sleep(seconds)
    return False


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits for some seconds or until ``q`` is typed, and returns whether ``q`` was typed."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield _paused
        return
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    settings = termios.tcgetattr(keyboard)

    def wait(seconds: float) -> bool:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([keyboard], [], [], left)[0]:
                typed = os.read(keyboard, 100)
                if not typed or b"q" in typed.lower():  # nothing: the terminal is gone
                    return True
        return False

    tty.setcbreak(keyboard)  # a key comes without Enter; Ctrl-C stays an interrupt
    try:
        yield wait
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, settings)


class _Plain:
    """A screen that needs only the control sequences that every terminal knows: to go home and to clear."""

    def __enter__(self) -> Callable[[list[str]], None]:
        sys.stdout.write("\x1b[2J")
        return self._draw

    def _draw(self, lines: list[str]) -> None:
        most = max(1, os.get_terminal_size().lines - 1)
        sys.stdout.write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines[:most]) + "\x1b[J")
        sys.stdout.flush()

    def __exit__(self, *exception: object) -> None:
        sys.stdout.write("\n")


class _Rich:
    """A screen of ``rich`` on the terminal's second page, so that the first page is unchanged afterwards."""

    def __init__(self, live: Any, text: Any) -> None:
        self._live, self._text = live, text

    def __enter__(self) -> Callable[[list[str]], None]:
        self._live.__enter__()
        return self._draw

    def _draw(self, lines: list[str]) -> None:
        text = self._text("\n".join(lines))
        text.highlight_regex(r"(?m)^(batch|multi|delayed|worker|source)\b", "bold cyan")
        text.highlight_regex(r"(?m)^ +(full|failed|unrouted|abandoned|would_deadlock|refused|lost) .*", "bold red")
        text.highlight_regex(r"(?m)^kind .*", "dim")
        self._live.update(text, refresh=True)

    def __exit__(self, *exception: Any) -> None:
        self._live.__exit__(*exception)


def _screen() -> _Plain | _Rich:
    try:
        from rich.live import Live
        from rich.text import Text
    except ImportError:
        return _Plain()
    return _Rich(Live(screen=True, auto_refresh=False), Text)
