"""The benchmark pages show what the last published runs measured, in units that a person reads."""

from __future__ import annotations

import argparse

import pytest
from benches import chart, pages, runs
from benches.pages import amount, count, rate, shares
from benches.parts import Parts
from benches.protocol import AtMostTimes, Below, Faster, Report, arguments, figure
from benches.runs import Figure, Run, Spread

RESULTS = sorted(pages.RESULTS.glob("*.json"))


def same(cost: float) -> Spread:
    return Spread(cost, cost, cost)


def test_the_search_finds_the_results():
    assert {"batch_queue", "core", "delayed", "hot_path"} <= {path.stem for path in RESULTS}


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_each_page_can_show_the_figures_of_its_json(path):
    page = (pages.PAGES / f"{path.stem}.md").read_text(encoding="utf-8")
    shown, run = pages.rendered(page, runs.read(path)), runs.read(path)
    assert f"benches/results/{path.stem}.json" in page and "load before" not in page
    assert [figure.name for figure in run.figures if f"### {figure.name}\n" not in shown] == []


def test_the_first_page_shows_the_headline_and_the_losses_of_each_published_run():
    published = {path.stem: runs.read(path) for path in RESULTS}
    page = chart.with_chart((pages.PAGES / "index.md").read_text(encoding="utf-8"), published.values())
    for title in chart.HEADLINES.keys() & published.keys():
        assert chart.escape(chart.HEADLINES[title]) in page and pages.losses(published[title]) in page, title
    assert page.count("<tr><td>drainq") >= len(chart.HEADLINES.keys() & published.keys()) > 8


@pytest.mark.parametrize("path", pages.STATED, ids=lambda path: path.stem)
def test_other_documents_state_the_figures_of_the_json(path):
    document = path.read_text(encoding="utf-8")
    assert "<!-- end of " in document
    assert pages.stated(document, runs.read(pages.RESULTS / "batch_queue.json")) == document


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_run_is_read_as_it_was_written(path, tmp_path):
    runs.write(runs.read(path), tmp_path / path.name)
    assert (tmp_path / path.name).read_text(encoding="utf-8") == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.000133, "s/message", "133 us"),
        (4.24e-8, "s/item", "42.4 ns"),
        (22601, "us", "22.6 ms"),
        (39.7, "cpu-ns/item", "39.7 ns"),
        (0.0009999, "s", "1 ms"),
        (0, "s", "0 s"),
        (0.00237, "% of a core", "0.00237 % of a core"),
        (1, "calls", "1 call"),
        (2, "calls", "2 calls"),
    ],
)
def test_an_amount_is_in_the_unit_that_reads_well(value, unit, text):
    assert amount(value, unit) == text


def test_counts_have_their_singular_and_rates_their_prefix():
    assert [count(1, "producer"), count(16, "producer")] == ["1 producer", "16 producers"]
    assert [rate(42.4e-9), rate(133e-6), rate(0.5)] == ["23.6 M", "7.52 k", "2"]


def test_a_table_has_a_row_for_each_contestant():
    one = Figure("put", "s/item", 5, {"drainq": same(1e-7), "rival": same(2e-7)}, [])
    rows = [line for line in pages.section(one).splitlines() if line.startswith("| ")]
    assert len(rows) == 4
    assert "<br>" not in "".join(rows)


def test_the_losses_name_missed_goals_and_cheaper_rivals_and_nothing_else():
    costs = {"drainq": [2e-6], "drainq, other way": [5e-7], "rival": [1e-6], "slow": [3e-6], "(limit)": [1e-9]}
    lost = figure("put", "s", costs, [Faster("drainq", "rival", 2), AtMostTimes("drainq", "slow", 1)])
    won = figure("get", "s", {"drainq": [1e-6], "rival": [2e-6]}, [Below("drainq", 1e-5)])
    text = pages.losses(Run("queue", {}, [lost, won]))
    assert text.splitlines() == [
        "**What drainq loses** (2 of 3 goals met):",
        "",
        "- Missed, *put*: drainq at least 2x as fast as rival; reached 0.50x (0.50x to 0.50x).",
        "- Cheaper, *put*: rival 1 us; drainq 2 us.",
    ]
    assert "nothing" in pages.losses(Run("queue", {}, [won]))


def options(tmp_path, *words: str) -> argparse.Namespace:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["bench", *words, "--out", str(tmp_path)])
        return arguments("test")


def test_a_quick_run_leaves_the_published_figures_alone(tmp_path):
    report = Report("core", options(tmp_path, "--quick"))
    report.add(figure("op: push", "ns/item", {"drainq": [1.0, 2.0, 3.0]}))
    before = (pages.RESULTS / "core.json").read_bytes()
    assert report.finish() == 0
    assert before == (pages.RESULTS / "core.json").read_bytes()
    assert runs.read(tmp_path / "core.json").figures == report.figures
    assert "| drainq" in (tmp_path / "core.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("machine", "against"),
    [
        ({"clean": False, "load_before": 0.1}, "uncommitted changes"),
        ({"clean": True, "load_before": 0.6}, "busy, with a load of 0.6"),
        ({"clean": True, "load_before": 0.5}, ""),
    ],
)
def test_figures_of_a_busy_machine_or_of_changed_sources_are_not_published(tmp_path, machine, against):
    report = Report("core", options(tmp_path))
    report.machine.update(machine)
    assert against in report.against_publishing() and bool(against) == bool(report.against_publishing())


def test_parts_of_one_commit_go_together_and_the_last_measurement_of_a_part_counts(tmp_path):
    def parts(commit="abc", load=1.0, clean=True):
        return Parts("t", ["a", "b"], {"commit": commit, "clean": clean, "load_before": load}, tmp_path)

    parts().keep("a", {"figure": {"ours": [9.0]}})
    parts(load=2.0).keep("a", {"figure": {"ours": [1.0]}})
    assert parts().missing() == ["b"]
    other = parts(commit="def")
    other.keep("b", {"figure": {"ours": [7.0]}})
    assert other.missing() == ["a"] and parts().missing() == ["b"]
    last = parts(load=1.5)
    last.keep("b", {"figure": {"ours": [3.0]}})
    assert last.missing() == [] and last.costs() == {"figure": {"ours": [1.0, 3.0]}} and last.load_before() == 2.0


def test_whole_figures_are_parts_too(tmp_path):
    parts = Parts("t", ["a", "b"], {"commit": "abc", "clean": True, "load_before": 1.0}, tmp_path)
    put, get = (figure(name, "s", {"drainq": [1.0, 2.0]}, [Below("drainq", 3.0)]) for name in ("put", "get"))
    parts.keep_figures("b", [get])
    assert parts.missing() == ["a"]
    parts.keep_figures("a", [put])
    again = Parts("t", ["a", "b"], {"commit": "abc", "clean": True, "load_before": 1.0}, tmp_path)
    assert again.missing() == [] and again.figures() == [put, get]


def test_parts_of_a_changed_tree_are_not_kept(tmp_path):
    parts = Parts("t", ["a"], {"commit": "abc", "clean": False, "load_before": 1.0}, tmp_path)
    parts.keep("a", {"figure": {"ours": [9.0]}})
    assert parts.missing() == [] and list(tmp_path.iterdir()) == []


def test_shares_are_shown_without_the_sign_of_a_factor():
    assert shares(["0.98x", "10.4x", "9.31x"]) == "0.98 to 10.4"
