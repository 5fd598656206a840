"""The ``drainq`` command.

Each part brings its own sub-commands: a module with ``add_commands(subparsers)``, named in ``COMMANDS``. It imports
what it needs when its command runs, so ``drainq --help`` is quick and needs no extra. A command that is named first on
the command line is read with its own module alone.

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

COMMANDS = {
    "metrics": "drainq.metrics.cli",
    "delayed": "drainq.delayed.cli",
    "top": "drainq.commands.top",
    "doctor": "drainq.commands.doctor",
    "completion": "drainq.commands.completion",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line: what is wrong and where to look it up; argparse would print the usage as well.

        The line shows no password: a URL may stand behind an option that is mistyped.
        """
        from drainq.sql.url import shown

        self.exit(2, f"{self.prog}: {shown(message)} (see {self.prog} --help)\n")


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser with the sub-commands of one command; with those of all, if none or an unknown one is named."""
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
    """Have what is parsed say which command's parser read it last: that one refuses what is left."""
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
    arguments.whole_parser = build_parser  # for the command that prints what a shell completes
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
