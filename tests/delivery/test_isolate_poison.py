"""The parts of a refused batch: each item comes once, and in order."""

from __future__ import annotations

import random

import pytest

from drainq.delivery.isolate_poison import Parts


@pytest.mark.parametrize("seed", range(20))
def test_what_is_left_is_what_did_not_come_yet_in_order(seed):
    rng, came = random.Random(seed), []
    items = list(range(rng.randrange(1, 30)))
    parts = Parts(items)
    while part := parts.next():
        if rng.random() < 0.6 and parts.halve(part):
            assert came + parts.left() == items
            continue
        came += part
        assert came + parts.left() == items
    assert came == items
