"""``drainq delayed``: list, look into, pause and clean up delayed queues from a shell.

1. Exit codes: 0 done; 1 done, but for keys that are not there, each with a line on stderr; 2 the user's mistake, or a
   database that cannot be reached: one line on stderr, no traceback, and nothing was done.
2. What only looks creates nothing: no file, no table, no name.
3. A queue that is unknown is refused, with the names that are known.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

from drainq.delayed.admin import DROP_CONFIRMATION, opened_storage
from drainq.delayed.cli_output import print_json, print_line, print_table, printable, second, shown
from drainq.delayed.codec import BytesCodec, Codec, JsonCodec, MsgspecCodec, StrCodec
from drainq.delayed.config import NO_RETRIES, RetryConfig, TimeConfig
from drainq.delayed.message import from_ms
from drainq.delayed.queue import DelayedQueue
from drainq.delayed.storage.open import open_storage, reach
from drainq.delayed.storage.operator import QueueRow
from drainq.delayed.storage.protocol import Storage
from drainq.sql.url import without_password

CODECS: dict[str, Callable[[], Codec]] = {
    "msgspec": MsgspecCodec,
    "json": JsonCodec,
    "bytes": BytesCodec,
    "str": StrCodec,
}
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

    _add_json(stats)

    peek = commands.add_parser("peek", help="show the next messages without taking them")
    _add_queue(peek)
    _add_limit(peek, 10)
    peek.add_argument("--dead", action="store_true", help="show dead letters instead, with the reason")
    _add_json(peek)
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
    back = redrive.add_mutually_exclusive_group()
    back.add_argument("--key", action="append", metavar="KEY", help="only this one; may be repeated")
    back.add_argument("--prefix", help="only those whose keys begin with it")
    redrive.set_defaults(run=_guarded(_redrive))

    queues = commands.add_parser("queues", help="list the queues of a table by name")
    _add_database(queues)
    _add_json(queues)
    queues.set_defaults(run=_guarded(_queues))

    schedules = commands.add_parser("schedules", help="list the schedules that were installed in a queue")
    _add_queue(schedules)
    _add_json(schedules)
    schedules.set_defaults(run=_guarded(_schedules))

    for name, text in (("pause", "stop the delivery of messages, to every consumer"), ("resume", "undo pause")):
        command = commands.add_parser(name, help=text)
        _add_queue(command)
        command.set_defaults(run=_guarded(_pause if name == "pause" else _resume))

    history = commands.add_parser("history", help="list the messages acknowledged last, if the queue remembers them")
    _add_queue(history)
    _add_limit(history, 20)
    _add_json(history)
    history.set_defaults(run=_guarded(_history))

    dead = commands.add_parser("dead", help="list dead letters, the latest first")
    _add_queue(dead)
    dead.add_argument("--prefix", help="only those whose keys begin with it")
    _add_limit(dead, 20)
    _add_json(dead)
    dead.set_defaults(run=_guarded(_dead))

    purge = commands.add_parser("purge", help="delete dead letters of some age")
    _add_queue(purge)
    purge.add_argument(
        "--older-than", required=True, type=_duration, metavar="AGE", help="such as 90 (seconds), 30m, 12h, 30d"
    )
    purge.set_defaults(run=_guarded(_purge))


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def _add_limit(parser: argparse.ArgumentParser, default: int) -> None:
    parser.add_argument("--limit", type=int, default=default, help="how many at most (default: %(default)s)")


def _duration(text: str) -> float:
    """Seconds; ``12h`` and the like."""
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:])
    try:
        seconds = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e10:
        raise argparse.ArgumentTypeError(f"{text!r} is no age: take seconds, or 30m, 12h, 30d")
    return seconds


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
    _refuse_memory(arguments.url)
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
    if arguments.json or arguments.format == "json":
        print_json(values)
    elif arguments.format == "prometheus":
        label = arguments.queue.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for name, text in _PROMETHEUS.items():
            print(f"# HELP drainq_delayed_{name} {text}\n# TYPE drainq_delayed_{name} gauge")
            print(f'drainq_delayed_{name}{{queue="{label}"}} {values[name]}')
    else:
        for name, value in values.items():
            print(f"{name:<17} {value:.3f} s" if name.endswith("age") else f"{name:<17} {value}")


def _peek(arguments: argparse.Namespace) -> None:
    if arguments.dead:
        arguments.prefix = None
        _dead(arguments)
        return
    with _opened(arguments) as queue:
        rows = queue.peek(arguments.limit)
    if arguments.json:
        print_json(
            [
                {
                    "key": row.key,
                    "due_at": from_ms(row.due_at),
                    "in_flight": row.locked,
                    "attempts": row.attempts,
                    "payload": row.payload.decode("utf-8", "backslashreplace"),
                }
                for row in rows
            ]
        )
        return
    for row in rows:
        state = "in flight" if row.locked else "waiting"
        print_line(
            f"{from_ms(row.due_at).isoformat()}  {printable(row.key)}  {state}  attempts={row.attempts}"
            f"  {shown(row.payload)}"
        )


def _dead(arguments: argparse.Namespace) -> None:
    with _opened(arguments) as queue:
        letters = queue.dead_letters(arguments.prefix, arguments.limit)
    if arguments.json:
        print_json(
            [
                {
                    "key": letter.key,
                    "died_at": from_ms(letter.died_at),
                    "attempts": letter.attempts,
                    "error": letter.error,
                    "payload": letter.payload.decode("utf-8", "backslashreplace"),
                }
                for letter in letters
            ]
        )
        return
    for letter in letters:
        reason = printable(letter.error.splitlines()[0] if letter.error else "")
        print_line(
            f"{from_ms(letter.died_at).isoformat()}  {printable(letter.key)}  attempts={letter.attempts}"
            f"  {reason}  {shown(letter.payload)}"
        )


def _history(arguments: argparse.Namespace) -> None:
    with _opened(arguments) as queue:
        past = queue.history(arguments.limit)
    if arguments.json:
        print_json(
            [
                {
                    "key": message.key,
                    "finished_at": from_ms(message.finished_at),
                    "schedule_at": from_ms(message.scheduled_at),
                    "attempts": message.attempts,
                }
                for message in past
            ]
        )
        return
    print_table(
        ("FINISHED", "KEY", "FOR", "TRIES"),
        [
            (
                second(from_ms(message.finished_at)),
                printable(message.key),
                second(from_ms(message.scheduled_at)),
                str(message.attempts),
            )
            for message in past
        ],
    )


def _queues(arguments: argparse.Namespace) -> None:
    with _looked_into(arguments) as storage:
        queues = storage.queues()
    if arguments.json:
        print_json([{"name": q.name, "codec": q.type_name, "paused": q.paused} for q in queues])
        return
    print_table(
        ("QUEUE", "CODEC", "STATE"),
        [(printable(q.name), printable(q.type_name), "paused" if q.paused else "running") for q in queues],
    )


def _schedules(arguments: argparse.Namespace) -> None:
    with _opened(arguments) as queue:
        schedules = queue.cron.schedules()
    if arguments.json:
        print_json([asdict(schedule) for schedule in schedules])
        return
    print_table(
        ("PREFIX", "FIRES", "LAST TICK", "INSTALLED"),
        [
            (
                printable(schedule.key_prefix),
                printable(schedule.description),
                "none" if schedule.last_tick is None else second(schedule.last_tick),
                second(schedule.installed_at),
            )
            for schedule in schedules
        ],
    )


def _pause(arguments: argparse.Namespace) -> None:
    with _opened(arguments) as queue:
        print("paused" if queue.pause() else "it was paused already")


def _resume(arguments: argparse.Namespace) -> None:
    with _opened(arguments) as queue:
        print("resumed" if queue.resume() else "it was not paused")


def _drop(arguments: argparse.Namespace) -> int:
    if arguments.all and not arguments.yes:
        raise _UserError("--all deletes every message of the queue for good: add --yes")
    missing = []
    with _opened(arguments) as queue:
        if arguments.all:
            dropped = queue.drop_dead_letters() if arguments.dead else queue.drop_all_messages(DROP_CONFIRMATION)
        else:
            dropped = 0
            for key in arguments.key:
                one = queue.drop_dead_letters([key]) if arguments.dead else int(queue.drop_message(key))
                dropped += one
                if not one:
                    missing.append(key)
    print(f"dropped {dropped}")
    return _say_missing(missing, "dead letter" if arguments.dead else "message")


def _redrive(arguments: argparse.Namespace) -> int:
    missing = []
    with _opened(arguments) as queue:
        if arguments.key:
            back = 0
            for key in arguments.key:
                one = queue.redrive([key])
                back += one
                if not one:
                    missing.append(key)
        else:
            back = queue.redrive(prefix=arguments.prefix)
    print(f"put back {back}")
    return _say_missing(missing, "dead letter that can go back")


def _purge(arguments: argparse.Namespace) -> None:
    with _opened(arguments) as queue:
        print(f"purged {queue.purge_dead(arguments.older_than)}")


def _say_missing(keys: list[str], what: str) -> int:
    for key in keys:
        print(f"drainq delayed: there is no {what} of key {printable(key)!r}", file=sys.stderr)
    return 1 if keys else 0


@contextmanager
def _looked_into(arguments: argparse.Namespace) -> Iterator[Storage]:
    """The storage, with tables that are there and up to date; nothing is created."""
    with opened_storage(arguments.url, arguments.table) as storage:
        if storage.migration_sql():
            raise _UserError(
                f"the tables of {arguments.table!r} are missing or old: run 'drainq delayed migrate' first"
            )
        yield storage


@contextmanager
def _opened(arguments: argparse.Namespace) -> Iterator[DelayedQueue[object]]:
    """The queue, if there is one; nothing is created."""
    codec = CODECS[arguments.codec]()
    with _looked_into(arguments) as storage:
        queue: DelayedQueue[object] = DelayedQueue(storage, arguments.queue, codec=codec, retry=NO_RETRIES)
        known = storage.queues()
        kind = queue._session.kind
        if not any(row.kind == kind for row in known) and not (queue.peek(1) or queue.dead_letters(limit=1)):
            raise _UserError(_unknown(arguments, known))
        with queue:
            yield queue


def _unknown(arguments: argparse.Namespace, known: list[QueueRow]) -> str:
    codecs = sorted(row.type_name for row in known if row.name == arguments.queue)
    if codecs:
        names = [name for name, codec in CODECS.items() if codec().type_name in codecs]
        return f"queue {arguments.queue!r} was opened with another codec ({', '.join(codecs)}): " + (
            f"pass --codec {names[0]}" if names else "none that this command knows"
        )
    names = sorted({row.name for row in known})
    listed = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "") if names else "none"
    return f"there is no queue {arguments.queue!r} in {arguments.table!r}; there are: {listed}"


def _refuse_memory(url: str) -> None:
    if url == "memory:":
        raise _UserError("a queue in memory lives and dies with its process: name a database with --url")


def _guarded(command: Callable[[argparse.Namespace], int | None]) -> Callable[[argparse.Namespace], int]:
    """The command with a user's mistakes turned into one line and exit code 2."""

    def run(arguments: argparse.Namespace) -> int:
        try:
            return command(arguments) or 0
        except (_UserError, ValueError, TypeError, ImportError) as error:
            return _refuse(str(error))
        except Exception as error:
            if not _is_database_error(error):
                raise
            return _refuse(f"{without_password(arguments.url)}: {without_password(str(error))}")

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
