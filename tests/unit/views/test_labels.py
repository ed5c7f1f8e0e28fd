"""Labels of charts have room: nothing is cut by an axis or lies over what it names."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from windtunnel import api
from windtunnel.charts.chart import Axis
from windtunnel.clusters.result import ClusterResult
from windtunnel.runs import charts
from windtunnel.views.charts_cluster import gantt

CLUSTER = {"device": "v100-sxm-32gb", "nodes": 2, "devices_per_node": 4}


@pytest.mark.parametrize(("jobs", "named"), [(6, 6), (30, 15)])
def test_rows_of_jobs_have_their_names(tmp_path: Path, jobs: int, named: int) -> None:
    rows = [f"job-{i},{60 * i},4,600" for i in range(jobs)]
    (tmp_path / "trace.csv").write_text("\n".join(["job_id,submit_s,num_gpus,duration_s", *rows]) + "\n")
    result = api.simulate_cluster({"cluster": CLUSTER, "jobs": {"trace": str(tmp_path / "trace.csv")}})
    assert isinstance(result, ClusterResult)
    drawn = gantt(result)
    assert len(drawn.y.words) == len(drawn.y.ticks) == named and drawn.y.labels
    assert set(drawn.y.words) <= set(map(str, result.table.names))


def test_quantiles_of_days_stand_above_the_bars_and_inside_the_chart() -> None:
    bins = {"counts": [4, 20, 1], "edges_days": [10.0, 11.0, 12.0, 13.0]}
    run = SimpleNamespace(days_histogram=bins, days={"p10": 10.2, "p50": 11.4, "p90": 12.7}, replications=25)
    drawn = charts.distribution(run)
    assert drawn.y.high is not None and drawn.y.high >= 1.25 * 20
    marks = [one for one in drawn.spec(560)["layer"] if one.get("mark", {}).get("type") == "text"]
    assert [one["mark"]["align"] for one in marks] == ["left", "left", "right"]
    assert len({one["encoding"]["y"]["value"] for one in marks}) == 3


def test_names_before_bars_have_the_room_of_the_longest() -> None:
    axis = Axis(kind="band", names=("all", "lost progress")).channel(vertical=True)["axis"]
    assert axis["minExtent"] >= 6 * len("lost progress")
