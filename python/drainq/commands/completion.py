"""``drainq completion``: prints a script that completes commands in a shell, made by the package ``shtab``."""

from __future__ import annotations

import argparse
from typing import Any

from drainq.errors import DrainqError

SHELLS = ("bash", "zsh", "tcsh")


def add_commands(subparsers: Any) -> None:
    """Add ``completion`` to the commands."""
    parser = subparsers.add_parser(
        "completion",
        help="a script that completes commands in a shell",
        description="Print a script, for example:\n"
        "drainq completion bash > ~/.local/share/bash-completion/completions/drainq",
    )
    parser.add_argument("shell", choices=SHELLS, help="which shell")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise DrainqError("completion needs shtab: pip install 'drainq[cli]'") from None
    print(shtab.complete(arguments.whole_parser(), shell=arguments.shell))
    return 0
