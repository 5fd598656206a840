"""``drainq delayed work`` and ``backfill``: the commands that run the user's functions.

In ``work``, SIGTERM and SIGINT (Ctrl-C) set ``stop``. Handlers may still end within the grace time. Then the messages
of running handlers are released. A second signal of the same kind ends the process at once.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from drainq.callables import is_async
from drainq.delayed.cli_commands import answer
from drainq.delayed.cli_target import UsageError, found_queue
from drainq.delayed.codec import BytesCodec, JsonCodec, MsgspecCodec, StrCodec
from drainq.delayed.queue import DelayedQueue
from drainq.monitoring import MetricsServer, watch

_CODECS = {codec().type_name: codec for codec in (MsgspecCodec, JsonCodec, BytesCodec, StrCodec)}


def work(arguments: argparse.Namespace) -> None:
    handler = _loaded(arguments.handler)
    options = {"concurrency": arguments.concurrency, "grace": arguments.grace, "time_limit": arguments.time_limit}
    options["until"] = "empty" if arguments.until_empty else None
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")  # unless the handler's module has done so
    with _opened(arguments) as queue, _watched(queue, arguments.metrics_port):
        if is_async(handler):
            handled = asyncio.run(_consume_async(queue, handler, options))
        else:
            stop = threading.Event()
            with _on_signals(stop.set):
                handled = queue.consume(handler, stop=stop, **options)
    print(f"handled {handled}")


def backfill(arguments: argparse.Namespace) -> None:
    with _opened(arguments) as queue:
        try:
            made = queue.cron.backfill(arguments.prefix, arguments.start, arguments.end)
        except KeyError as error:
            raise UsageError(f"{arguments.open} must install the schedule: {error.args[0]}") from None
    answer(arguments, {"made": made}, f"made {made}")


async def _consume_async(queue: DelayedQueue[Any], handler: Callable[[Any], Any], options: dict[str, Any]) -> int:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    with _on_signals(lambda: loop.call_soon_threadsafe(stop.set)):
        return await queue.consume_async(handler, stop=stop, **options)


def _opened(arguments: argparse.Namespace) -> AbstractContextManager[DelayedQueue[Any]]:
    """Return the queue, opened by the user's function, or with a codec of drainq."""
    if arguments.open is not None:
        opened = _loaded(arguments.open)()
        if not isinstance(opened, DelayedQueue):
            raise UsageError(f"{arguments.open} must return a DelayedQueue, got a {type(opened).__name__}")
        if getattr(arguments, "consumer", None) is not None:
            opened._session.name_consumer(arguments.consumer)
        return opened
    if arguments.url is None or arguments.queue is None:
        raise UsageError("name the queue with --url and --queue, or pass --open MODULE:FUNCTION")
    with found_queue(arguments) as found:
        codec = _CODECS.get(found._session.codec.type_name)
    if codec is None:
        raise UsageError(
            f"the codec {found._session.codec.type_name!r} is none of drainq's: pass --open MODULE:FUNCTION"
        )
    return DelayedQueue.open(
        arguments.url, arguments.queue, table=arguments.table, codec=codec(), migrate=False, consumer=arguments.consumer
    )


def _loaded(text: str) -> Any:
    """Return what ``MODULE:NAME`` names; the module may be in the working directory."""
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise UsageError(f"{text!r} is no MODULE:NAME, such as app.mail:send")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise UsageError(f"{text!r} names nothing that can be called")
    return found


@contextmanager
def _watched(queue: DelayedQueue[Any], port: int | None) -> Iterator[None]:
    """Serve the queue's metrics at a port of 127.0.0.1 during the block; None: serve nothing."""
    if port is None:
        yield
        return
    with MetricsServer(port=port) as server, watch(queue, queue.name):
        print(f"metrics at {server.url}", flush=True)
        yield


@contextmanager
def _on_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call ``stop`` at the first SIGTERM or SIGINT of the block."""

    def handle(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
