"""Elastic jobs: devices that are there, deadlines that are kept once promised, load that adds up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from windtunnel import api
from windtunnel.clusters.elastic_policies import ELASTIC_POLICIES, Running
from windtunnel.clusters.elastic_policies.elasticflow import minimum_shares
from windtunnel.clusters.result import ClusterResult
from windtunnel.clusters.throughputs import read_throughputs
from windtunnel.errors import BadInput

TABLE = Path(__file__).parents[3] / "examples" / "cluster" / "elasticflow-a100.csv"


def _running(seed: int, jobs: int = 20) -> Running:
    rng = np.random.default_rng(seed)
    sizes = np.array([1, 2, 4, 8])
    rate = sizes ** rng.uniform(0.3, 1.0, (jobs, 1)) * np.where(rng.random((jobs, 1)) < 0.2, [1, 1, 1, 0], 1)
    left = rng.uniform(100, 5000, jobs)
    return Running(
        jobs=np.arange(jobs),
        sizes=sizes,
        rate=rate,
        left_s=left,
        due_s=left * rng.uniform(0.3, 4, jobs),
        devices=24,
        slot_s=60.0,
        level=np.full(jobs, -1),
        age_s=np.zeros(jobs),
        restarts=np.zeros(jobs),
        overhead_s=np.zeros(jobs),
    )


@pytest.mark.parametrize("policy", ELASTIC_POLICIES.list())
def test_levels_can_be_given_and_waste_nothing(policy: str) -> None:
    for seed in range(5):
        running = _running(seed)
        levels = ELASTIC_POLICIES.get(policy).start()(running)
        on = levels >= 0
        used = int(running.sizes[levels[on]].sum())
        assert used <= running.devices
        assert (running.rate[np.flatnonzero(on), levels[on]] > 0).all()
        assert used == running.devices or on.all()


def test_minimum_shares_by_hand() -> None:
    """Two jobs of 400 s, due in 200 and 400 s: one needs two devices at once, the other one."""
    two = Running(
        jobs=np.arange(2),
        sizes=np.array([1, 2, 4]),
        rate=np.array([[1.0, 2.0, 4.0]] * 2),
        left_s=np.array([400.0, 400.0]),
        due_s=np.array([200.0, 400.0]),
        devices=4,
        slot_s=100.0,
        level=np.full(2, -1),
        age_s=np.zeros(2),
        restarts=np.zeros(2),
        overhead_s=np.zeros(2),
    )
    kept, levels = minimum_shares(two, np.arange(2))
    assert kept and levels.tolist() == [1, 0]
    late = Running(**{name: getattr(two, name) for name in Running.__slots__} | {"due_s": np.array([50.0, 400.0])})
    kept, levels = minimum_shares(late, np.arange(2))
    assert not kept and levels[0] == -1


def _simulate(policy: object, count: int = 60, **jobs: object) -> ClusterResult:
    own = {
        "generate": {"rate_per_hour": 2.4, "count": count, "mix": "elasticflow"},
        "throughputs": str(TABLE),
        "policy": policy,
        "seed": 1,
    }
    cluster = {"device": "a100-sxm-80gb", "nodes": 8, "devices_per_node": 8}
    result = api.simulate_cluster({"cluster": cluster, "jobs": own | jobs})
    assert isinstance(result, ClusterResult)
    return result


@pytest.mark.parametrize("policy", ELASTIC_POLICIES.list())
def test_the_room_is_never_overfull(policy: str) -> None:
    result = _simulate(policy, round_s=600)
    assert result.load.busy.max() <= 64
    assert np.isfinite(result.end_s).all()
    assert 0 < result.utilisation <= 1


def test_an_overhead_longer_than_a_slot_is_lost_whole() -> None:
    """One job whose devices change: its segments, less what each change costs, are its whole work."""
    one = {"generate": {"rate_per_hour": 2.4, "count": 1, "mix": "elasticflow"}}
    run = _simulate("pollux", round_s=60, start_overhead_s=600, **one)
    own, table = run.table, read_throughputs(TABLE).steps_per_s
    kind = next(worker for worker, job, _ in table if job == own.kinds[0])
    changes = np.flatnonzero(np.diff(run.load.busy, prepend=0))
    begins, held = run.load.time_s[changes], run.load.busy[changes]
    useful = np.maximum(np.diff(begins) - 600, 0)
    speed = [table[kind, own.kinds[0], int(n)] / table[kind, own.kinds[0], int(own.devices[0])] for n in held[:-1]]
    assert useful @ np.array(speed) == pytest.approx(own.work_s[0], rel=1e-6)
    assert len(useful) > 1


def test_admission_keeps_more_deadlines_than_greed() -> None:
    assert (_simulate("elasticflow").deadlines_met or 0) > (_simulate("elastic_edf").deadlines_met or 0) + 0.3


def test_deadlines_are_drawn_between_their_bounds() -> None:
    generate = {"rate_per_hour": 2.4, "count": 30, "mix": "elasticflow", "deadline": [1.5, 1.5]}
    table = _simulate("elastic_edf", generate=generate).table
    assert table.deadline_s is not None
    assert table.deadline_s == pytest.approx(table.submit_s + 1.5 * table.work_s, abs=1.0)
    with pytest.raises(BadInput, match="deadline"):
        _simulate("elastic_edf", generate=generate | {"deadline": [2, 1]})


def test_what_elastic_policies_need_is_said() -> None:
    with pytest.raises(BadInput, match="has no knobs"):
        _simulate({"elasticflow": {"a": 1}})
    with pytest.raises(BadInput, match="not simulated with policies of elastic jobs"):
        _simulate("elasticflow", outages={"per_node_day": 0.1})


def test_devices_beyond_what_work_takes_are_told_apart() -> None:
    """Alone on eight devices a job runs on all of them, at less than eight times the speed of one."""
    table = read_throughputs(TABLE)
    name = "vgg16 (batch size 64)"
    one, eight = (table.steps_per_s["a100-sxm-80gb", name, n] for n in (1, 8))
    jobs = {
        "generate": {"rate_per_hour": 1, "count": 1, "mix": "elasticflow"},
        "throughputs": str(TABLE),
        "policy": "elastic_edf",
        "seed": 7,
    }
    result = api.simulate_cluster(
        {"cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 8}, "jobs": jobs}
    )
    assert isinstance(result, ClusterResult)
    told, lost = result.table, result.lost
    stated = float(told.work_s[0] * told.devices[0]) / 3600
    held = float(result.makespan_s) * 8 / 3600
    assert lost.useful == pytest.approx(min(stated, held)) and lost.standing == 0.0
    assert lost.scaling == pytest.approx(max(held - stated, 0.0)) and lost.scaling > 0
    assert lost.held == pytest.approx(held) and one < eight < 8 * one
