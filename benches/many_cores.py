"""What more cores bring: drain threads in Python without a GIL, and the Rust core, from 1 to 16 threads.

Run it:  python3.14t -m benches.many_cores [--quick] [--only WORD] [--rounds N] [--out DIR]

For a machine with at least four cores. Needs cargo for the core.
"""

from __future__ import annotations

import argparse
import sys
import sysconfig

from benches import core, protocol
from benches.protocol import Report
from benches.python import parallel

FEWEST = 4


def main() -> int:
    """Run the figures that were asked for."""
    if parallel.CORES < FEWEST:
        sys.exit(f"these figures are for at least {FEWEST} cores, and here are {parallel.CORES}: make bench-parallel")
    if sysconfig.get_config_var("Py_GIL_DISABLED") != 1:
        sys.exit("these figures are for an interpreter without a GIL: see docs/howto/free_threaded.md")
    return protocol.run("many_cores", parallel.drain_threads, parallel.calls, rust)


def rust(report: Report, options: argparse.Namespace) -> None:
    """Measure the Rust core with as many drain threads as producers, and in the shapes of its own page."""
    for group in ("scale", "contend", "seed", "move", "source"):
        core.bench(report, f"{group}: ")


if __name__ == "__main__":
    sys.exit(main())
