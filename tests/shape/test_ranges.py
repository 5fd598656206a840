"""A published ratio is shown with its range over the last published runs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import pytest
from benches import pages, ranges, runs
from benches.protocol import AtMostTimes, Below, Report, figure
from benches.runs import Earlier, Figure, Run


def machine(day: int, commit: str | None = None, clean: bool = True) -> Mapping[str, Any]:
    return {"commit": commit or f"c{day}", "at": f"2026-01-{day:02}T08:00:00Z", "clean": clean}


def put(reached: float, name: str = "put", most: float = 1.0) -> Figure:
    """Return a figure with a goal that is a ratio and one that is not."""
    costs = {"drainq": [reached] * 3, "rival": [1.0] * 3}
    return figure(name, "s", costs, [AtMostTimes("drainq", "rival", most), Below("drainq", 9.0)])


def published(*reached: float) -> Run:
    """Publish one run a day, and return the last."""
    run = None
    for day, one in enumerate(reached, 1):
        run = ranges.following(Run("queue", machine(day), [put(one)]), run)
    assert run is not None
    return run


def test_a_run_keeps_what_the_last_four_before_it_reached_the_last_first():
    run = published(0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    assert run.earlier == [Earlier(f"c{day}", f"2026-01-{day:02}T08:00:00Z") for day in (5, 4, 3, 2)]
    assert list(run.figures[0].verdicts[0].earlier.values()) == ["0.90x", "0.80x", "0.70x", "0.60x"]


def test_the_first_run_and_a_goal_that_is_no_ratio_have_no_range():
    assert ranges.over_runs(published(0.5).figures[0].verdicts[0]) == "" == ranges.summary(published(0.5))
    below = published(0.5, 0.6).figures[0].verdicts[1]
    assert below.reached == "600 ms" and not below.earlier and ranges.over_runs(below) == ""


@pytest.mark.parametrize("changed", [put(0.8, name="get"), put(0.8, most=0.9)], ids=["figure", "goal"])
def test_a_goal_that_is_changed_starts_a_range_of_its_own(changed):
    run = ranges.following(Run("queue", machine(3), [changed]), published(0.5, 0.6))
    assert not run.figures[0].verdicts[0].earlier
    again = ranges.following(Run("queue", machine(4), [changed]), run)
    assert list(again.figures[0].verdicts[0].earlier) == ["2026-01-03T08:00:00Z"]


def test_a_range_goes_from_the_least_to_the_greatest_number():
    assert ranges.over_runs(published(10.4, 9.31, 1204.0).figures[0].verdicts[0]) == "over 3 runs 9.31x to 1,204x"


def test_parts_that_are_measured_again_replace_the_run_of_their_commit():
    former, now = published(0.5, 0.6), Run("queue", machine(3, commit="c2"), [put(0.9)])
    assert [one.commit for one in ranges.following(now, former, again=True).earlier] == ["c1"]
    assert [one.commit for one in ranges.following(now, former).earlier] == ["c2", "c1"]


def test_a_run_with_uncommitted_changes_is_in_no_range():
    former = ranges.following(Run("queue", machine(2, clean=False), [put(0.1)]), published(0.5))
    run = ranges.following(Run("queue", machine(3), [put(0.9)]), former)
    assert list(run.figures[0].verdicts[0].earlier.values()) == ["0.50x"]


def test_the_page_lists_the_ratios_that_did_not_come_back():
    one, two = published(0.8, 0.9, 0.88), put(0.5, "get")
    former = Run("queue", machine(3), [*one.figures, two], one.earlier)
    run = ranges.following(Run("queue", machine(4), [put(0.88), put(0.6, "get")]), former)
    assert ranges.summary(run).splitlines() == [
        "**Over the last published runs** (this one, c3 of 2026-01-03 08:00 UTC, c2 of 2026-01-02 08:00 UTC, "
        "c1 of 2026-01-01 08:00 UTC): 1 of 2 ratios differ by at most 15 % between them. Read the others as ranges:",
        "",
        "| figure | goal | this run | all runs |",
        "| --- | --- | --: | --: |",
        "| get | drainq at most 1x the cost of rival | 0.60x | 0.50x to 0.60x |",
    ]
    assert ranges.summary(published(0.9, 0.8)).endswith("1 of 1 ratios differ by at most 15 % between them.")


def test_a_goal_shows_its_range_beside_the_rounds_of_the_run():
    run = published(0.9, 1.2)
    assert "- drainq at most 1x the cost of rival: 1.20x (1.20x to 1.20x; over 2 runs 0.90x to 1.20x), **missed**" in (
        pages.section(run.figures[0])
    )
    assert "reached 1.20x (1.20x to 1.20x; over 2 runs 0.90x to 1.20x)." in pages.losses(run)


def test_publishing_again_moves_the_former_run_into_the_range(tmp_path, monkeypatch):
    for name in ("RESULTS", "PAGES"):
        monkeypatch.setattr(pages, name, tmp_path)
    monkeypatch.setattr(pages, "RENDERED", tmp_path / "rendered")
    monkeypatch.setattr(pages, "STATED", ())
    (tmp_path / "queue.md").write_text(f"{pages.BEGIN}\n{pages.END}\n", encoding="utf-8")
    for day, reached in ((1, 0.7), (2, 0.9)):
        options = argparse.Namespace(quick=False, only="", rounds=None, out=None)
        report = Report("queue", options)
        report.machine = {"processor": "x", "cores": 2, "load_before": 0.1, **machine(day)}
        report.add(put(reached))
        report.finish()
    kept = runs.read(tmp_path / "queue.json")
    assert kept.earlier == [Earlier("c1", "2026-01-01T08:00:00Z")]
    assert "over 2 runs 0.70x to 0.90x" in (tmp_path / "rendered" / "queue.md").read_text(encoding="utf-8")


def test_a_document_states_the_range_over_the_runs_beside_that_of_the_last(monkeypatch):
    monkeypatch.setattr(pages, "CHEAPEST", "the cost of")
    run = published(0.7, 0.9, 0.8)
    named = Run("batch_queue", run.machine, run.figures, run.earlier)
    text = pages.stated("takes <!-- bounded --><!-- end of bounded --> times", named)
    assert text == (
        "takes <!-- bounded -->0.80 to 0.80 (over the last 3 published runs 0.70 to 0.90)<!-- end of bounded --> times"
    )
