"""``drainq delayed``: list, read, pause and clean up delayed queues from a shell.

1. Exit codes: 0 done; 1 done except for missing keys, each with a line on stderr; 2 a user's mistake or an unreachable
   database: one line on stderr, no traceback, and nothing was done.
2. A command that only reads creates nothing: no file, no table, no name.
3. An unknown queue is refused, with a list of the known names.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Callable
from datetime import datetime, timezone

from drainq.delayed import cli_commands as does
from drainq.delayed.cli_target import UsageError
from drainq.delayed.cli_work import backfill, work
from drainq.sql.driver_errors import failure_of
from drainq.sql.url import shown, without_password


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``delayed`` and its commands. Each sets ``run``, a function from the parsed arguments to an exit code."""
    delayed = subparsers.add_parser("delayed", help="look after a delayed queue", description=__doc__.splitlines()[0])
    commands = delayed.add_subparsers(dest="delayed_command", required=True, metavar="COMMAND")

    migrate = commands.add_parser("migrate", help="create or update the tables; adopts the source library's own")
    _add_database(migrate)
    said = migrate.add_mutually_exclusive_group()
    said.add_argument("--sql", action="store_true", help="print what would be run, and run nothing")
    _add_quiet(said)
    migrate.set_defaults(run=_guarded(does.migrate))

    stats = commands.add_parser("stats", help="count the messages in each state")
    _add_queue(stats)
    stats.add_argument(
        "--format", choices=("table", "json", "prometheus"), default="table", help="default: %(default)s"
    )
    stats.set_defaults(run=_guarded(does.stats))

    _add_json(stats)

    peek = commands.add_parser("peek", help="show the next messages without taking them")
    _add_queue(peek)
    _add_limit(peek, 10)
    peek.add_argument("--dead", action="store_true", help="show dead letters instead, with the reason")
    _add_json(peek)
    peek.set_defaults(run=_guarded(does.peek))

    show = commands.add_parser("show", help="show one message: its state, its holder, its last error")
    show.add_argument("key", metavar="KEY", help="the message's key")
    _add_queue(show)
    _add_json(show)
    show.set_defaults(run=_guarded(does.show))

    for name, run, text in (
        ("release", does.release, "take messages away from their consumers"),
        ("run-now", does.reschedule, "make waiting messages due now"),
        ("reschedule", does.reschedule, "give waiting messages another due time"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("key", nargs="*", metavar="KEY", help="messages of these keys")
        command.add_argument("--prefix", help="messages whose keys begin with it; '' for all")
        if name == "release":
            command.add_argument("--holder", help="those of this HOST, HOST/PROCESS or name of a consumer")
            command.add_argument(
                "--older-than", type=_duration, metavar="AGE", help="those held for longer: 90 (seconds), 30m"
            )
        if name == "reschedule":
            due = command.add_mutually_exclusive_group(required=True)
            due.add_argument("--at", type=_time, metavar="TIME", help="such as 2030-01-31T12:00+01:00; UTC if no zone")
            due.add_argument("--delay", type=_duration, metavar="AGE", help="from now: such as 90 (seconds), 30m, 12h")
        _add_queue(command)
        _add_output(command)
        command.set_defaults(run=_guarded(run), at=None, delay=None)

    drop = commands.add_parser("drop", help="delete messages")
    _add_queue(drop)
    which = drop.add_mutually_exclusive_group(required=True)
    which.add_argument("--key", action="append", metavar="KEY", help="the message of this key; may be repeated")
    which.add_argument("--prefix", help="the messages whose keys begin with it; asks first")
    which.add_argument("--all", action="store_true", help="every message of the queue; asks first")
    drop.add_argument("--dead", action="store_true", help="dead letters instead of live messages")
    drop.add_argument("--yes", action="store_true", help="do not ask")
    _add_output(drop)
    drop.set_defaults(run=_guarded(does.drop))

    redrive = commands.add_parser("redrive", help="put dead letters back into the queue")
    _add_queue(redrive)
    back = redrive.add_mutually_exclusive_group()
    back.add_argument("--key", action="append", metavar="KEY", help="only this one; may be repeated")
    back.add_argument("--prefix", help="only those whose keys begin with it")
    _add_output(redrive)
    redrive.set_defaults(run=_guarded(does.redrive))

    worker = commands.add_parser("work", help="pass messages to a function of yours, until SIGTERM or Ctrl-C")
    worker.add_argument("handler", metavar="MODULE:HANDLER", help="takes an envelope; may be an async def")
    worker.add_argument("--open", metavar="MODULE:FUNCTION", help="returns the DelayedQueue, for a codec of your own")
    worker.add_argument("--concurrency", type=int, default=1, metavar="N", help="handlers at once (default: 1)")
    worker.add_argument(
        "--grace", type=_duration, default=30.0, metavar="AGE", help="of running handlers (default: 30)"
    )
    worker.add_argument(
        "--time-limit", type=_duration, metavar="AGE", help="of one call of the handler (default: none)"
    )
    worker.add_argument("--until-empty", action="store_true", help="end when no message is due")
    worker.add_argument("--consumer", metavar="NAME", help="shown to operators")
    worker.add_argument(
        "--metrics-port", type=int, metavar="PORT", help="serve /metrics at 127.0.0.1; 0 takes a free one"
    )
    _add_queue(worker, required=False)  # the function of --open knows the URL and the queue
    _add_quiet(worker)
    worker.set_defaults(run=_guarded(work))

    queues = commands.add_parser("queues", help="list the queues of a table with their counts")
    _add_database(queues)
    _add_json(queues)
    queues.set_defaults(run=_guarded(does.queues))

    schedules = commands.add_parser("schedules", help="list the schedules that were installed in a queue")
    _add_queue(schedules)
    _add_json(schedules)
    schedules.set_defaults(run=_guarded(does.schedules))

    forget = commands.add_parser("forget", help="forget which ticks a schedule has made, and list it no more")
    forget.add_argument("--drop", action="store_true", help="first drop its messages that were never delivered")
    forget.add_argument("prefix", metavar="PREFIX", help="the schedule's, as `schedules` lists it")
    _add_queue(forget)
    _add_output(forget)
    forget.set_defaults(run=_guarded(does.forget))

    again = commands.add_parser("backfill", help="make the ticks of a schedule in a range of time, at once")
    again.add_argument("prefix", metavar="PREFIX", help="the schedule's, as `schedules` lists it")
    again.add_argument("--open", required=True, metavar="MODULE:FUNCTION", help="opens the queue and installs it")
    again.add_argument("--start", type=_time, required=True, metavar="TIME", help="the first: 2030-01-31T12:00+01:00")
    again.add_argument("--end", type=_time, required=True, metavar="TIME", help="the end, which is not part of it")
    _add_output(again)
    again.set_defaults(run=_guarded(backfill), url="")

    for name, text in (("pause", "stop the delivery of messages, to every consumer"), ("resume", "undo pause")):
        command = commands.add_parser(name, help=text)
        _add_queue(command)
        _add_output(command)
        if name == "pause":
            command.add_argument("--reason", default="", metavar="TEXT", help="shown by `queues`, with your name")
        command.set_defaults(run=_guarded(does.pause if name == "pause" else does.resume))

    history = commands.add_parser("history", help="list the latest attempts that ended, if the queue remembers them")
    history.add_argument("--key", metavar="KEY", help="only those of one message")
    _add_queue(history)
    _add_limit(history, 20)
    _add_json(history)
    history.set_defaults(run=_guarded(does.history))

    dead = commands.add_parser("dead", help="list dead letters, the latest first")
    _add_queue(dead)
    dead.add_argument("--prefix", help="only those whose keys begin with it")
    _add_limit(dead, 20)
    _add_json(dead)
    dead.set_defaults(run=_guarded(does.dead))

    purge = commands.add_parser("purge", help="delete dead letters of some age")
    _add_queue(purge)
    purge.add_argument(
        "--older-than", required=True, type=_duration, metavar="AGE", help="such as 90 (seconds), 30m, 12h, 30d"
    )
    _add_output(purge)
    purge.set_defaults(run=_guarded(does.purge))


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def _add_quiet(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--quiet", action="store_true", help="print nothing but what is wrong")


def _add_output(parser: argparse.ArgumentParser) -> None:
    """Add the output options of a command that changes the queue."""
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print one line of JSON")
    _add_quiet(output)


def _add_limit(parser: argparse.ArgumentParser, default: int) -> None:
    parser.add_argument("--limit", type=int, default=default, help="how many at most (default: %(default)s)")


def _duration(text: str) -> float:
    """Parse a number of seconds, or a text such as ``12h``."""
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:])
    try:
        seconds = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e10:
        raise argparse.ArgumentTypeError(f"{text!r} is no age: take seconds, or 30m, 12h, 30d")
    return seconds


def _time(text: str) -> datetime:
    """Parse a time of ISO 8601, in UTC if it names no zone."""
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 2030-01-31T12:00+01:00") from None
    return at if at.tzinfo else at.replace(tzinfo=timezone.utc)


def _add_database(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    url = os.environ.get("DRAINQ_URL")
    help = "sqlite:///file.db or postgresql://user@host/db (default: $DRAINQ_URL)"
    parser.add_argument("--url", required=required and url is None, default=url, help=help)
    parser.add_argument("--table", default="delayed_queue", help="the table (default: %(default)s)")


def _add_queue(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    _add_database(parser, required=required)
    queue = os.environ.get("DRAINQ_QUEUE")
    help = "the queue's name (default: $DRAINQ_QUEUE)"
    parser.add_argument("--queue", required=required and queue is None, default=queue, help=help)
    parser.add_argument("--codec", help="its codec as `queues` lists it, if several queues have this name")


def _guarded(command: Callable[[argparse.Namespace], int | None]) -> Callable[[argparse.Namespace], int]:
    """Wrap a command: turn a user's mistake into one line and exit code 2."""

    def run(arguments: argparse.Namespace) -> int:
        unheard = io.StringIO() if getattr(arguments, "quiet", False) else sys.stdout
        try:
            with contextlib.redirect_stdout(unheard):
                return command(arguments) or 0
        except (UsageError, ValueError, TypeError, ImportError) as error:
            return _refuse(str(error))
        except Exception as error:
            if not _is_database_error(error):
                raise
            return _refuse(f"{shown(arguments.url)}: {without_password(str(error))}")

    return run


def _refuse(text: str) -> int:
    line = " ".join(text.split())
    print(f"drainq delayed: {line}", file=sys.stderr)
    return 2


def _is_database_error(error: BaseException) -> bool:
    """Return whether an error is a refusal of the database, or a failure to reach it."""
    return failure_of(error) is not None or (error.__cause__ is not None and _is_database_error(error.__cause__))
