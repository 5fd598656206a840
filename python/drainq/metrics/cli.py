"""``drainq metrics``: the access-log job as a command."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from typing import Any


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
        nargs="+",
        metavar="LOG",
        help="Common or Combined Log Format, plain or gzip; the last field may be the request time in seconds",
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
        "--top", type=_positive, default=10, metavar="N", help="how many endpoints to rank (default: %(default)s)"
    )
    parser.add_argument(
        "--engine",
        choices=("spark", "local"),
        default="spark",
        help="spark, or threads of this process without Java; the tables are the same (default: %(default)s)",
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
    parser.set_defaults(run=_run)


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help whose end, the tables, is only written when it is asked for: it needs Arrow."""

    def format_help(self) -> str:
        text = super().format_help()
        try:
            from drainq.metrics.tables import describe
        except ImportError:
            return text
        return f"{text}\ntables:\n{describe()}\n"


def _positive(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"needs a whole number from 1 on, got {text!r}")
    return number


def _heap(text: str) -> str:
    from drainq.metrics.spark_session import parse_heap

    try:
        return parse_heap(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _run(arguments: argparse.Namespace) -> int:
    """Run the job; 0 if all is accounted for, 1 if not, or if a log holds nothing but bad lines."""
    from drainq.metrics.errors import UserError

    for package in ("matplotlib", "pyarrow", "pyspark")[: 3 if arguments.engine == "spark" else 2]:
        if importlib.util.find_spec(package) is None:
            raise UserError(f"{package} is not installed: pip install 'drainq[metrics]'")
    from drainq.metrics.job import run
    from drainq.metrics.progress import Progress
    from drainq.metrics.summary import summary
    from drainq.sql import DatabaseUrl

    try:
        database = None if arguments.db is None else DatabaseUrl.parse(arguments.db)
    except ValueError as error:
        raise UserError(str(error)) from error
    outcome = run(
        arguments.logs,
        database=database,
        out=arguments.out,
        engine=arguments.engine,
        master=arguments.master,
        heap=arguments.heap,
        use_archive=not arguments.no_archive,
        top=arguments.top,
        progress=Progress(sys.stderr),
    )
    print(summary(outcome))
    print(f"\nreport: {arguments.out}/report.html", flush=True)  # Spark may be stopping for another second
    for log in outcome.unparsed:
        print(
            f"drainq: no line of {log.path!r} could be parsed ({log.bad:,} bad); "
            "is it an access log in Common or Combined Log Format?",
            file=sys.stderr,
        )
    return 0 if outcome.reconciled and not outcome.unparsed else 1
