"""``drainq delayed migrate | stats | peek | drop | redrive``: the delayed queue from a shell.

Exit codes: 0 done; 2 the user's mistake, or a database that cannot be reached: one line on stderr, no traceback.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from drainq.delayed.admin import DROP_CONFIRMATION
from drainq.delayed.codec import BytesCodec, Codec, JsonCodec, MsgspecCodec, StrCodec
from drainq.delayed.config import NO_RETRIES, RetryConfig, TimeConfig
from drainq.delayed.message import from_ms
from drainq.delayed.queue import DelayedQueue
from drainq.delayed.storage.open import open_storage, reach
from drainq.sql.url import without_password

CODECS: dict[str, Callable[[], Codec]] = {
    "msgspec": MsgspecCodec,
    "json": JsonCodec,
    "bytes": BytesCodec,
    "str": StrCodec,
}
_SHOWN = 60
_PROMETHEUS = {
    "ready": "Messages that are due.",
    "scheduled": "Messages that become due later.",
    "in_flight": "Messages on loan to a consumer.",
    "oldest_ready_age": "Seconds that the longest waiting message has been due.",
    "redelivered": "Messages here now that were delivered more than once.",
    "dead": "Dead letters.",
}


class _UserError(Exception):
    """Something for the user to put right; the text says what."""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``delayed`` and its commands; each sets ``run``, a function from the parsed arguments to an exit code."""
    delayed = subparsers.add_parser("delayed", help="look after a delayed queue", description=__doc__.splitlines()[0])
    commands = delayed.add_subparsers(dest="delayed_command", required=True, metavar="COMMAND")

    migrate = commands.add_parser("migrate", help="create or update the tables; adopts the source library's own")
    _add_database(migrate)
    migrate.add_argument("--sql", action="store_true", help="print what would be run, and run nothing")
    migrate.set_defaults(run=_guarded(_migrate))

    stats = commands.add_parser("stats", help="count the messages in each state")
    _add_queue(stats)
    stats.add_argument(
        "--format", choices=("table", "json", "prometheus"), default="table", help="default: %(default)s"
    )
    stats.set_defaults(run=_guarded(_stats))

    peek = commands.add_parser("peek", help="show the next messages without taking them")
    _add_queue(peek)
    peek.add_argument("--limit", type=int, default=10, help="how many at most (default: %(default)s)")
    peek.add_argument("--dead", action="store_true", help="show dead letters instead, with the reason")
    peek.set_defaults(run=_guarded(_peek))

    drop = commands.add_parser("drop", help="delete messages")
    _add_queue(drop)
    which = drop.add_mutually_exclusive_group(required=True)
    which.add_argument("--key", action="append", metavar="KEY", help="the message of this key; may be repeated")
    which.add_argument("--all", action="store_true", help="every message of the queue; needs --yes")
    drop.add_argument("--dead", action="store_true", help="dead letters instead of live messages")
    drop.add_argument("--yes", action="store_true", help="really")
    drop.set_defaults(run=_guarded(_drop))

    redrive = commands.add_parser("redrive", help="put dead letters back into the queue")
    _add_queue(redrive)
    redrive.add_argument("--key", action="append", metavar="KEY", help="only this one; may be repeated")
    redrive.set_defaults(run=_guarded(_redrive))


def _add_database(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", required=True, help="sqlite:///file.db or postgresql://user@host/db")
    parser.add_argument("--table", default="delayed_queue", help="the table (default: %(default)s)")


def _add_queue(parser: argparse.ArgumentParser) -> None:
    _add_database(parser)
    parser.add_argument("--queue", required=True, help="the queue's name")
    parser.add_argument(
        "--codec", choices=tuple(CODECS), default="msgspec", help="the codec it was opened with (default: %(default)s)"
    )


def _migrate(arguments: argparse.Namespace) -> None:
    _check_url(arguments.url)
    storage, _ = open_storage(arguments.url, table=arguments.table, time=TimeConfig(), retry=RetryConfig())
    try:
        reach(storage, NO_RETRIES, migrate=False)  # a person at a shell wants to hear at once
        if arguments.sql:
            sys.stdout.write(storage.migration_sql())
            return
        done = reach(storage, RetryConfig(), migrate=True)
    finally:
        storage.close()
    for name in done:
        print(f"applied: {name}")
    if not done:
        print("up to date")


def _stats(arguments: argparse.Namespace) -> None:
    with _opened(arguments) as queue:
        stats = queue.stats()
    values = {name: getattr(stats, name) for name in _PROMETHEUS}
    if arguments.format == "json":
        print(msgspec.json.encode(values).decode())
    elif arguments.format == "prometheus":
        label = arguments.queue.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for name, text in _PROMETHEUS.items():
            print(f"# HELP drainq_delayed_{name} {text}\n# TYPE drainq_delayed_{name} gauge")
            print(f'drainq_delayed_{name}{{queue="{label}"}} {values[name]}')
    else:
        for name, value in values.items():
            print(f"{name:<17} {value:.3f} s" if name.endswith("age") else f"{name:<17} {value}")


def _peek(arguments: argparse.Namespace) -> None:
    with _opened(arguments) as queue:
        if arguments.dead:
            for letter in queue.dead_letters(limit=arguments.limit):
                died, reason = from_ms(letter.died_at).isoformat(), letter.error.splitlines()[0] if letter.error else ""
                print(f"{died}  {letter.key}  attempts={letter.attempts}  {reason}  {_shown(letter.payload)}")
            return
        for row in queue.peek(arguments.limit):
            state = "in flight" if row.locked else "waiting"
            print(
                f"{from_ms(row.due_at).isoformat()}  {row.key}  {state}  attempts={row.attempts}  {_shown(row.payload)}"
            )


def _drop(arguments: argparse.Namespace) -> None:
    if arguments.all and not arguments.yes:
        raise _UserError("--all deletes every message of the queue for good: add --yes")
    with _opened(arguments) as queue:
        if arguments.dead:
            dropped = queue.drop_dead_letters(arguments.key)
        elif arguments.all:
            dropped = queue.drop_all_messages(DROP_CONFIRMATION)
        else:
            dropped = sum(queue.drop_message(key) for key in arguments.key)
    print(f"dropped {dropped}")


def _redrive(arguments: argparse.Namespace) -> None:
    with _opened(arguments) as queue:
        print(f"put back {queue.redrive(arguments.key)}")


@contextmanager
def _opened(arguments: argparse.Namespace) -> Iterator[DelayedQueue[object]]:
    _check_url(arguments.url)
    codec = CODECS[arguments.codec]()
    queue = DelayedQueue.open(
        arguments.url, arguments.queue, table=arguments.table, codec=codec, migrate=False, retry=NO_RETRIES
    )
    with queue:
        if queue._session.storage.migration_sql():
            raise _UserError(
                f"the tables of {arguments.table!r} are missing or old: run 'drainq delayed migrate' first"
            )
        yield queue


def _check_url(url: str) -> None:
    if url == "memory:":
        raise _UserError("a queue in memory lives and dies with its process: name a database with --url")


def _guarded(command: Callable[[argparse.Namespace], None]) -> Callable[[argparse.Namespace], int]:
    """The command with a user's mistakes turned into one line and exit code 2."""

    def run(arguments: argparse.Namespace) -> int:
        try:
            command(arguments)
        except (_UserError, ValueError, TypeError, ImportError) as error:
            return _refuse(str(error))
        except Exception as error:
            if not _is_database_error(error):
                raise
            return _refuse(f"{without_password(arguments.url)}: {without_password(str(error))}")
        return 0

    return run


def _refuse(text: str) -> int:
    line = " ".join(text.split())
    print(f"drainq delayed: {line}", file=sys.stderr)
    return 2


def _is_database_error(error: BaseException) -> bool:
    """Whether the database, or the way to it, refused: told by name, for a driver need not be installed."""
    return any(
        kind.__module__.partition(".")[0] in ("sqlite3", "psycopg", "psycopg_pool") for kind in type(error).__mro__
    ) or (error.__cause__ is not None and _is_database_error(error.__cause__))


def _shown(payload: bytes) -> str:
    text = payload.decode("utf-8", "backslashreplace")
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
