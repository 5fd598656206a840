"""``examples/monitored.py`` runs and shows the counters of all that it watches."""

from __future__ import annotations

import subprocess
import sys

from tests.shape.project import ROOT


def test_one_round_shows_every_queue():
    command = [sys.executable, ROOT / "examples" / "monitored.py", "--once"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    shown = dict(line.rsplit(" ", 1) for line in ran.stdout.splitlines())
    assert shown['drainq_batch_handled_total{queue="hits"}'] == "1000"
    put = shown['drainq_multi_put_total{queue="alerts"}']
    assert int(put) == int(shown['drainq_multi_depth{queue="alerts"}']) > 0
    assert int(shown['drainq_delayed_scheduled{queue="slow hits"}']) > 0
