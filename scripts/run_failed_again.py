"""Runs each test that failed in the last run of pytest again, alone, three times, and names those that are flaky.

Usage: ``python scripts/run_failed_again.py``, after a run that failed. `make test-all` calls this and fails in any
case: a flaky test is a fault, of the test or of drainq.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FAILED = Path(__file__).parent.parent / ".pytest_cache" / "v" / "cache" / "lastfailed"
TIMES = 3


def main() -> None:
    """Print for each failed test how often it passed alone."""
    tests = sorted(json.loads(FAILED.read_text(encoding="utf-8"))) if FAILED.exists() else []
    for test in tests:
        alone = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", test]
        passed = sum(subprocess.run(alone, capture_output=True, check=False).returncode == 0 for _ in range(TIMES))
        print(f"{'flaky' if passed else 'fails'}: {test} (passed {passed} of {TIMES} times alone)", flush=True)


if __name__ == "__main__":
    main()
