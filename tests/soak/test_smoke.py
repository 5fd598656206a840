"""The soak runs, each room for a moment, and its account can fail."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.soak.hostile import Item
from tests.soak.ledger import Ledger, Wrong
from tests.soak.room import ROOMS

NOTHING = dict.fromkeys(
    ["offered", "accepted", "handled", "failed", "unrouted", "dead_lettered", "abandoned", "queued"], 0
)


@pytest.mark.system
@pytest.mark.usefixtures("own_limit")
@pytest.mark.parametrize("room", ROOMS)
def test_every_room_runs_a_few_rounds(room):
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--room", room, "--seconds", "1", "--seed", "7"],
        capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"'{room}': " in done.stdout and f"'{room}': 0" not in done.stdout


def test_the_account_notices_an_item_that_is_lost_doubled_invented_or_late():
    def ledger():
        fresh = Ledger()
        items = [Item(fresh, "here", None) for _ in range(3)]
        fresh.accepted += items
        fresh.seen += items
        return fresh, items

    def stats(**counts):
        return SimpleNamespace(rejected={}, **{**NOTHING, "offered": 3, "accepted": 3, "handled": 3, **counts})

    account, items = ledger()
    account.check_numbers()
    account.check_order()
    account.check_stats(stats())
    account.seen.append(items[0])
    with pytest.raises(Wrong, match="twice"):
        account.check_numbers()
    with pytest.raises(Wrong, match="after a later one"):
        account.check_order()
    account, items = ledger()
    account.accepted.remove(items[0])
    with pytest.raises(Wrong, match="not accepted"):
        account.check_numbers()
    account, items = ledger()
    account.seen.remove(items[0])
    with pytest.raises(Wrong):
        account.check_stats(stats())
    account, _ = ledger()
    for wrong in (
        {"handled": 2},
        {"queued": 1},
        {"failed": 1, "handled": 2},
        {"accepted": 4, "offered": 4, "handled": 4},
    ):
        with pytest.raises(Wrong):
            account.check_stats(stats(**wrong))
