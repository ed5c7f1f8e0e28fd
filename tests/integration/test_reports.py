"""Every HTML report: small, whole without a network, in both themes, with the result's numbers, on a phone's screen."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from windtunnel.quantities import gib, percent, seconds
from windtunnel.views.serve_words import short

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SMALL = ("--set", "serving.traffic.num_requests=400")
SERVE = "examples/serving/llama3-70b-4xh100.yaml"
VERBS = {
    "train": ("train", "examples/llama3-70b-64xh100.yaml"),
    "train-large": ("train", "examples/llama3-405b-16384xh100.yaml"),
    "reason": ("reason", "examples/reasoning/best-of-n.yaml"),
    "does-not-fit": ("train", "examples/does-not-fit-70b-8xh100.yaml"),
    "compare": ("compare", "examples/llama3-8b-8xh100-fsdp.yaml", "--set", "plan.recompute=full"),
    "serve": ("serve", SERVE, *SMALL),
    "split": ("serve", "examples/serving/split-llama3-70b-16xh100.yaml", *SMALL),
    "sweep": ("serve", SERVE, "--sweep", "rate=1,2,4", *SMALL),
    "compare-serving": ("compare", SERVE, "--set", "serving.pools[0].plan.tp=8", *SMALL),
    "plan": ("plan", "examples/search/llama3-70b-64xh100.yaml"),
    "plan-serving": ("plan", "examples/search/serving-llama3-8b-devices.yaml", *SMALL),
    "advise": ("advise", "examples/llama3-8b-8xh100-fsdp.yaml"),
}
WITH_JSON = {"train", "serve", "compare"}
MOST_BYTES = 1_500_000


@dataclass(frozen=True)
class Report:
    """A report that a verb wrote."""

    path: Path
    data: dict[str, object]

    @property
    def page(self) -> str:
        return self.path.read_text("utf-8")

    @property
    def has_charts(self) -> bool:
        """Whether it has charts; the way from one step to another is bars of a table."""
        return self.path.stem != "compare"

    @property
    def said(self) -> str:
        """Its text without scripts and styles."""
        return html.unescape(re.sub(r"<(script|style).*?</\1>", "", self.page, flags=re.S))


@pytest.fixture(scope="module", params=VERBS)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Report:
    path = tmp_path_factory.mktemp("reports") / f"{request.param}.html"
    command = [sys.executable, "-m", "windtunnel.cli.main", *VERBS[request.param], "--report", str(path)]
    command += ["--json"] if request.param in WITH_JSON else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return Report(path, json.loads(done.stdout) if request.param in WITH_JSON else {})


def test_it_is_small_and_fetches_nothing(report: Report) -> None:
    assert report.path.stat().st_size < MOST_BYTES
    outside = re.sub(r"<script.*?</script>", "", report.page, flags=re.S)
    assert not re.search(r"""(?:src|href|url\()\s*=?\s*["'(]?\s*(?:https?:)?//""", outside)
    assert "fetch(" not in report.page and "XMLHttpRequest" not in report.page and "@import" not in report.page


def test_it_has_both_themes_and_takes_the_keyboard(report: Report) -> None:
    assert "prefers-color-scheme:dark" in report.page and 'id="theme"' in report.page and "@media print" in report.page
    figures = re.findall(r'<figure class="chart [^>]*>', report.page)
    assert bool(figures) is report.has_charts
    assert all('tabindex="0"' in one and 'aria-label="' in one for one in figures)


def test_its_numbers_are_those_of_the_result(report: Report) -> None:
    data = report.data
    if "breakdown" in data:
        assert seconds(data["step_time_s"]) in report.said and percent(data["mfu"]) in report.said
        assert all(gib(size) in report.said for size in data["memory"]["at_peak"].values() if size > 0)
        shares = [100 * value / data["step_time_s"] for value in data["breakdown"].values()]
        shares = [share for share in shares if share >= 0.05]  # smaller classes of time have no line
        assert all(f">{share:.1f} %<" in report.page for share in shares)
    elif "ttft_s" in data:
        for name in ("p50", "p99", "mean"):
            assert all(short(data[key][name]) in report.said for key in ("ttft_s", "tpot_s", "e2e_s"))
    elif "step_time_ratio" in data:
        change = abs(100 * (data["step_time_ratio"] - 1))
        assert f"{change:.1f} %" in report.said


_MEASURE = """<!doctype html><body style="margin:0"><iframe style="width:%dpx;height:900px;border:0"></iframe><script>
const frame = document.querySelector("iframe");
frame.onload = () => setTimeout(() => {
  const page = frame.contentDocument, wide = page.documentElement.clientWidth, out = [];
  page.querySelectorAll("main *").forEach((e) => {
    const box = e.getBoundingClientRect();
    if (box.width && box.right > wide + 1 && !e.closest(".wide, pre")) out.push(e.tagName + Math.round(box.right));
  });
  const found = { wide, scroll: page.documentElement.scrollWidth, out: out.slice(0, 5), drawn: [],
    ground: getComputedStyle(page.body).backgroundColor, ink: getComputedStyle(page.body).color };
  page.querySelectorAll("figure.chart").forEach((f) =>
    found.drawn.push([...f.children].filter((d) => d.getClientRects().length).length));
  document.title = "measured"; document.body.innerHTML = "<pre id=found>" + JSON.stringify(found) + "</pre>";
}, 1500);
frame.srcdoc = %s;
</script></body>"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no browser; scripts/install-browser")
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_it_fits_the_screen_in_both_themes(report: Report, width: int, tmp_path: Path) -> None:
    grounds = set()
    for theme in ("light", "dark"):
        page = report.page.replace('<html lang="en">', f'<html lang="en" data-theme="{theme}">')
        frame = tmp_path / f"{theme}.html"
        frame.write_text(_MEASURE % (width, json.dumps(page).replace("</", "<\\/")), "utf-8")
        found = measured(frame, tmp_path)
        assert width - 20 <= found["wide"] <= width, "a scroll bar at most"
        assert found["scroll"] <= found["wide"] and found["out"] == [], theme
        assert set(found["drawn"]) == ({1} if report.has_charts else set()), "each chart shows the drawing that suits"
        assert contrast(found["ground"], found["ink"]) > 7
        grounds.add(found["ground"])
    assert len(grounds) == 2


_MOST_SHEETS = {"advise": 6}
"""Sheets of A4 of reports with long tables; all others have four at most."""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no browser; scripts/install-browser")
def test_it_prints_on_few_sheets_with_the_colours_of_its_legends(report: Report, tmp_path: Path) -> None:
    sheets = tmp_path / "sheets.pdf"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={tmp_path / 'profile'}"]
    command = ["chromium", *flags, "--virtual-time-budget=4000", f"--print-to-pdf={sheets}", f"file://{report.path}"]
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b(?!s)", sheets.read_bytes())) <= _MOST_SHEETS.get(report.path.stem, 4)
    printed = re.findall(r"@media print\s*{(.*?)}\s*}", report.page, re.S)
    assert any(re.search(r"\*\s*{[^}]*[^-]print-color-adjust: exact", one + "}") for one in printed)


def measured(frame: Path, folder: Path) -> dict[str, object]:
    """What the script of a page found."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    flags += ["--disable-component-update", "--disable-sync", f"--user-data-dir={folder / 'profile'}"]
    flags += ["--virtual-time-budget=8000", "--window-size=1400,1000", "--dump-dom"]
    command = ["chromium", *flags, f"file://{frame}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stdout[-500:]
    return dict(json.loads(html.unescape(found[1])))


def contrast(a: object, b: object) -> float:
    """Contrast of two colours as the web's accessibility guidelines (WCAG 2, section 1.4.3) define it."""

    def light(colour: object) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", str(colour))[:3]]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(a), light(b)))
    return (high + 0.05) / (low + 0.05)
