"""The ``drainq`` command.

``COMMANDS`` names the modules of the sub-commands, each with ``add_commands(subparsers)``. A module imports its
dependencies when its command runs, so ``drainq --help`` is quick and needs no extra. If the command line begins with a
command, only the module of that command is loaded.

1. Exit codes: 0 done; 1 an item, a key, an endpoint, a check or the job failed; 2 a user's mistake, or a database out
   of reach; 130 interrupted.
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
from drainq.ctrl_c import held_back
from drainq.errors import DrainqError

COMMANDS = {
    "metrics": "drainq.metrics.cli",
    "delayed": "drainq.delayed.cli",
    "top": "drainq.commands.top",
    "doctor": "drainq.commands.doctor",
    "completion": "drainq.commands.completion",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print one line with the mistake and where to look it up. argparse would print the usage as well.

        The line shows no password, because a URL may follow a misspelt option.
        """
        from drainq.sql.url import shown

        self.exit(2, f"{self.prog}: {shown(message)} (see {self.prog} --help)\n")


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser with the sub-commands of one command, or of all if the name is missing or unknown."""
    parser = _Parser(
        prog="drainq",
        description="The queue layer between a Spark task, or any Python program, and everything slow behind it.",
    )
    parser.add_argument("--version", action="version", version=f"drainq {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    modules = [COMMANDS[command]] if command in COMMANDS else COMMANDS.values()
    for module in modules:
        importlib.import_module(module).add_commands(subparsers)
    _name_commands(parser)
    return parser


def _name_commands(parser: argparse.ArgumentParser) -> None:
    """Make each parser store itself in ``arguments.parser``, so that the innermost one refuses unknown arguments."""
    parser.set_defaults(parser=parser)
    for action in parser._actions:
        for command in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():
            _name_commands(command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments without the program's name; None: this process's.
    Returns:
        The exit code.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    arguments, left = build_parser(words[0] if words else None).parse_known_args(words)
    if left:
        arguments.parser.error(f"unrecognized arguments: {' '.join(left)}")
    arguments.whole_parser = build_parser  # ``completion`` reads it
    try:
        with held_back():
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
