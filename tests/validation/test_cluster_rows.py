"""Published runs of schedulers against `windtunnel cluster` on the same traces; bands stood before the first run."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from windtunnel import api
from windtunnel.clusters.result import ClusterResult

DATA = Path(__file__).parents[3] / "shared" / "data" / "runs" / "schedulers"
pytestmark = [
    pytest.mark.validation,
    pytest.mark.skipif(not DATA.exists(), reason="the raw data are not beside the checkout"),
]
ROOM = {"device": "v100-sxm-32gb", "nodes": 8, "devices_per_node": 8}


def _muri(trace: str, policy: object) -> ClusterResult:
    jobs = {"trace": str(DATA / "muri" / f"{trace}.csv"), "format": "muri", "policy": policy}
    result = api.simulate_cluster({"cluster": ROOM, "jobs": jobs})
    assert isinstance(result, ClusterResult)
    return result


def _published(trace: str, policy: str) -> dict[str, float]:
    with (DATA / "muri" / "results_simulator.csv").open() as stream:
        (row,) = [r for r in csv.DictReader(stream) if (r["trace"], r["policy"]) == (trace, policy)]
    return {name: float(value) for name, value in row.items() if name.endswith("_s")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "trace,policy,name,band",
    [
        ("trace1", "srtf", "SRTF", 0.015),
        ("trace3", "srtf", "SRTF", 0.005),
        ("trace3_pr", "srtf", "SRTF", 0.005),
        ("trace1", "tiresias-l", "Tiresias-L", 0.10),
        ("trace3", "tiresias-l", "Tiresias-L", 0.10),
        ("trace3_pr", "tiresias-l", "Tiresias-L", 0.10),
        ("trace3", "muri-s", "Muri-S", 0.10),
    ],
)
def test_muris_simulator(trace: str, policy: str, name: str, band: float) -> None:
    wanted, result = _published(trace, name), _muri(trace, policy)
    assert result.jct_s.mean == pytest.approx(wanted["avg_jct_s"], rel=band)
    assert result.makespan_s == pytest.approx(wanted["makespan_s"], rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("trace", ["trace1", "trace3", "trace3_pr"])
def test_antman_in_muris_simulator(trace: str) -> None:
    """With its rule of time: an opportunistic iteration takes a whole number of the owner's; band 10 %."""
    result = _muri(trace, {"antman": {"whole_iterations": True}})
    assert result.jct_s.mean == pytest.approx(_published(trace, "AntMan")["avg_jct_s"], rel=0.10)


@pytest.mark.slow
def test_muris_cluster_of_64() -> None:
    """A real run: decisions once in 360 s, starts cost their overhead, iterations as they were profiled."""
    with (DATA / "muri" / "results_cluster.csv").open() as stream:
        published = {row["policy"]: float(row["avg_jct_s"]) for row in csv.DictReader(stream)}
    means = {}
    for policy, name in (("srtf", "SRTF"), ("tiresias-l", "tiresias"), ("muri-s", "Muri-S")):
        jobs = {"trace": str(DATA / "muri" / "cluster_trace.csv"), "format": "muri", "policy": policy}
        scenario = {"cluster": ROOM, "jobs": {**jobs, "round_s": 360, "overhead_at": "starts"}}
        result = api.simulate_cluster(scenario)
        assert isinstance(result, ClusterResult)
        means[name] = result.jct_s.mean
        assert result.jct_s.mean == pytest.approx(published[name], rel=0.10)
    assert sorted(means, key=lambda name: means[name]) == sorted(published, key=lambda name: published[name])
