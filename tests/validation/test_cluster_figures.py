"""Schedulers beside what was published of them; bands stand in the issue, nothing is fitted here."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from windtunnel import api
from windtunnel.clusters.result import ClusterResult

pytestmark = pytest.mark.validation
_FOUND = next(
    (place / "shared/data/runs/schedulers" for place in Path(__file__).parents if (place / "shared").is_dir()),
    None,
)
DATA = _FOUND or Path()
needs_data = pytest.mark.skipif(_FOUND is None or not _FOUND.is_dir(), reason="raw data not beside the checkout")


def _simulate(cluster: dict[str, object], jobs: dict[str, object]) -> ClusterResult:
    result = api.simulate_cluster({"cluster": cluster, "jobs": jobs})
    assert isinstance(result, ClusterResult)
    return result


@needs_data
@pytest.mark.parametrize(
    ("policy", "published"),
    [("max_min_fairness", "max_min_fairness"), ("gandiva_fair", "gandiva_fair"), ("ossp", "min_total_duration")],
)
def test_shockwave_120_jobs(policy: str, published: str) -> None:
    """Mean completion and makespan of 120 jobs on 32 V100 in rounds of 120 s, batches growing; band 5 %."""
    folder = DATA / "shockwave"
    runs = json.loads((folder / "results.json").read_text())
    (row,) = [r for r in runs if r["run"] == "simulation" and r["policy"] == published]
    jobs = {
        "trace": str(folder / "trace_120.csv"),
        "format": "shockwave",
        "throughputs": str(folder / "throughputs_isolated.csv"),
        "round_s": 120,
        "seed": 0,
        "policy": {policy: {"reset_s": 1000.0, "newcomers": "wait"}},
    }
    result = _simulate({"device": "v100", "nodes": 8, "devices_per_node": 4}, jobs)
    assert result.makespan_s == pytest.approx(row["makespan_s"], rel=0.05)
    spread = np.median((result.end_s - result.table.submit_s) / np.array(row["jct_list_s"]))
    assert spread == pytest.approx(1.0, abs=0.05)
    assert result.jct_s.mean == pytest.approx(row["avg_jct_s"], rel=0.05)


@needs_data
@pytest.mark.parametrize(
    ("policy", "jct_s", "makespan_s"),
    [
        ({"finish_time_fairness": {"reset_s": 1000.0, "newcomers": "wait"}}, 11302, 31929),
        ("shockwave", 9958, 24197),
    ],
)
def test_shockwave_other_policies(policy: object, jct_s: float, makespan_s: float) -> None:
    """As the pickles of `uw-mad-dash/shockwave` @ 8a44f4a (reproduce/pickles/tacc_32gpus) state them."""
    folder = DATA / "shockwave"
    jobs = {
        "trace": str(folder / "trace_120.csv"),
        "format": "shockwave",
        "throughputs": str(folder / "throughputs_isolated.csv"),
        "round_s": 120,
        "seed": 0,
        "policy": policy,
    }
    result = _simulate({"device": "v100", "nodes": 8, "devices_per_node": 4}, jobs)
    assert result.makespan_s == pytest.approx(makespan_s, rel=0.05)
    assert result.jct_s.mean == pytest.approx(jct_s, rel=0.05)


def _gavel(policy: str, generate: dict[str, object], seed: int = 0) -> ClusterResult:
    """On 36 V100, 36 P100 and 36 K80; the public generator draws the published jobs."""
    folder = DATA / "gavel"
    groups = [{"device": kind, "nodes": 9, "devices_per_node": 4} for kind in ("v100", "p100", "k80")]
    knobs = {"reset_s": 1920.0} if policy in ("fifo", "fifo_perf", "allox") else {"newcomers": "wait"}
    jobs = {
        "generate": generate,
        "throughputs": str(folder / "throughputs_isolated.csv"),
        "policy": {policy: knobs},
        "seed": seed,
    }
    return _simulate({"groups": groups}, jobs)


MIXES = {"single_gpu": "gavel-single", "multi_gpu": "gavel-multi"}


def _hours(policy: str, kind: str, rate: float) -> float:
    """Mean completion of jobs 4000 to 5000."""
    load = {"rate_per_hour": rate, "count": 5600, "measure": [4000, 5000], "mix": MIXES[kind]}
    return _gavel(policy, load).jct_s.mean / 3600


def _published(policy: str, kind: str) -> dict[float, float]:
    """Hours by jobs an hour, as printed in `continuous_jobs*.ipynb`."""
    with (DATA / "gavel" / "load_sweep.csv").open() as stream:
        return {
            float(row["jobs_per_hour"]): float(row["value"])
            for row in csv.DictReader(stream)
            if (row["trace_kind"], row["metric"], row["policy"]) == (kind, "avg_jct_h", policy)
        }


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "kind", "rate"),
    [
        ("fifo", "single_gpu", 4.0),
        ("max_min_fairness", "single_gpu", 4.0),
        ("max_min_fairness_perf", "single_gpu", 4.0),
        ("finish_time_fairness", "single_gpu", 4.0),
        ("fifo", "multi_gpu", 1.0),
        ("max_min_fairness", "multi_gpu", 2.0),
    ],
)
def test_gavel_below_its_knee(policy: str, kind: str, rate: float) -> None:
    """Mean completion within 15 %."""
    assert _hours(policy, kind, rate) == pytest.approx(_published(policy, kind)[rate], rel=0.15)


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        ("fifo", "single_gpu"),
        ("max_min_fairness", "single_gpu"),
        ("finish_time_fairness", "single_gpu"),
        ("fifo", "multi_gpu"),
        ("max_min_fairness", "multi_gpu"),
    ],
)
def test_gavels_knees(policy: str, kind: str) -> None:
    """The load at which the mean completion is 1.5 times that of the lowest published load is within 0.4 jobs/h."""
    curve = _published(policy, kind)
    rates = sorted(curve)
    limit = 1.5 * curve[rates[0]]
    above = next(i for i, rate in enumerate(rates) if curve[rate] >= limit)
    low, high = rates[above - 1], rates[above]
    knee = low + (high - low) * (limit - curve[low]) / (curve[high] - curve[low])
    assert _hours(policy, kind, knee - 0.4) < limit < _hours(policy, kind, knee + 0.4)


@needs_data
@pytest.mark.slow
def test_gavels_makespan() -> None:
    """200 gangs at once, mean of seeds 0 to 2: 161.2 h (`makespan.ipynb`)."""
    load = {"rate_per_hour": 1e9, "count": 200, "mix": "gavel-multi"}
    runs = [_gavel("min_total_duration_perf", load, seed).makespan_s / 3600 for seed in range(3)]
    assert np.mean(runs) == pytest.approx(161.164, rel=0.15)


ELASTIC = Path(__file__).parents[2] / "examples" / "cluster" / "elasticflow-a100.csv"


def _elasticflow(policy: str, devices: int, generate: dict[str, object], seed: int) -> ClusterResult:
    jobs = {
        "generate": {"rate_per_hour": 2.4, "mix": "elasticflow"} | generate,
        "throughputs": str(ELASTIC),
        "policy": policy,
        "seed": seed,
    }
    return _simulate({"device": "a100-sxm-80gb", "nodes": devices // 8, "devices_per_node": 8}, jobs)


@needs_data
def test_elasticflow_edf_job_by_job() -> None:
    """Figure 10: 100 jobs on 128 A100 under earliest deadline first; every end within half a minute of the table."""
    with (DATA / "elasticflow" / "fig10_jobs_edf.csv").open() as stream:
        rows = sorted(csv.DictReader(stream), key=lambda row: int(row["job_id"]))
    result = _elasticflow("elastic_edf", 128, {"count": 100, "deadline": [1.5, 1.5]}, 1)
    ends = np.array([float(row["end_s"]) for row in rows])
    met = np.mean([float(row["end_s"]) <= float(row["deadline_s"]) for row in rows])
    assert result.deadlines_met == pytest.approx(met, abs=0.05)
    assert result.end_s == pytest.approx(ends, abs=30)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "devices", "published"),
    [
        ("elastic_edf", 64, 0.026),
        ("elastic_edf", 128, 0.118),
        ("elasticflow", 64, 0.926),
        ("elasticflow", 128, 0.949),
        ("elasticflow", 256, 0.944),
    ],
)
def test_elasticflow_deadlines_met(policy: str, devices: int, published: float) -> None:
    """Figure 9: 1,000 jobs; band 0.05. EDF on 256 misses (below)."""
    assert _elasticflow(policy, devices, {"count": 1000}, 0).deadlines_met == pytest.approx(published, abs=0.05)


@pytest.mark.slow
@pytest.mark.xfail(strict=True, reason="0.214: the public code gives 0.229 (0.025, 0.135 on 64, 128), not its figure")
def test_elasticflow_edf_on_256() -> None:
    """Figure 9 prints the figure of 128 devices for 256 too; band 0.05."""
    assert _elasticflow("elastic_edf", 256, {"count": 1000}, 0).deadlines_met == pytest.approx(0.118, abs=0.05)


def _pollux(workload: int, policy: object, period_s: float = 60.0) -> float:
    """Mean completion time, s."""
    folder = DATA / "pollux"
    jobs = {"trace": str(folder / f"workload-{workload}.csv"), "format": "pollux", "applications": str(folder)}
    own = {"policy": policy, "round_s": period_s, "placement": "best_fit"}
    return _simulate({"device": "t4", "nodes": 16, "devices_per_node": 4}, jobs | own).jct_s.mean


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "pollux_s", "tiresias_s"), [(2, 3323, 5145), (4, 2721, 3280), (6, 2446, 3470), (8, 2952, 5080)]
)
def test_pollux_and_tiresias_on_its_workloads(workload: int, pollux_s: float, tiresias_s: float) -> None:
    """Pollux's simulator, 160 jobs on 16 nodes of four T4; band 10 %, and Pollux is the faster."""
    own = _pollux(workload, "pollux")
    other = _pollux(workload, {"tiresias-l": {"limits_device_s": [57600.0]}})
    assert own == pytest.approx(pollux_s, rel=0.10)
    assert other == pytest.approx(tiresias_s, rel=0.10)
    assert own < other


@needs_data
@pytest.mark.slow
def test_pollux_with_a_longer_period() -> None:
    """Figure 8b: eight minutes in place of one cost 22 % (mean of eight workloads; four of them here); band 10 %."""
    means = [np.mean([_pollux(w, "pollux", period) for w in (2, 4, 6, 8)]) for period in (480.0, 60.0)]
    assert means[0] / means[1] == pytest.approx(3354.18 / 2751.13, rel=0.10)


RESTARTS = Path(__file__).parents[2] / "examples" / "cluster" / "rsc-restarts.yaml"


def test_small_jobs_that_give_way_to_restarts() -> None:
    """RSC-1: 16 % of the lost device time; band 8 to 24, for the example's seed and for five seeds together."""
    lost = [api.simulate_cluster(RESTARTS, overrides=[f"jobs.seed={seed}"]) for seed in range(1, 6)]
    runs = [one.lost for one in lost if isinstance(one, ClusterResult)]
    shares = [one.restarts / (one.restarts + one.failures) for one in runs]
    together = sum(one.restarts for one in runs) / sum(one.restarts + one.failures for one in runs)
    assert 0.08 <= shares[0] <= 0.24
    assert 0.08 <= together <= 0.24
