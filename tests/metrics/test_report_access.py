"""The page with a screen reader, on a phone, and in the dark."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pygal")

from drainq.metrics.report import write_report

from .test_report import fill


class Page(HTMLParser):
    """Notes each element with its attributes and its ancestors, and the texts of some."""

    VOID = frozenset({"meta", "path", "use", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], tuple[str, ...]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), tuple(name for name, _ in self._open)))
        if tag not in self.VOID:
            self._open.append((tag, dict(attrs).get("class") or ""))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), tuple(name for name, _ in self._open)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self._open.pop()[0] == tag

    def handle_data(self, data):
        if self._open:
            self.texts.setdefault(self._open[-1][0], []).append(data)

    def of(self, tag):
        return [(attributes, above) for name, attributes, above in self.elements if name == tag]


@pytest.fixture
def text(database, tmp_path):
    path = tmp_path / "report.html"
    write_report(database, path, fill(database))
    return path.read_text(encoding="utf-8")


def test_the_page_has_a_language_a_title_and_one_main_part_that_holds_everything(text):
    page = Page(text)
    assert page.of("html")[0][0]["lang"] == "en"
    assert page.texts["title"][0] == "Service metrics"
    assert len(page.of("main")) == len(page.of("h1")) == 1
    inside = [above for tag in ("h1", "h2", "svg", "table") for _, above in page.of(tag)]
    assert len(inside) > 8 and all("main" in above for above in inside)


def test_each_plot_is_an_image_with_a_name(text):
    plots = [attributes for attributes, _ in Page(text).of("svg")]
    assert len(plots) == 5
    assert all(plot["role"] == "img" for plot in plots)
    assert len({plot["aria-label"] for plot in plots}) == 5
    assert "Requests and errors over time" in {plot["aria-label"] for plot in plots}


def test_each_table_has_a_caption_and_each_head_a_scope(text):
    page = Page(text)
    assert len(page.of("table")) == len(page.of("caption")) == 6
    heads = page.of("th")
    assert len(heads) == 30 and all(attributes["scope"] == "col" for attributes, _ in heads)


def test_on_a_phone_what_is_wide_scrolls_by_itself_and_can_be_reached_by_keyboard(text):
    page = Page(text)
    (viewport,) = (each for each, _ in page.of("meta") if each.get("name") == "viewport")
    assert viewport["content"] == "width=device-width, initial-scale=1"
    regions = [attributes for attributes, _ in page.of("div") if attributes.get("class") == "wide"]
    assert len(regions) == len(page.of("svg")) + len(page.of("table"))
    assert all(region["tabindex"] == "0" and region["role"] == "region" and region["aria-label"] for region in regions)
    assert ".wide { overflow-x: auto; }" in text


def luminance(colour: str) -> float:
    digits = colour * 2 if len(colour) == 3 else colour
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("ground", ["page", "tile"])
@pytest.mark.parametrize("ink", ["ink", "soft"])
def test_text_has_contrast_by_day_and_in_the_dark(text, ink, ground):
    """At least 4.5 to 1, as WCAG 2.1 asks for text of this size."""
    pages = [dict(re.findall(r"--(\w+): #(\w+);", block)) for block in re.findall(r":root {([^}]*)}", text)]
    assert 'name="color-scheme" content="light dark"' in text
    assert len(pages) == 2 and "@media (prefers-color-scheme: dark)" in text
    for colours in pages:
        light, dark = sorted((luminance(colours[ink]), luminance(colours[ground])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_a_plot_brings_the_ground_that_its_text_is_read_on(text):
    """The page is dark in the dark, so a plot without a ground of its own has dark text on it."""
    plots = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(plots) == 5
    for plot in plots:
        [ground] = re.findall(r"#chart-[\w-]+{background-color:(?:#(\w+))?", plot)
        inks = set(re.findall(r"text[\w.-]*{[^}]*fill:#(\w+)", plot))
        assert ground and inks
        assert min((luminance(ground) + 0.05) / (luminance(ink) + 0.05) for ink in inks) >= 4.5
