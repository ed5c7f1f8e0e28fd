"""`serve --sweep`: the axis, the knee beyond the grid, saturation, what is printed and drawn."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from view_texts import printed

from windtunnel import api
from windtunnel.cli.main import run
from windtunnel.errors import BadInput
from windtunnel.quantities import three
from windtunnel.serving.sweeps.load_sweep import read_axis
from windtunnel.views.charts_serve_sweep import goodput_curve, load_curve
from windtunnel.views.serve_sweep import view
from windtunnel.views.serve_words import short
from windtunnel.writers import html

SCENARIO: dict[str, Any] = {
    "name": "small <b>",
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "serving": {
        "engine": "vllm",
        "engine_version": "0.10.0",
        "pools": [{"replicas": 1, "plan": {"tp": 1}, "limits": {"max_num_seqs": 64}}],
        "traffic": {"rate_per_s": 4, "num_requests": 400, "input_tokens": 800, "output_tokens": 100},
        "slo": {"ttft_s": 0.4, "tpot_s": 0.03},
    },
}


@pytest.fixture(scope="module")
def result() -> Any:
    return api.sweep_serving(SCENARIO, "rate=1..32", points=6)


def test_axes_are_read() -> None:
    assert read_axis("rate=1..16", 5).loads == (1.0, 2.0, 4.0, 8.0, 16.0)
    assert read_axis("rate=1..9", 5, linear=True).loads == (1.0, 3.0, 5.0, 7.0, 9.0)
    assert read_axis("concurrency=1..8", 9).loads == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    assert read_axis("concurrency=64, 8,8").loads == (8.0, 64.0)
    assert len(read_axis("time_scale=0.5..2").loads) == 9


@pytest.mark.parametrize(
    ("text", "points", "words"),
    [
        ("tp=1..4", None, "must be one of rate, concurrency, time_scale"),
        ("rate", None, "two ends"),
        ("rate=a..b", None, "two ends"),
        ("rate=0..4", None, "above 0"),
        ("rate=1..4", 1, "from 2 to 400"),
        ("rate=1,2", 4, "not with a list"),
        ("concurrency=1.5,2", None, "whole requests"),
        ("rate=1..inf", None, "above 0"),
    ],
)
def test_what_cannot_be_swept_is_said(text: str, points: int | None, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read_axis(text, points)


def test_traffic_without_the_axis_is_said() -> None:
    with pytest.raises(BadInput, match=r"time_scale.*with a trace alone"):
        api.sweep_serving(SCENARIO, "time_scale=1,2")


def test_the_knee_is_the_edge_of_the_objective(result: Any) -> None:
    assert [p.load for p in result.points] == list(read_axis("rate=1..32", 6).loads)
    knee = result.knee
    assert knee.result.slo_met and not knee.result.saturated
    assert knee.load < result.broken <= 1.0101 * knee.load
    for load, good in ((knee.load, True), (result.broken, False)):
        alone = api.simulate_serving(SCENARIO, overrides=[f"serving.traffic.rate_per_s={load!r}"])
        assert (alone.slo_met and not alone.saturated) is good
    assert result.best.result.goodput_requests_per_s == max(p.result.goodput_requests_per_s for p in result.tried)
    assert result.saturation is None or result.saturation > knee.load


def test_points_share_their_requests(result: Any) -> None:
    a, b = (
        api.simulate_serving(SCENARIO, overrides=[f"serving.traffic.rate_per_s={rate}"]).table["arrival_s"]
        for rate in (2, 4)
    )
    assert a == pytest.approx(2 * b)
    same = api.simulate_serving(SCENARIO, overrides=["serving.traffic.rate_per_s=1"])
    assert result.points[0].result.ttft_s == same.ttft_s


@pytest.mark.parametrize("axis", ["rate=0.5,1", "rate=500,1000"])
def test_the_knee_is_found_beyond_the_loads_asked_for(result: Any, axis: str) -> None:
    far = api.sweep_serving(SCENARIO, axis)
    assert far.knee.load == pytest.approx(result.knee.load, rel=0.025)
    assert len(far.points) == 2 and len(far.tried) > 8
    assert far.saturation == pytest.approx(result.saturation, rel=0.1)  # by counts of few requests


def test_an_objective_that_nothing_meets_has_no_knee() -> None:
    none = api.sweep_serving(SCENARIO, "rate=1,2", overrides=["serving.slo.ttft_s=1e-6"])
    assert none.knee is None and none.broken is not None and none.broken < 1
    assert none.to_dict()["knee"] is None


def test_closed_loops_end_at_a_whole_number() -> None:
    closed = api.sweep_serving(SCENARIO, "concurrency=1,4")
    assert closed.saturation is None and closed.knee.load == int(closed.knee.load)
    assert closed.broken == closed.knee.load + 1
    assert closed.points[1].result.running_mean <= 4.0 + 1e-9
    at = api.simulate_serving(SCENARIO, overrides=closed.as_overrides())
    assert at.ttft_s == closed.knee.result.ttft_s


def test_without_an_objective_the_knee_is_where_saturation_begins() -> None:
    free = api.sweep_serving(SCENARIO, "rate=4,8", overrides=["serving.slo={}"])
    assert not free.objective and free.saturation == free.broken and free.knee.load < free.saturation


def test_the_command_prints_a_table_and_writes_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, report = tmp_path / "s.yaml", tmp_path / "r.html"
    file.write_text(yaml.safe_dump(SCENARIO), encoding="utf-8")
    assert run(["serve", str(file), "--sweep", "rate=2..16", "--points", "3", "--report", str(report)]) == 0
    out = capsys.readouterr().out
    assert "knee" in out and "Best goodput" in out and "does not" in out
    assert len(out[out.index("rate/s") :].splitlines()) > 5
    text = re.sub(r"<script.*?</script>", "", report.read_text(encoding="utf-8"), flags=re.S)
    for title in ("Latency against load", "Goodput against load", "At the knee", "Users against devices", "Latencies"):
        assert title in text, title
    assert "small &lt;b&gt;" in text and "small <b>" not in text
    assert run(["serve", str(file), "--sweep", "rate=2,4", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [p["load"] for p in data["points"]] == [2, 4] and data["knee"]["slo_met"]
    assert {"broken_at", "saturation_at", "best_goodput", "scenario", "capacity", "runs"} <= set(data)
    assert run(["serve", str(file), "--sweep", "rate=2,4", "--requests", str(tmp_path / "x.csv")]) == 2


def test_eighty_columns_hold_one_table_of_loads(result: Any) -> None:
    lines = printed(view(result), 80, everything=False).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert sum(line.split()[:1] == ["rate/s"] for line in lines) == 1


def test_curves_mark_what_was_found(result: Any) -> None:
    words = {row.get("text") for c in load_curve(result).charts for one in c.layers for row in one.rows}
    assert f"knee {three(result.knee.load)}" in words and "objective 400 ms" in words
    upper = goodput_curve(result).charts[0]
    star = next(row for one in upper.layers for row in one.rows if row.get("series") == "best goodput")
    assert star["x"] == result.best.load
    at = api.simulate_serving(SCENARIO, overrides=result.as_overrides())
    assert html.render(view(result, at)).count('<figure class="chart') == 16


def test_short_times() -> None:
    assert [short(v) for v in (1234.0, 12.345, 0.9999, 0.1234, 1.5e-5)] == [
        "1,234 s",
        "12.3 s",
        "1 s",
        "123 ms",
        "15 µs",
    ]
