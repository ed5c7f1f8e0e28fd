"""The harness that runs papers: in parallel, in order, with errors and interruptions told; what it writes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from windtunnel.cli.main import run as cli
from windtunnel.errors import BadInput
from windtunnel_lab import reproduce as papers
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce import run_papers as harness
from windtunnel_lab.reproduce import write_results as written
from windtunnel_lab.reproduce.claim_tables import markdown, tally
from windtunnel_lab.reproduce.figures import bars, beside, curve, limits, ratios
from windtunnel_lab.reproduce.run_papers import Interrupted, Outcome, run_papers
from windtunnel_lab.reproduce.settings import load

HIT = ClaimResult(
    id="dsi/never-slower",
    claim="at most | 1",
    published=1.0,
    simulated=1.0,
    low=0.9,
    high=1.1,
    within=True,
    assumptions=("a",),
    band="≤ 1",
    tier="A",
    holds="by construction",
    paper="dsi",
)
MISS = ClaimResult(
    id="dsi/smallest",
    claim="smallest",
    published=1.29,
    simulated=2.0,
    low=1.9,
    high=2.1,
    within=False,
    assumptions=("a", "missing: a queue"),
    paper="dsi",
)


@pytest.fixture(autouse=True)
def no_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """How long papers took is kept elsewhere."""
    monkeypatch.setattr(harness, "_COSTS", tmp_path / "costs.json")
    return tmp_path / "costs.json"


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Papers that take no time; one fails."""

    def run_paper(paper: str) -> list[ClaimResult]:
        if paper == "ets":
            raise ValueError("a\nbug")
        return [HIT, MISS]

    monkeypatch.setattr(harness, "run_paper", run_paper)


@pytest.mark.slow
def test_papers_run_side_by_side_and_give_what_they_give_alone() -> None:
    told: list[tuple[int, int]] = []
    chosen = ["pytorch_ddp", "dsi"]
    outcomes = run_papers(chosen, jobs=2, report=lambda done, total, waiting: told.append((done, total)))
    assert [one.paper for one in outcomes] == chosen
    assert told == [(0, 2), (1, 2), (2, 2)]
    assert list(outcomes[1].claims) == papers.run_paper("dsi")
    assert all(c.paper == one.paper for one in outcomes for c in one.claims) and outcomes[1].claims[0].band


def test_the_longest_of_last_time_goes_first(faked: None, no_memory: Path) -> None:
    no_memory.write_text(json.dumps({"dsi": 1, "kvshare": 100}))
    waited: list[list[str]] = []
    run_papers(["dsi", "flover", "kvshare"], report=lambda done, total, waiting: waited.append(list(waiting)))
    assert waited[0] == ["kvshare", "flover", "dsi"]
    assert set(json.loads(no_memory.read_text())) == {"dsi", "flover", "kvshare"}
    no_memory.write_text("not JSON")
    assert len(run_papers(["dsi"])) == 1


def test_a_paper_that_fails_does_not_take_the_others_with_it(faked: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["reproduce", "dsi", "ets", "--jobs", "1"]) == 1
    shown = capsys.readouterr()
    assert "internal error: ets: ValueError: a bug" in shown.err
    assert "1 of 2 claims of 1 papers within their bands, tier A 1 of 1, 1 of the first by construction" in shown.out
    assert "smallest: missing:" in shown.out and "a queue" in shown.out


def test_many_papers_take_a_line_each_and_all_claims_where_asked_for(
    faked: None, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = papers.list_papers()[:9]
    assert cli(["reproduce", *chosen, "--jobs", "1"]) == 0
    short = capsys.readouterr().out
    for paper in chosen:
        (line,) = [x for x in short.splitlines() if x.startswith(f"{paper} ")]
        assert "1 of 2" in line and line.rstrip().endswith("smallest")
    assert "a queue" not in short and "--full" in short and "9 of 18 claims of 9 papers" in short
    assert cli(["reproduce", *chosen, "--full", "--jobs", "1"]) == 0
    full = capsys.readouterr().out
    assert full.count("a queue") == 9 and "within \u00b9" in full and "\u00b9 by construction" in full


def test_an_interrupted_run_shows_what_it_had(
    faked: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def each(order: list[str], jobs: int, figures: bool) -> Any:
        yield harness.run_one(order[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(harness, "_each", each)
    with pytest.raises(Interrupted) as stopped:
        run_papers(["dsi", "flover"])
    assert [one.paper for one in stopped.value.done] == ["dsi"]
    assert cli(["reproduce", "dsi", "flover", "--json"]) == 130
    shown = capsys.readouterr()
    assert len(json.loads(shown.out)) == 2 and "stopped: 1 of 2 papers had run" in shown.err


def test_too_few_within_fail_a_gate_and_misses_alone_do_not(faked: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["reproduce", "dsi"]) == 0
    assert cli(["reproduce", "dsi", "--gate", "0.5"]) == 0
    assert cli(["reproduce", "dsi", "--gate", "0.6"]) == 4
    assert "below --gate 0.6" in capsys.readouterr().err


def test_ids_may_be_folders_catalogue_ids_or_techniques() -> None:
    assert papers.folders(["zero-bubble", "zb-h2", "megatron_3d"]) == ["zero_bubble", "megatron_3d"]
    assert papers.folders() == papers.list_papers()
    with pytest.raises(BadInput) as caught:
        papers.folders(["zero_buble", "selective-recompute"])
    text = str(caught.value)
    assert "did you mean 'zero_bubble'" in text and "has no experiment" in text


def test_papers_can_be_listed_without_running_any(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["reproduce", "--list", "--json"]) == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == papers.list_papers()


def test_what_is_written_can_be_read_again(faked: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "claims"
    assert cli(["reproduce", "dsi", "--out", str(target)]) == 0
    claims = json.loads((target / "claims.json").read_text("utf-8"))
    assert claims[1] == MISS.to_dict()
    text = (target / "dsi.md").read_text("utf-8")
    assert "| `never-slower` (tier A): at most \\| 1 | 1 | 1 | 0.9 to 1.1 | ≤ 1 | within by construction |" in text
    assert "* Missing behind `smallest`: a queue." in text and "* Assumed: a." in text
    summed = (target / "README.md").read_text("utf-8")
    assert "(dsi.md) | 1 of 2 | 1 of 1 |  | [figure](dsi.html) | `smallest` |" in summed
    assert (target / "dsi.html").exists()
    assert 1000 < (target / "claims.html").stat().st_size < 1_500_000 and not list(target.glob("*.js"))


def test_the_overview_shows_both_kinds_and_their_ranges() -> None:
    figure = written.overview([HIT, MISS])
    hit, miss = figure.bars
    assert (hit.series, miss.series) == ("within its band", "miss")
    assert miss.end == pytest.approx(2.0 / 1.29) and miss.high == pytest.approx(2.1 / 1.29)
    assert [bar.name for bar in figure.bars] == ["dsi never-slower", "dsi smallest"]


@pytest.mark.parametrize("paper", papers.list_papers())
def test_every_paper_says_what_it_is(paper: str) -> None:
    about = load(f"windtunnel_lab.papers.{paper}")["paper"]
    assert about["title"] and 2014 < about["year"] < 2030 and about["link"].startswith("https://")
    for claim in load(f"windtunnel_lab.papers.{paper}").get("claims", {}).values():
        assert claim.get("tier", "A") in ("A", "B")


def test_curves_show_published_points_where_the_paper_has_them_and_levels_where_it_says_up_to() -> None:
    line = curve((1, 2, 4), lambda x: 10.0 * x, {3.0: 25.0})
    figure = beside({"one": {"a": line, "b": curve((1, 2), float)}}, "x", "y", log_x=True, levels={"up to 9": 9.0})
    chart = figure.charts[0]
    simulated, _, published, other, _, without, rule, words = chart.layers
    assert [(row["x"], row["y"]) for row in simulated.rows] == [(1, 10.0), (2, 20.0), (4, 40.0)]
    assert published.mark["type"] == "point" and [(r["x"], r["y"]) for r in published.rows] == [(3.0, 25.0)]
    assert other.mark["type"] == "line" and not without.rows, "without published points no such marks"
    assert chart.x.words == ("1", "2", "3", "4")
    assert rule.rows[0]["y"] == 9.0 and words.rows[0]["text"] == "up to 9"


def drawn_lines(figure: Any) -> list[Any]:
    """Lines of all panels that hold points."""
    return [one for chart in figure.charts for one in chart.layers if one.mark["type"] == "line" and one.rows]


@pytest.mark.parametrize("paper", ["co2", "dsi", "flash_io_bound", "frontier_zero_topo", "qsdp", "tagc", "terngrad"])
def test_a_paper_draws_its_figure_where_it_ran(paper: str) -> None:
    """Cheap ones with lines of their own."""
    one = harness.run_one(paper, figure=True)
    lines = drawn_lines(one.figure)
    assert not one.error and lines and all(len(line.rows) > 2 for line in lines)


def test_text_of_claims() -> None:
    assert markdown([HIT]).count("\n") == 2
    assert tally([HIT, MISS, MISS], 2).startswith("1 of 3 claims of 2 papers within their bands, tier A 1 of 1")
    assert Outcome("dsi", (HIT, MISS), 1.0).within == 1


def test_papers_with_a_figure_draw_published_points_beside_simulated_lines() -> None:
    """Cheap ones; `reproduce --out` draws all."""
    from windtunnel_lab.papers.pytorch_ddp import experiment as ddp

    figure = ddp.plot([])
    lines = drawn_lines(figure)
    assert len(lines) == 3 and all(len(one.rows) > 3 for one in lines)
    slow, fast = lines[0].rows, lines[-1].rows
    assert all(a["y"] > b["y"] for a, b in zip(slow, fast, strict=True)), "a slower NIC takes longer"
    panel = beside({"one": {"a": [(1.0, 2.0, 3.0), (2.0, 4.0, 5.0)]}, "two": {"a": [(1.0, 2.0, 3.0)]}}, "x", "y")
    assert [chart.title for chart in panel.charts] == ["one", "two"]
    first = panel.charts[0].layers
    assert [row["y"] for row in first[0].rows] == [3.0, 5.0] and [row["y"] for row in first[2].rows] == [2.0, 4.0]


@pytest.mark.parametrize(
    ("band", "expected"),
    [
        ("10 to 20", (10.0, 20.0)),
        ("≥ 1.2, ≤ 1.32", (1.2, 1.32)),
        ("> 0, ≤ 55", (0.0, 55.0)),
        ("= 8", (8.0, 8.0)),
        ("< 2", (-math.inf, 2.0)),
        ("-1.1 to -0.9", (-1.1, -0.9)),
    ],
)
def test_bands_are_read_from_what_they_say(band: str, expected: tuple[float, float]) -> None:
    assert limits(replace(HIT, band=band)) == expected
    assert all(math.isnan(end) for end in limits(replace(HIT, band="")))


def test_claims_of_a_paper_without_figures_are_drawn_over_what_is_published() -> None:
    nothing = replace(MISS, id="dsi/none", published=0.0)
    below = replace(MISS, id="dsi/below", published=-1.0, simulated=-2.0, low=-2.5, high=-1.0)
    figure = ratios([HIT, MISS, nothing, below])
    by = {bar.name: bar for bar in figure.bars}
    assert by["never-slower (A)"].series == "within its band" and by["below"].series == "miss"
    assert by["smallest"].end == pytest.approx(2.0 / 1.29) and by["below"].end == pytest.approx(2.0)
    assert (by["below"].low, by["below"].high) == (pytest.approx(1.0), pytest.approx(2.5))
    texts = [bar.text for bar in figure.bars]
    assert "1 for 1" in texts and any(one.startswith("2 for 0,") for one in texts)


def test_bars_stand_beside_each_other_with_their_bands() -> None:
    figure = bars({"one": {"a": HIT, "b": MISS}}, "x")
    own = figure.charts[0].bars
    assert [bar.end for bar in own] == [1.0, 1.0, 1.29, 2.0]
    assert [bar.box for bar in own if bar.box] == [(0.0, 1.0)], "a claim without a band has no box"


@pytest.mark.parametrize("paper", [p for p in papers.list_papers() if "figure" in load(f"windtunnel_lab.papers.{p}")])
def test_figures_name_claims_of_their_paper(paper: str) -> None:
    setting = load(f"windtunnel_lab.papers.{paper}")
    assert not hasattr(papers.experiment_of(paper), "plot")
    for keys in setting["figure"]["bars"].values():
        assert set(keys.values()) <= set(setting["claims"])
