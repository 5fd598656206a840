"""The modules that are loaded, and the error if a driver is missing."""

from __future__ import annotations

import subprocess
import sys


def run(program: str) -> str:
    """Run a program in a fresh interpreter; return what it printed."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_queue_loads_no_driver_and_starts_no_thread():
    assert run(
        "import sys, threading, drainq.delayed;"
        "print([name for name in ('psycopg', 'psycopg_pool', 'sqlite3', 'pickle') if name in sys.modules],"
        " threading.active_count())"
    ) in ("[] 1\n", "['pickle'] 1\n")


def test_a_missing_driver_is_an_error_that_names_the_extra():
    assert "pip install 'drainq[postgres]'" in run(
        "import sys; sys.modules['psycopg'] = None\n"
        "from drainq.delayed import DelayedQueue\n"
        "try:\n"
        "    DelayedQueue.open('postgresql://user@host/db', 'mail')\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )


def test_the_command_line_says_it_in_one_line_too():
    assert run(
        "import sys; sys.modules['psycopg_pool'] = None\n"
        "import argparse\n"
        "from drainq.delayed.cli import add_commands\n"
        "parser = argparse.ArgumentParser()\n"
        "add_commands(parser.add_subparsers())\n"
        "arguments = parser.parse_args(['delayed', 'migrate', '--url', 'postgresql://user@host/db'])\n"
        "sys.stderr = sys.stdout\n"
        "print(arguments.run(arguments))\n"
    ).splitlines()[1:] == ["2"]
