"""The example that forwards partial aggregates to one aggregator: its books are exact, with a task that fails."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "spark_to_aggregator.py"


@pytest.fixture
def example():
    from pyspark.cloudpickle import register_pickle_by_value

    spec = importlib.util.spec_from_file_location("spark_to_aggregator", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["spark_to_aggregator"] = module
    spec.loader.exec_module(module)
    register_pickle_by_value(module)
    return module


def test_what_executors_forward_is_added_up_once_although_an_attempt_fails_after_it_sent(example, spark):
    aggregator, stats, sent = example.run(spark, 5_000, 4)
    assert aggregator.counts == Counter(n % example.KEYS for n in range(5_000))
    assert sent == 4 * example.KEYS and aggregator.dropped == example.KEYS
    assert (stats.received, stats.handled, stats.failed, stats.refused) == (5 * example.KEYS, 5 * example.KEYS, 0, 0)


def test_an_attempt_whose_messages_are_not_all_there_is_not_added_up(example):
    aggregator = example.Aggregator()
    aggregator([{"attempt": "a", "key": 1, "n": 2}])
    with pytest.raises(ValueError, match="not all messages are there: {'a': 2}"):
        aggregator.take({"a": 2})
    assert not aggregator.counts
