"""The ``drainq`` command.

Each part brings its own sub-commands: a module with ``add_commands(subparsers)``, named in ``COMMANDS``. It imports
what it needs when its command runs, so ``drainq --help`` is quick and needs no extra.

1. Exit codes: 0 done; 1 done, but something is not accounted for; 2 the user can put it right; 130 interrupted.
2. A user's mistake is one line on stderr, never a traceback.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from drainq._native import __version__
from drainq.errors import DrainqError

COMMANDS = ("drainq.metrics.cli", "drainq.delayed.cli")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line: what is wrong and where to look it up; argparse would print the usage as well.

        The line shows no password: a URL may stand behind an option that is mistyped.
        """
        from drainq.sql.url import shown

        self.exit(2, f"{self.prog}: {shown(message)} (see {self.prog} --help)\n")


def build_parser() -> argparse.ArgumentParser:
    """The parser with all sub-commands."""
    parser = _Parser(
        prog="drainq",
        description="The queue layer between a Spark task, or any Python program, and everything slow behind it.",
    )
    parser.add_argument("--version", action="version", version=f"drainq {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in COMMANDS:
        importlib.import_module(name).add_commands(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments without the program's name; None: this process's.
    Returns:
        The exit code.
    """
    arguments = build_parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except DrainqError as error:
        print(f"drainq: {' '.join(str(error).split())}", file=sys.stderr)
        return getattr(error, "exit_code", 2)
    except KeyboardInterrupt:
        print("drainq: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the program that read our output has ended, as in `drainq ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
