"""What `plan` shows: the HTML file, figures that agree with the search, words while it runs."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from windtunnel import api
from windtunnel.cli.main import run
from windtunnel.cli.output import telling
from windtunnel.cli.plan_progress import stopped_words, words
from windtunnel.planner.analysis.stability import Edge, Resource, Stability
from windtunnel.planner.bounds.forked_screen import can_copy
from windtunnel.planner.objectives import METRICS
from windtunnel.planner.result import Progress, Stopped
from windtunnel.quantities import quantity
from windtunnel.views import charts_plan as charts
from windtunnel.views.plan import view
from windtunnel.views.plan_labels import nodes_words, plan_words, table_names
from windtunnel.views.view import plain
from windtunnel.writers import html

SCENARIO: dict[str, Any] = {
    "name": "small <b>",
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 16, "framework": "nemo"},
    "search": {
        "objective": ["step_time", "memory_headroom"],
        "limits": {"memory_fraction": 0.95},
        "space": {
            "tp": [2, 4],
            "pp": [1, 2],
            "cp": [1],
            "mbs": [1],
            "vpp": [1, 2],
            "device": ["h100-sxm-80gb", "a100-sxm-80gb"],
        },
    },
}
TOLD = Stability(
    {"tp": 2, "pp": 1, "cp": 1, "ep": 1, "dp": 4},
    (
        Resource("scale-up bandwidth", 450e9, "bytes/s", Edge(0.6, 0.58, {"tp": 4, "pp": 2}), Edge(8.0, None, None)),
        Resource("device memory", 80 * 2.0**30, "bytes", Edge(0.9, 0.88, None), Edge(1.0, 1.04, {"tp": 1})),
    ),
    12,
)


@pytest.fixture(scope="module")
def result() -> Any:
    return replace(api.plan(SCENARIO, explain=True), stability=TOLD)


def test_the_report_is_one_file_that_says_everything(result: Any) -> None:
    text = html.render(view(result))
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", outside)
    assert "small &lt;b&gt;" in outside and "small <b>" not in outside
    for title in (
        "Pareto front",
        "Time against memory",
        "Best of every tp and pp",
        "Simulated plans",
        "Why not another layout",
        "What limits cost",
        "step time of every cluster",
        "stays the best",
        "Proof",
        "memory_fraction 0.95",
        "nothing fits",
        "Scenario of the best plan",
    ):
        assert title in outside, title
    assert outside.count('<figure class="chart') == 4


def test_what_limits_cost_names_its_space_and_plans_that_fit_stand_first(result: Any) -> None:
    shown = {section.title: section for section in view(result).sections}
    assert all(axis in shown["What limits cost"].hint for axis in result.searched)
    names = [column.name for column in shown["Simulated plans"].blocks[0].columns]
    fits = [plain(row[names.index("fits")]) for row in shown["Simulated plans"].blocks[0].rows]
    out = [cell == "no" or cell.startswith("breaks") for cell in fits]
    assert out == sorted(out)
    lines = [plain(line) for line in shown["Proof"].blocks[0].lines]
    (can_vary,) = [line for line in lines if line.startswith("Not searched, though it can vary")]
    assert "search.space.zero" in can_vary


def test_figures_show_what_the_search_found(result: Any) -> None:
    why = result.why
    heat = charts.heat(why)
    shown = {cell.text.strip("≥ ") for cell in heat.grid}
    assert f"{result.best.step_time_s:.2f}" in shown and len(heat.grid) == len(why.cells)
    bold = sum(cell.bold for cell in heat.grid)
    assert bold == sum(c.simulated_s is not None for c in why.cells) == sum(bool(c.frame) for c in heat.grid) > 0
    memory = charts.memory(result)
    floor = next(one.rows for one in memory.layers if one.mark["type"] == "line")
    star = next(row for one in memory.layers for row in one.rows if row.get("series") == "fastest")
    below = [row["y"] for row in floor if row["x"] <= star["x"]]
    assert min(below) <= star["y"] == result.best.step_time_s
    heights = [row["y"] for row in floor]
    assert heights == sorted(heights, reverse=True)
    points = charts.front(result).layers[-1].rows
    assert len(points) == len(result.front) > 1
    assert [(bar.start, bar.end) for bar in charts.stability(TOLD).bars] == [(0.6, 8.0), (0.9, 1.0)]


def test_a_front_over_three_objectives_has_colours() -> None:
    three = {**SCENARIO["search"], "objective": ["step_time", "memory_headroom", "energy_per_million_tokens"]}
    figure = charts.front(api.plan({**SCENARIO, "search": three}))
    assert all("third" in row for row in figure.layers[-1].rows)
    assert figure.layers[-1].encoding["color"]["legend"]["title"].startswith("energy per million tokens")
    assert figure.x.title == "step time, s (less is better)"
    assert figure.y.title == "memory headroom, GiB (more is better)"


def test_tables_name_what_differs(result: Any) -> None:
    names, shared = table_names(result.frontier)
    assert not set(names) & set(shared)
    assert shared["cp"] == 1 and "tp" in [*names, *shared]


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = tmp_path / "s.yaml", tmp_path / "r.html"
    path.write_text(yaml.safe_dump({**SCENARIO, "search": {"space": {"tp": [2], "pp": [2], "vpp": [1]}}}))
    assert run(["plan", str(path), "--html", str(page)]) == 0
    assert "Fastest as simulated" in capsys.readouterr().out and "Recommended" in page.read_text("utf-8")
    assert run(["plan", str(path), "--html", str(path)]) == 2


def test_words_while_it_runs() -> None:
    early = words(Progress(candidates=5000, screened=5000, simulated=0, best=None, next_bound=None, elapsed_s=2.0))
    assert early == "5,000 screened, 2,500 a second"
    late = words(Progress(candidates=5000, screened=5000, simulated=7, best=10.0, next_bound=9.9, elapsed_s=4.0))
    assert late == "5,000 screened, 7 simulated, best 10.0 s, gap 1.00 %"
    assert "gap 0.00 %" in words(
        Progress(candidates=5000, screened=5000, simulated=7, best=10.0, next_bound=10.1, elapsed_s=4.0)
    )
    assert "gap 1.00 %" in words(
        Progress(
            candidates=5, screened=5, simulated=7, best=100.0, next_bound=101.0, elapsed_s=4.0, objective="tokens_per_s"
        )
    )
    assert "none of these keeps" in stopped_words(Stopped(5000, 5000, 3))
    for early_stop in (KeyboardInterrupt(), Stopped(5000, 0, 0)):
        assert "none was simulated yet" in stopped_words(early_stop)
    assert (
        words(Progress(candidates=5000, screened=0, simulated=0, best=None, next_bound=None, elapsed_s=0.1))
        == "screening 5,000 plans"
    )
    assert (
        words(Progress(candidates=5000, screened=1000, simulated=0, best=None, next_bound=None, elapsed_s=0.5))
        == "1,000 of 5,000 screened, 2,000 a second"
    )


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (30 * 86400.0, "s", "30 d"),
        (5e10, "bytes/s", "50 GB/s"),
        (80 * 2.0**30, "bytes", "80.0 GiB"),
        (0.95, "share", "0.95"),
        (9.894e14, "FLOP/s", "989 TFLOP/s"),
        (64.0, "", "64"),
        (78636.2, "money", "$78,600"),
        (5e5, "W", "500 kW"),
        (71234.0, "1/s", "71,200 /s"),
    ],
)
def test_quantities(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


def test_every_metric_has_words() -> None:
    assert all(quantity(12345.6, m.unit) for m in METRICS.values())
    assert plan_words({"tp": 8, "pp": 1, "recompute": {"policy": "full"}}) == "tp 8 · pp 1 · recompute full"


def test_a_process_may_be_copied_while_progress_is_drawn() -> None:
    before = can_copy()
    with telling("planning"):
        assert can_copy() == before
    other = threading.Thread(target=threading.Event().wait, args=(0.5,))
    other.start()
    assert not can_copy()
    other.join()


def test_clusters_of_a_search_are_counted_in_nodes() -> None:
    assert nodes_words(1, "h100-sxm-80gb") == "1 node of h100-sxm-80gb"
    assert nodes_words(16, "h100-sxm-80gb") == "16 nodes of h100-sxm-80gb"


def test_a_search_shows_itself_in_a_notebook(result: Any) -> None:
    shown = result._repr_html_()
    assert "best plan" in shown and f"{result.proof.candidates:,} candidates" in shown and "<figure" in shown
    assert "plans simulated; best <" in repr(result)
