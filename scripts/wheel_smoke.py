"""The smoke test of a wheel: installs it into an empty environment of each CPython, and runs a queue.

Usage: ``python scripts/wheel_smoke.py dist/drainq-*.whl python3.10 python3.13``; without interpreters, the one that
runs this. Each environment is made in a temporary directory outside the source tree, gets the wheel and what the wheel
depends on, and runs :data:`PROGRAM`. Only the standard library is needed here.

Exit codes: 0 all interpreters ran it; 1 one did not, or the wheel has a fault; 2 the usage is wrong.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LARGEST = 2_000_000
"""The most bytes of a wheel."""

PROGRAM = """
import asyncio, os, sys, sysconfig, threading
import drainq
from drainq import BatchQueue, BatchQueueConfig, MultiQueue
from drainq.delayed import DelayedQueue
from drainq.monitoring import MetricsServer
from urllib.request import urlopen

assert "site-packages" in drainq.__file__, drainq.__file__
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    assert not sys._is_gil_enabled(), "drainq turned the GIL on"
handled = []
with BatchQueue("smoke", BatchQueueConfig(threads=2, partitions=4)) as queue:
    queue.add_handler(int, handled.extend)
    assert queue.produce_many(range(10_000)) == 10_000
    assert asyncio.run(queue.produce_async(10_000))
    assert queue.flush(timeout=60)
    with MetricsServer(port=0) as server:
        text = urlopen(server.url, timeout=60).read().decode()
    assert 'drainq_batch_handled_total{queue="smoke"} 10001' in text
assert sorted(handled) == list(range(10_001))
stats = queue.stats()
assert (stats.handled, stats.failed, stats.unrouted) == (10_001, 0, 0)

multi = MultiQueue()
multi.add_sub_queue("a").put(1)
assert multi.get() == 1

with DelayedQueue.open("sqlite:///smoke.db", "smoke") as delayed:
    delayed.offer_or_update("key", {"n": 1}, 0)
    envelope = delayed.try_poll()
    assert envelope.payload == {"n": 1} and envelope.ack()

if hasattr(os, "fork"):
    child = os.fork()
    if not child:
        os._exit(0 if BatchQueue("child", BatchQueueConfig(threads=1, consumer=len)).produce(1) else 1)
    assert os.waitpid(child, 0)[1] == 0
print(f"drainq {drainq.__version__} works on {sys.version.split()[0]}")
"""


def main(arguments: list[str]) -> int:
    """Try the wheel on each interpreter."""
    wheels = [Path(argument).resolve() for argument in arguments if argument.endswith(".whl")]
    if len(wheels) != 1 or not wheels[0].is_file():
        print("usage: wheel_smoke.py WHEEL [PYTHON ...]: name one wheel that exists", file=sys.stderr)
        return 2
    [wheel] = wheels
    pythons = [argument for argument in arguments if not argument.endswith(".whl")] or [sys.executable]
    wrong = faults(wheel)
    for fault in wrong:
        print(f"{wheel.name}: {fault}", file=sys.stderr)
    return int(bool(wrong) or [works(wheel, python) for python in pythons].count(False) > 0)


def faults(wheel: Path) -> list[str]:
    """Return the faults of the wheel file itself."""
    found = []
    size = wheel.stat().st_size
    if size > LARGEST:
        found.append(f"has {size:,} bytes, and may have {LARGEST:,}")
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        for needed in ("drainq/py.typed", "drainq/_native.pyi"):
            if needed not in names:
                found.append(f"lacks {needed}")
        for name in names:
            if name.endswith((".json", "METADATA", "RECORD")) and str(Path.home()).encode() in content.read(name):
                found.append(f"{name} holds a path of the machine that built it")
        if not any(name.endswith("licenses/LICENSE") for name in names):
            found.append("lacks its licence")
    print(f"{wheel.name}: {size:,} bytes, {len(names)} files")
    return found


def works(wheel: Path, python: str) -> bool:
    """Return whether the program runs in an empty environment of this interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        bin_folder = place / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        steps = [
            [python, "-m", "venv", str(place / "venv")],
            [str(bin_folder / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)],
            [str(bin_folder / "python"), "-c", PROGRAM],
            [str(bin_folder / "drainq"), "doctor", "--quiet"],
        ]
        for step in steps:
            ran = subprocess.run(step, cwd=place, text=True, capture_output=True, check=False)
            if ran.returncode:
                print(f"{python}: {' '.join(step)[:80]} failed\n{ran.stdout}{ran.stderr}", file=sys.stderr)
                return False
            print(ran.stdout, end="")
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
