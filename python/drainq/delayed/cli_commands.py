"""The commands of ``drainq delayed``: each takes the parsed arguments and returns an exit code, or None for 0."""

from __future__ import annotations

import argparse
import getpass
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import Any

import msgspec

from drainq.delayed.admin import DROP_CONFIRMATION
from drainq.delayed.cli_target import UsageError, found_queue, found_storage, refuse_memory, shown_storage
from drainq.delayed.config import NO_RETRIES, RetryConfig, TimeConfig
from drainq.delayed.message import to_ms
from drainq.delayed.storage.open import open_storage, reach
from drainq.delayed.storage.records import DeadLetter, FinishedAttempt, StoredMessage

_NARROWEST = 6
"""The least characters of a column; a terminal narrower than all columns wraps."""


def print_json(value: Any) -> None:
    """Print one line of JSON."""
    print(msgspec.json.encode(value).decode())


def answer(arguments: argparse.Namespace, value: Any, text: str) -> None:
    """Print the result of a command: as JSON if the user asked for it, else as one line of text."""
    if arguments.json:
        print_json(value)
    else:
        print(text)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns. On a terminal the widest cells are cut, with "...", until a row fits into a line."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    room = _width()
    while room is not None and sum(widths) + 2 * (len(widths) - 1) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    for row in [head, *rows]:
        print("  ".join(_cut(cell, width).ljust(width) for cell, width in zip(row, widths)).rstrip())


def print_line(text: str) -> None:
    """Print one line, cut to the width of a terminal, and whole in a pipe."""
    room = _width() if sys.stdout.isatty() else None
    print(text if room is None else _cut(text, max(room, _NARROWEST)))


def _width() -> int | None:
    """Return the characters in a line. None if the output is no terminal and no environment variable sets the width."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    return shutil.get_terminal_size().columns


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _text(row: Any) -> str:
    """Return the payload of a row as text."""
    return str(row.payload.decode("utf-8", "backslashreplace"))


def _named(row: Any, *names: str) -> dict[str, Any]:
    """Return fields of a row by name."""
    return {name: getattr(row, name) for name in names}


def shown(row: Any, most: int = 60) -> str:
    """Return the payload of a row as one line of printable text."""
    return printable(_text(row), most)


def printable(text: str, most: int | None = None) -> str:
    """Escape characters that would move the cursor."""
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return text if most is None or len(text) <= most else text[:most] + "..."


def second(at: datetime) -> str:
    """Format a time to the second, in UTC."""
    return at.strftime("%Y-%m-%d %H:%M:%S")


_PROMETHEUS = {
    "ready": "Messages that are due.",
    "scheduled": "Messages that become due later.",
    "in_flight": "Messages on loan to a consumer.",
    "oldest_ready_age": "Seconds that the longest waiting message has been due.",
    "redelivered": "Messages here now that were delivered more than once.",
    "dead": "Dead letters.",
    "paused": "Whether the queue is paused.",
    "elsewhere": "Messages of queues with the same name and another codec.",
    "expired": "Messages whose lease has ended without an answer of their consumer.",
    "longest_held": "Seconds for which a consumer has held a message longest.",
}


def migrate(arguments: argparse.Namespace) -> None:
    refuse_memory(arguments.url)
    if arguments.sql:
        with shown_storage(arguments) as storage:
            sys.stdout.write(storage.migration_sql())
        return
    storage, _ = open_storage(arguments.url, table=arguments.table, time=TimeConfig(), retry=RetryConfig())
    try:
        reach(storage, NO_RETRIES, migrate=False)  # a person at a shell waits for no retry
        done = reach(storage, RetryConfig(), migrate=True)
    finally:
        storage.close()
    for name in done:
        print(f"applied: {name}")
    if not done:
        print("up to date")


def stats(arguments: argparse.Namespace) -> None:
    with found_queue(arguments) as queue:
        stats = queue.stats()
    values = {name: getattr(stats, name) for name in _PROMETHEUS}
    if arguments.json or arguments.format == "json":
        print_json(values)
    elif arguments.format == "prometheus":
        label = arguments.queue.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for name, text in _PROMETHEUS.items():
            metric = f"drainq_delayed_{name}" + "_seconds" * isinstance(values[name], float)  # as on /metrics
            print(f"# HELP {metric} {text}\n# TYPE {metric} gauge")
            print(f'{metric}{{queue="{label}"}} {values[name]:n}')
    else:
        for name, value in values.items():
            print(f"{name:<17} {value:.3f} s" if isinstance(value, float) else f"{name:<17} {value}")
        if stats.paused:
            print("the queue is paused: no consumer gets a message until 'drainq delayed resume'")
        if stats.elsewhere:
            print(
                "other codecs of this name have messages that no consumer of this one gets: see 'drainq delayed queues'"
            )


def peek(arguments: argparse.Namespace) -> None:
    if arguments.dead:
        arguments.prefix = None
        dead(arguments)
        return
    with found_queue(arguments) as queue:
        rows, now = queue.peek(arguments.limit), queue.clock.now()
    if arguments.json:
        print_json([_stored(row, now) for row in rows])
        return
    for row in rows:
        since = "" if (held := _held_for(row, now)) is None else f" for {held:.0f} s"
        state = f"held by {row.holder or 'an unknown consumer'}{since}" if row.in_flight else "waiting"
        reason = f"  {printable(row.last_error.splitlines()[0])}" if row.last_error else ""
        print_line(
            f"{row.due_at.isoformat()}  {printable(row.key)}  {state}  attempts={row.attempts}{reason}  {shown(row)}"
        )


def _stored(row: StoredMessage, now: float) -> dict[str, Any]:
    """Return all about a message, for a person. ``now``: seconds since the epoch."""
    return row._asdict() | {"held_for": _held_for(row, now), "payload": _text(row)}


def _held_for(row: StoredMessage, now: float) -> float | None:
    return None if row.leased_at is None else round(now - row.leased_at.timestamp(), 3)


def show(arguments: argparse.Namespace) -> int:
    with found_queue(arguments) as queue:
        rows, now = queue.peek(1, key=arguments.key), queue.clock.now()
        session = queue._session
        letters = not rows and arguments.key in session.storage.dead_keys(session.kind, arguments.key)
    if not rows:
        return _say_missing([arguments.key], "live message, but a dead letter" if letters else "message")
    values = _stored(rows[0], now)
    if arguments.json:
        print_json(values)
        return 0
    for name, value in values.items():
        if value is not None:
            print(f"{name:<13} {second(value) if isinstance(value, datetime) else printable(str(value))}")
    return 0


def release(arguments: argparse.Namespace) -> int:
    limits = {"holder": arguments.holder, "older_than": arguments.older_than}
    return _move(arguments, "release", limits, "released", "message that a consumer holds")


def reschedule(arguments: argparse.Namespace) -> int:
    return _move(arguments, "reschedule", _named(arguments, "at", "delay"), "rescheduled", "message that waits")


def _move(arguments: argparse.Namespace, method: str, options: dict[str, Any], done: str, what: str) -> int:
    """Change the messages that the arguments name, by a method of the queue."""
    if arguments.key and arguments.prefix is not None:
        raise UsageError("pass KEY or --prefix, not both")
    missing: list[str] = []
    with found_queue(arguments) as queue:
        move = getattr(queue, method)
        if arguments.key:
            count, missing = _for_each(arguments.key, lambda key: move(key, **options))
        else:
            count = move(prefix=arguments.prefix, **options)
    answer(arguments, {done: count, "missing": missing}, f"{done} {count}")
    return _say_missing(missing, what)


def forget(arguments: argparse.Namespace) -> None:
    dropped = 0
    with found_queue(arguments) as queue:
        found = [it for it in queue.cron.schedules() if it.key_prefix == arguments.prefix]
        if not found:
            raise UsageError(f"the queue has no schedule {arguments.prefix!r}: see 'drainq delayed schedules'")
        if arguments.drop:
            dropped = queue.cron.uninstall_tick(found[0].config_hash, arguments.prefix)
        forgotten = queue.cron.forget(arguments.prefix)
    answer(
        arguments,
        {"forgotten": forgotten, "dropped": dropped},
        f"forgot {forgotten} ticks, dropped {dropped} messages; a program that still runs it enters it again",
    )


def dead(arguments: argparse.Namespace) -> None:
    with found_queue(arguments) as queue:
        letters = queue.dead_letters(arguments.prefix, arguments.limit)
    if arguments.json:
        print_json([_named(it, "key", "died_at", "attempts", "error") | {"payload": _text(it)} for it in letters])
        return
    for letter in letters:
        print_line(
            f"{letter.died_at.isoformat()}  {printable(letter.key)}  attempts={letter.attempts}"
            f"  {_reason(letter)}  {shown(letter)}"
        )


def history(arguments: argparse.Namespace) -> None:
    with found_queue(arguments) as queue:
        past = queue.history(arguments.limit, key=arguments.key)
    if arguments.json:
        print_json([attempt._asdict() for attempt in past])
        return
    if not past:
        print("no attempt is remembered: a queue that is opened with history= remembers its own")
    for it in past:
        took = "" if it.started_at is None else f" after {(it.finished_at - it.started_at).total_seconds():.3f} s"
        by, error = f", {printable(it.holder)}" if it.holder else "", f": {_reason(it)}" if it.error else ""
        print_line(f"{second(it.finished_at)}  {printable(it.key)}  attempt {it.attempt} {it.outcome}{took}{by}{error}")


def _reason(row: FinishedAttempt | DeadLetter) -> str:
    """Return the first line of an error."""
    return printable(row.error.splitlines()[0]) if row.error else ""


def queues(arguments: argparse.Namespace) -> None:
    with found_storage(arguments) as storage:
        queues = storage.overview(to_ms(time.time()))
    if arguments.json:
        print_json([queue._asdict() for queue in queues])
        return
    print_table(
        ("QUEUE", "CODEC", "STATE", "READY", "OLDEST", "LATER", "IN FLIGHT", "DEAD"),
        [
            (
                *(printable(q.name), printable(q.codec), "paused" if q.paused else "running"),
                *(str(q.ready), f"{q.oldest_ready_age:.0f} s", str(q.scheduled), str(q.in_flight), str(q.dead)),
            )
            for q in queues
        ],
    )
    for queue in queues:
        if queue.paused_by is not None:
            print_line(f"{printable(queue.name)} was paused by {printable(queue.paused_by)}")


def schedules(arguments: argparse.Namespace) -> None:
    with found_queue(arguments) as queue:
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


def pause(arguments: argparse.Namespace) -> None:
    with found_queue(arguments) as queue:
        with suppress(Exception):  # a user without a name
            queue._session.name_consumer(getpass.getuser())
        changed = queue.pause(arguments.reason)
    answer(arguments, {"paused": True, "changed": changed}, "paused" if changed else "it was paused already")


def resume(arguments: argparse.Namespace) -> None:
    with found_queue(arguments) as queue:
        changed = queue.resume()
    answer(arguments, {"paused": False, "changed": changed}, "resumed" if changed else "it was not paused")


def drop(arguments: argparse.Namespace) -> int:
    which = "message" if arguments.prefix is None else f"message whose key begins with {arguments.prefix!r}"
    if not arguments.key and not arguments.yes and not _agreed(f"this deletes every {which} of the queue for good"):
        raise UsageError(f"nothing was deleted: to delete every {which} of the queue for good, add --yes")
    missing: list[str] = []
    with found_queue(arguments) as queue:
        if arguments.key:
            one = (lambda key: queue.drop_dead_letters([key])) if arguments.dead else queue.drop_message
            dropped, missing = _for_each(arguments.key, one)
        elif arguments.dead:
            dropped = queue.drop_dead_letters(prefix=arguments.prefix, everything=arguments.all)
        elif arguments.prefix is not None:
            dropped = queue.drop_messages(arguments.prefix)
        else:
            dropped = queue.drop_all_messages(DROP_CONFIRMATION)
    answer(arguments, {"dropped": dropped, "missing": missing}, f"dropped {dropped}")
    return _say_missing(missing, "dead letter" if arguments.dead else "message")


def _agreed(text: str) -> bool:
    """Ask a person at a terminal. Return False without one."""
    return sys.stdin.isatty() and input(f"{text}: go on? [y/N] ").strip().lower() in ("y", "yes")


def redrive(arguments: argparse.Namespace) -> int:
    missing: list[str] = []
    with found_queue(arguments) as queue:
        if arguments.key:
            back, missing = _for_each(arguments.key, lambda key: queue.redrive([key]))
        else:
            back = queue.redrive(prefix=arguments.prefix)
    answer(arguments, {"put_back": back, "missing": missing}, f"put back {back}")
    return _say_missing(missing, "dead letter that can go back")


def purge(arguments: argparse.Namespace) -> None:
    with found_queue(arguments) as queue:
        purged = queue.purge_dead(arguments.older_than)
    answer(arguments, {"purged": purged}, f"purged {purged}")


def _for_each(keys: Sequence[str], change: Callable[[str], int]) -> tuple[int, list[str]]:
    """Change the message of each key. Return how many were changed, and the missing keys."""
    changed = [(key, int(change(key))) for key in keys]
    return sum(count for _, count in changed), [key for key, count in changed if not count]


def _say_missing(keys: list[str], what: str) -> int:
    for key in keys:
        print(f"drainq delayed: there is no {what} of key {printable(key)!r}", file=sys.stderr)
    return 1 if keys else 0
