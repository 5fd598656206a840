"""The page as Chromium draws it: on a phone and on a desk, by day and in the dark."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from urllib.parse import unquote

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pygal")

from drainq.metrics.report import write_report

from .test_report import fill

NAMES = ("chromium", "chromium-browser", "chrome-headless-shell", "google-chrome")
LOOK = """<script>
const parts = text => text.match(/[\\d.]+/g).map(Number);
const linear = part => part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4;
const luminance = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
const ground = each => {
  for (; each; each = each.parentElement) {
    const colour = parts(getComputedStyle(each).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  throw new Error("no ground");
};
const texts = [];
for (const each of document.querySelectorAll("main *")) {
  const style = getComputedStyle(each), hasText = [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim());
  if (!hasText || !each.getClientRects().length || !each.checkVisibility({opacityProperty: true})) continue;
  const ink = parts(each instanceof SVGElement ? style.fill : style.color);
  const [light, dark] = [luminance(ink), luminance(ground(each))].sort((a, b) => b - a);
  texts.push([(light + 0.05) / (dark + 0.05), each.tagName, each.textContent.slice(0, 40)]);
}
const wide = [...document.querySelectorAll(".wide")].map(each => [each.clientWidth, each.scrollWidth]);
const dark = matchMedia("(prefers-color-scheme: dark)").matches, page = document.documentElement.scrollWidth;
parent.postMessage(JSON.stringify({texts, wide, dark, page, width: innerWidth}), "*");
</script>"""
FRAME = """<!DOCTYPE html><meta charset="utf-8"><meta name="color-scheme" content="light dark"><pre></pre><script>
addEventListener("message", told => document.querySelector("pre").textContent = "found:" + encodeURIComponent(told.data));
</script><iframe src="page.html" width="WIDTH" height="900" style="border: 0"></iframe>"""
"""A window of Chromium has at least 500 points, a frame in it may have fewer."""


@pytest.fixture(scope="module")
def chromium():
    found = next(filter(None, map(shutil.which, NAMES)), None)
    return found or pytest.skip(f"no Chromium is on the PATH: none of {', '.join(NAMES)}")


@pytest.fixture
def drawn(chromium, database, tmp_path):
    """Return what a page of some width has when it is drawn. The script is added to it, so its policy is left out."""
    write_report(database, tmp_path / "report.html", fill(database))
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    text, policies = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    assert policies == 1
    (tmp_path / "page.html").write_text(text.replace("</body>", f"{LOOK}</body>"), encoding="utf-8")

    def draw(width, *, dark):
        (tmp_path / "frame.html").write_text(FRAME.replace("WIDTH", str(width)), encoding="utf-8")
        done = subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={tmp_path}/profile",
             "--window-size=1300,1000", f"--blink-settings=preferredColorScheme={0 if dark else 1}",
             "--virtual-time-budget=5000", "--dump-dom", (tmp_path / "frame.html").as_uri()],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        found = re.search("found:([^<]+)", done.stdout)
        assert found, done.stdout[:500] + done.stderr[-2000:]
        shown = json.loads(unquote(found[1]))
        assert (shown["dark"], shown["width"]) == (dark, width)
        return shown

    return draw


@pytest.mark.system  # a browser is started
@pytest.mark.parametrize("dark", [False, True], ids=["by day", "in the dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_each_text_can_be_read_and_the_page_is_no_wider_than_the_screen(drawn, width, dark):
    """At least 4.5 to 1, as WCAG 2.1 asks for text of this size."""
    shown = drawn(width, dark=dark)
    assert len(shown["texts"]) > 100 and {"TD", "BUTTON", "H1", "text", "CAPTION"} <= {
        tag for _, tag, _ in shown["texts"]
    }
    assert min(shown["texts"])[0] >= 4.5
    assert shown["page"] == width
    assert len(shown["wide"]) == 11 and any(inner > outer for outer, inner in shown["wide"]) == (width == 400)
