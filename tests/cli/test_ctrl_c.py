"""Ctrl-C waits for the end of an import, and for the start of a thread."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no alarm")

PROGRAM = """
import signal, sys, threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import drainq.cli
from drainq.ctrl_c import held_back

wait = threading.Event().wait


def interrupted(work):
    try:
        with held_back():
            work()
        return "no"
    except KeyboardInterrupt:
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
        return "yes"


def at_once():
    signal.raise_signal(signal.SIGINT)
    print("never")


def in_an_import():
    import struck
    print("whole", struck.whole)


def in_an_import_and_then():
    sys.modules.pop("struck", None)
    in_an_import()
    wait()


def in_the_start_of_a_thread():
    def strike(frame, event, _):
        if event == "return" and frame.f_code is threading.Thread.start.__code__:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    sys.setprofile(strike)
    print("result", ThreadPoolExecutor(1).submit(int).result())
    wait()


for work in (at_once, in_an_import, in_an_import_and_then, in_the_start_of_a_thread):
    print(work.__name__, interrupted(work))
signal.signal(signal.SIGALRM, lambda *_: None)
with held_back():
    print("left alone", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
signal.signal(signal.SIGALRM, signal.SIG_DFL)
arguments = SimpleNamespace(run=lambda _: in_an_import_and_then())
drainq.cli.build_parser = lambda _: SimpleNamespace(parse_known_args=lambda _: (arguments, []))
print("exit code", drainq.cli.main([]))
"""


def test_ctrl_c_waits_for_imports_and_starts_of_threads_and_the_process_ends(tmp_path):
    (tmp_path / "struck.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\nwhole = True\n")
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "drainq: interrupted\n")
    assert done.stdout.splitlines() == [
        "at_once yes",
        "whole True",
        "in_an_import yes",
        "whole True",
        "in_an_import_and_then yes",
        "result 0",
        "in_the_start_of_a_thread yes",
        "left alone True",
        "whole True",
        "exit code 130",
    ]
