"""Spot fleets: traces and their damaged lines, what is drawn from them, and runs that shrink and grow with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.runs.spot.availability import Availability
from windtunnel.runs.spot.formats import read_trace
from windtunnel.runs.spot.generated import generated
from windtunnel.runs.spot.market import Zones, market_of
from windtunnel.specs.run_spot import SpotRates

TRACES = Path(__file__).parents[4] / "shared/data/runs/preemptions"
DAY = 86400.0
SERIES = Availability(np.array([0.0, 100.0, 400.0, 900.0]), np.array([4, 7, 5, 7]), 1200.0)


def scenario(**run: Any) -> dict[str, Any]:
    return {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 8, "devices_per_node": 8},
        "training": {"seq_len": 8192, "global_batch": 128, "framework": "torchtitan"},
        "plan": {"zero": 3, "mbs": 1},
        "run": {
            "tokens": "20B",
            "failures": "none",
            "replications": 6,
            "recovery": {"policy": "shrink", "least_replicas": 0.25},
            **run,
        },
    }


@pytest.mark.skipif(not TRACES.is_dir(), reason="open rows are not there")
@pytest.mark.parametrize(
    ("name", "most", "reclaims", "hours"),
    [
        ("bamboo_p3-trace", 32, 79, 11.37),
        ("gcloud_a100x1-east1b", 64, 36, 27.02),
        ("parcae_gpt-1.5b_hh_55_65", 32, 9, 1),
    ],
)
def test_published_traces_are_read(name: str, most: int, reclaims: int, hours: float) -> None:
    there = read_trace(TRACES / f"{name}.csv")
    assert (there.level.max(), there.reclaims) == (most, reclaims)
    assert there.length_s / 3600 == pytest.approx(hours, abs=0.01)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "time_ms,event,node\n0,add,a\n5,add,a\n9,remove,b\n",
            "run.spot.trace = a: line 3 of t.csv adds a node that is there",
        ),
        (
            "time_ms,event,node\n0,add,a\n5,add,a\n9,remove,b\n",
            "run.spot.trace = b: line 4 of t.csv removes a node that is not there",
        ),
        ("time_ms,event,node\n9,add,a\n5,add,b\n", "line 3 of t.csv is before the line above"),
        ("time_ms,event,node\nx,add,a\n5,gone,b\n", "line 2 of t.csv needs a number of at least 0 in time_ms"),
        ("time_ms,event,node\nx,add,a\n5,gone,b\n", "line 3 of t.csv needs an event (add or remove) and a node"),
        ("timestamp,instances_held\nyesterday,3\n", "line 2 of t.csv needs an ISO date in timestamp"),
        (
            "time_ms,event,nodes,duration_ms\n0,add,2,60\n60,remove,3,60\n",
            "line 3 of t.csv removes 3 nodes where 2 are",
        ),
        ("hour,nodes\n0,3\n", "t.csv needs the columns of a format (bamboo: time_ms, event, node; gcloud:"),
    ],
)
def test_damaged_traces_are_named_line_by_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(BadInput) as caught:
        read_trace(path)
    assert said in str(caught.value)


def test_blocks_keep_the_time_at_each_level_and_the_rate_of_reclaims() -> None:
    drawn = SERIES.resampled(150.0, 400_000.0, np.random.default_rng(3))
    lasts = np.diff(drawn.at, append=drawn.length_s)
    for level, share in ((4, 100), (7, 600), (5, 500)):
        assert lasts[drawn.level == level].sum() / drawn.length_s == pytest.approx(share / 1200, abs=0.03)
    round_s = 1200.0  # one reclaim inside the series, one where it meets its beginning
    assert drawn.reclaims == pytest.approx(2 * drawn.length_s / round_s, rel=0.1)


def test_generated_fleets_have_the_share_of_a_birth_and_death_process() -> None:
    rates = SpotRates(reclaims_per_1000_node_hours=100.0, return_s=3600.0)
    there = generated(rates, 40, 4, 400 * DAY, np.random.default_rng(1))
    assert there.mean / 40 == pytest.approx(1 / (1 + 0.1), rel=0.01)


def test_neighbours_of_a_zone_go_together_and_the_fleet_repeats() -> None:
    fleet = Availability(np.array([0.0, 10.0, 20.0]), np.array([12, 9, 11]), 30.0)
    market = market_of(fleet, Zones(12, 3, 5), 30.0)
    gone = sorted(market.node[(market.at == 10.0) & ~market.comes].tolist())
    assert gone == list(range(gone[0], gone[0] + 3)) and gone[0] // 4 == gone[-1] // 4
    there: set[int] = set()
    levels = []
    for at, node, comes in [*zip(market.at, market.node, market.comes, strict=True)] * 2:
        (there.add if comes else there.discard)(int(node))
        levels.append((float(at), len(there)))
    assert dict(levels)[0.0] == 12 and dict(levels)[10.0] == 9 and dict(levels)[20.0] == 11


def test_a_fleet_that_never_shrinks_is_the_run_on_demand() -> None:
    calm = api.simulate_run(scenario(spot={"rates": {"reclaims_per_1000_node_hours": 0}}), sensitivities=False)
    assert calm.spot is not None and calm.spot["reclaims"] == 0
    assert calm.days["mean"] == pytest.approx(calm.spot["on_demand"]["days"], rel=1e-9)
    assert calm.cost == pytest.approx(0.4 * calm.spot["on_demand"]["cost"], rel=1e-9)


def test_reclaims_cost_days_and_nodes_that_are_gone_cost_nothing() -> None:
    spot = {"rates": {"reclaims_per_1000_node_hours": 100, "return_s": "2 h"}, "price_per_device_hour": 1.0}
    result = api.simulate_run(scenario(spot=spot), sensitivities=False)
    assert result.spot is not None and result.spot["reclaims"] > 0
    assert result.days["mean"] > result.spot["on_demand"]["days"]
    assert result.spot["nodes_in_job"] <= result.spot["nodes_held"] < 8
    assert result.cost == pytest.approx(result.spot["nodes_held"] * 8 * result.days["mean"] * 24, rel=1e-6)
    assert result.badput["degraded_steps"] > 0


def test_below_the_least_replicas_the_job_waits(tmp_path: Path) -> None:
    lines = ["0,add,8,3600000", "3600000,remove,7,3600000", "7200000,add,7,3600000"]
    (tmp_path / "t.csv").write_text("time_ms,event,nodes,duration_ms\n" + "\n".join(lines) + "\n", "utf-8")
    path = tmp_path / "s.json"
    path.write_text(json.dumps(scenario(spot={"trace": "t.csv", "draw": "replay"})), "utf-8")
    result = api.simulate_run(path, sensitivities=False)
    rounds = result.days["mean"] * 24 / 3
    assert result.seconds["wait_for_nodes"] / 3600 == pytest.approx(rounds, abs=1.0)
    assert result.seconds["degraded"] == 0.0


def test_a_save_within_the_notice_loses_nothing() -> None:
    rates = {"reclaims_per_1000_node_hours": 100}
    lost = [
        api.simulate_run(scenario(spot={"rates": rates, "notice_s": s}), sensitivities=False).seconds["lost_progress"]
        for s in (0, 600)
    ]
    assert lost[1] == 0.0 < lost[0]


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ({"spot": {}}, "needs one of `trace` and `rates`"),
        ({"spot": {"trace": "no.csv"}}, "run.spot.trace = no.csv: cannot be read: No such file"),
        (
            {"spot": {"rates": {}}, "recovery": {"pool_nodes": 2}},
            "run.recovery.pool_nodes = 2: must be 0 with run.spot",
        ),
    ],
)
def test_what_cannot_be_is_one_line(run: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as caught:
        api.simulate_run(scenario(**run), sensitivities=False)
    assert said in str(caught.value)
