"""The command ``drainq metrics``, which runs the access-log job."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from typing import Any

from drainq.metrics.outcome import MAX_BAD


def add_commands(subparsers: Any) -> None:
    """Add ``metrics`` to the commands."""
    parser = subparsers.add_parser(
        "metrics",
        help="access logs to service metrics, on Spark, into SQL",
        description="Read access logs in Spark tasks, aggregate them in the tasks' batch queues, add to a database.\n"
        "A log that was loaded before, by content, is not counted again; another log for the same minutes adds up.",
        formatter_class=_Help,
    )
    parser.add_argument(
        "logs",
        nargs="*",
        metavar="LOG",
        help="logs of a web server, also compressed by gzip, bzip2, xz or zstd; "
        "a pattern such as 'logs/**/*.gz', a URL that Spark reads, such as s3a://logs/*, or - for the standard input",
    )
    parser.add_argument(
        "--format",
        type=_format,
        metavar="FORMAT",
        help="of the lines: a name, a LogFormat of Apache, a log_format of nginx, a '#Fields:' line of W3C, or an "
        "object of JSON with such fields; syslog:FORMAT, cri:FORMAT or docker:FORMAT as a logger has wrapped it "
        "(default: found from the first lines)",
    )
    parser.add_argument("--explain", action="store_true", help="only show how the first ten lines of each LOG are read")
    parser.add_argument(
        "--follow",
        metavar="DIR|FILE",
        help="instead of LOG: count logs as they are moved into DIR, or lines as they are appended to FILE, through "
        "its rotation, until Ctrl-C or SIGTERM; each line once, whenever the command is killed",
    )
    parser.add_argument(
        "--every",
        type=_seconds,
        default=2.0,
        metavar="SECONDS",
        help="with --follow: between two looks (default: %(default)g)",
    )
    parser.add_argument(
        "--settled",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="with --follow: a file in DIR is finished once it has not changed for so long (default: %(default)g)",
    )
    parser.add_argument(
        "--db",
        metavar="URL",
        help="sqlite:///relative.db, sqlite:////absolute.db or postgresql://user@host/db (default: metrics.db in DIR)",
    )
    parser.add_argument(
        "--out", metavar="DIR", default="drainq-out", help="where report.html and Spark's log go (default: %(default)s)"
    )
    parser.add_argument(
        "--master", default="local[2,4]", help="Spark's master (default: %(default)s: two cores, four tries per task)"
    )
    parser.add_argument(
        "--conf", type=_setting, action="append", default=[], metavar="NAME=VALUE", help="of Spark; repeatable"
    )
    parser.add_argument(
        "--top", type=_positive, default=10, metavar="N", help="how many endpoints to rank (default: %(default)s)"
    )
    parser.add_argument(
        "--engine",
        choices=("spark", "local"),
        help="spark, or threads of this process without Java; the tables are the same "
        "(default: spark; a FILE is always followed by threads)",
    )
    parser.add_argument(
        "--heap",
        type=_heap,
        default="512m",
        metavar="SIZE",
        help="memory of Java's objects with a local master; it holds no rows, so it need not grow with the logs "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--no-archive",
        action="store_true",
        help="start Java without the archive of classes that `python -m drainq.metrics.make_archive` makes",
    )
    parser.add_argument(
        "--max-bad",
        type=_percent,
        default=MAX_BAD,
        metavar="PERCENT",
        help="exit with 1 if more of a log's lines are bad, also of one that was loaded before (default: %(default)g)",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the summary as one line of JSON")
    output.add_argument("--quiet", action="store_true", help="print nothing but what is wrong")
    parser.set_defaults(run=_run)


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help that ends with the tables, which are described only when the help is printed."""

    def format_help(self) -> str:
        from drainq.metrics.tables import describe

        return f"{super().format_help()}\ntables:\n{describe()}\n"


def _positive(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"needs a whole number from 1 on, got {text!r}")
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 86_400:
        raise argparse.ArgumentTypeError(f"needs seconds from 0 to 86400, got {text!r}")
    return number


def _percent(text: str) -> float:
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = -1.0
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"needs a percentage from 0 to 100, got {text!r}")
    return number


def _format(text: str) -> str:
    from drainq.metrics.log_formats import compiled

    try:
        compiled(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("--format ")) from error
    return text


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise argparse.ArgumentTypeError(
            f"needs the name of a setting of Spark and a value, as in spark.name=value, got {name!r}"
        )
    return name, value


def _heap(text: str) -> str:
    from drainq.metrics.spark_session import parse_heap

    try:
        return parse_heap(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _run(arguments: argparse.Namespace) -> int:
    """Run the command. Return 0 if every line is accounted for and no log has too many bad lines, else 1 or 130."""
    from drainq.metrics.errors import UserError

    if bool(arguments.logs) == (arguments.follow is not None):
        raise UserError("name logs, or what to --follow: one of the two")
    local = arguments.engine == "local" or (arguments.follow is not None and not os.path.isdir(arguments.follow))
    for package in ("pygal", "pyarrow", "pyspark")[: 2 if local else 3]:
        if importlib.util.find_spec(package) is None:
            raise UserError(f"{package} is not installed: pip install 'drainq[metrics]'")
    from drainq.sql import DatabaseUrl

    try:
        database = None if arguments.db is None else DatabaseUrl.parse(arguments.db)
    except ValueError as error:
        raise UserError(str(error)) from error
    common: dict[str, Any] = {
        "database": database,
        "out": arguments.out,
        "master": arguments.master,
        "heap": arguments.heap,
        "conf": dict(arguments.conf),
        "use_archive": not arguments.no_archive,
        "top": arguments.top,
        "max_bad": arguments.max_bad,
        "format": arguments.format,
    }
    return _follow(arguments, common) if arguments.follow is not None else _load(arguments, common)


def _load(arguments: argparse.Namespace, common: dict[str, Any]) -> int:
    from drainq.metrics.job import run
    from drainq.metrics.log_names import named
    from drainq.metrics.progress import Progress

    progress = Progress(None if arguments.quiet else sys.stderr)
    with named(arguments.logs, getattr(sys.stdin, "buffer", None)) as logs:
        if arguments.explain:
            from drainq.metrics.explain import explained

            print("\n".join(line for log in logs for line in explained(log, arguments.format)))
            return 0
        outcome = run(logs, engine=arguments.engine or "spark", progress=progress, **common)
    _show(outcome, arguments)
    for sentence in outcome.complaints:
        print(f"drainq: {sentence}", file=sys.stderr)
    return 0 if outcome.reconciled and not outcome.complaints else 1


def _follow(arguments: argparse.Namespace, common: dict[str, Any]) -> int:
    """Follow the path. Return 130 after Ctrl-C, 1 if something is not counted or too many lines are bad, else 0."""
    from drainq.metrics.follow.run import Ending, follow
    from drainq.metrics.progress import Progress

    def say(sentence: str) -> None:
        print(f"drainq: {sentence}", file=sys.stderr, flush=True)

    with Ending() as ended:
        followed = follow(
            arguments.follow,
            ended=ended,
            engine=arguments.engine,
            every=arguments.every,
            settled=arguments.settled,
            say=say,
            progress=Progress(None if arguments.quiet else sys.stderr),
            **common,
        )
    _show(followed.outcome, arguments)
    for sentence in followed.outcome.complaints:
        say(sentence)
    for sentence in followed.uncounted:
        say(f"at the end: {sentence}")
    if followed.interrupted:
        say("interrupted; what was counted is whole, and the next --follow goes on from there")
        return 130
    return 0 if followed.outcome.reconciled and not followed.uncounted and not followed.outcome.complaints else 1


def _show(outcome: Any, arguments: argparse.Namespace) -> None:
    """Print the summary. With ``--quiet``, print it to stderr, and only if the counts do not add up."""
    from drainq.metrics.summary import as_json, summary

    report = f"{arguments.out}/report.html"
    if arguments.json:
        print(as_json(outcome, report), flush=True)
    elif not arguments.quiet:
        print(summary(outcome))
        print(f"\nreport: {report}", flush=True)  # Spark may be stopping for another second
    elif not outcome.reconciled:
        print(summary(outcome), file=sys.stderr)
