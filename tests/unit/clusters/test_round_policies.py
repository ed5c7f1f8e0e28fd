"""Policies of rounds: shares that can be given, optimal by what they promise, and rounds that waste nothing."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from windtunnel import api
from windtunnel.clusters.batch_growth import batches
from windtunnel.clusters.jobs import Growth
from windtunnel.clusters.ledger import Ledger
from windtunnel.clusters.result import ClusterResult
from windtunnel.clusters.round_policies import ROUND_POLICIES, Active
from windtunnel.clusters.round_policies._foresight import believed_s, foresee
from windtunnel.clusters.round_policies._isolated import isolated_speed
from windtunnel.clusters.round_policies.allox import first_on_devices
from windtunnel.clusters.round_policies.ossp import centre
from windtunnel.clusters.round_policies.shockwave import in_order
from windtunnel.clusters.round_policies.themis import log_gain
from windtunnel.clusters.throughputs import Throughputs, generate
from windtunnel.errors import BadInput
from windtunnel.specs.jobs import GenerateSpec


def _active(seed: int, jobs: int = 30, single: bool = False) -> Active:
    rng = np.random.default_rng(seed)
    speed = rng.uniform(0.1, 1.0, (jobs, 3)) * (rng.random((jobs, 3)) > 0.1)
    speed[:, 0] = 1.0
    devices = np.ones(jobs, np.int64) if single else rng.choice([1, 2, 4], jobs).astype(np.int64)
    _, speed_class = np.unique(np.column_stack([speed, devices]), axis=0, return_inverse=True)
    work = rng.uniform(1e3, 1e5, jobs)
    return Active(
        jobs=np.arange(jobs),
        devices=devices,
        speed=speed,
        counts=np.array([8, 4, 12]),
        kind=np.full(jobs, -1),
        left_s=work * rng.uniform(0.1, 1.0, jobs),
        work_s=work,
        age_s=rng.uniform(0, 1e4, jobs),
        speed_class=speed_class,
    )


def _shares(policy: str, active: Active) -> np.ndarray:
    return ROUND_POLICIES.get(policy).begin()(active)


@pytest.mark.parametrize("policy", ROUND_POLICIES.list())
def test_shares_can_be_given(policy: str) -> None:
    """No job runs more than all of the time or where it cannot, no kind gives more than it has."""
    entry = ROUND_POLICIES.get(policy)
    for seed in range(4):
        active = _active(seed, 6 if seed == 0 else 30, entry.single)
        shares = _shares(policy, active)
        assert (shares >= 0).all() and (shares.sum(axis=1) <= 1 + 1e-6).all()
        assert ((shares * active.devices[:, None]).sum(axis=0) <= active.counts * (1 + 1e-6)).all()
        assert shares[active.speed == 0].max() <= (1e-9 if entry.fixed or policy.endswith("_perf") else 1.0)
        if entry.fixed:
            assert np.isin(shares, (0.0, 1.0)).all()


def test_aware_fairness_keeps_the_sharing_incentive() -> None:
    """Everybody gets at least what an equal part of every kind would give (Gavel, section 4.1)."""
    for seed in range(5):
        active = _active(seed, single=True)
        got = (active.speed * _shares("max_min_fairness_perf", active)).sum(axis=1)
        assert (got >= isolated_speed(active, active.speed) * (1 - 1e-6)).all()


def test_the_makespan_is_least() -> None:
    """All ends at once; no job alone and no sum of work over devices could end later than that on the fastest kinds."""
    active = _active(3)
    shares = _shares("min_total_duration_perf", active)
    ends = active.left_s / (active.speed * shares).sum(axis=1)
    alone = (active.left_s / active.speed.max(axis=1)).max()
    assert ends.max() >= alone * (1 - 1e-6)
    equal = active.left_s / (active.speed * _shares("max_min_fairness", active)).sum(axis=1)
    assert ends.max() < equal.max()
    assert ends.min() == pytest.approx(ends.max(), rel=1e-4)


@pytest.mark.parametrize("policy", ["finish_time_fairness", "finish_time_fairness_perf"])
def test_the_worst_finish_time_ratio_is_least(policy: str) -> None:
    active = _active(5)
    speed = active.speed if policy.endswith("perf") else np.ones((len(active), 3))
    alone = active.left_s / isolated_speed(active, speed)

    def worst(name: str) -> float:
        rate = (speed * _shares(name, active)).sum(axis=1)
        return float(((active.age_s + active.left_s / np.maximum(rate, 1e-12)) / alone).max())

    others = ("max_min_fairness", "gandiva_fair", "min_total_duration_perf")
    assert all(worst(policy) <= worst(name) * (1 + 1e-3) for name in others)


def test_the_cost_policy_avoids_dear_devices() -> None:
    active = _active(6, 10, single=True)
    dear = Active(**{name: getattr(active, name) for name in Active.__slots__} | {"prices": np.array([50.0, 1.0, 1.0])})
    assert _shares("cost_perf", dear)[:, 0].sum() < _shares("cost_perf", active)[:, 0].sum()


def test_the_ledger_pays_who_had_least_and_remembers_debts() -> None:
    ledger, active = Ledger(2, 1, 10.0), np.arange(2)
    ledger.settle(active, np.array([[0.5], [0.5]]), 0.0)
    assert ledger.ranked(active, 0).tolist() == [0, 1]
    ledger.note(active[:1], np.zeros(1, np.int64), np.array([10.0]))
    assert ledger.ranked(active, 0).tolist() == [1, 0]
    ledger.settle(active, np.array([[0.5], [0.5]]), 10.0)  # accounts are level again, and job 1 is owed five seconds
    assert ledger.ranked(active, 0).tolist() == [1, 0]


TABLE = Throughputs("t.csv", {("v100", f"a (batch size {b})", 1): 1.0 for b in (1, 2)} | {("v100", "c", 1): 1.0})


def test_generated_jobs_are_those_of_the_published_generator() -> None:
    """Python's stream with seed + 2: devices, length, type; the first job arrives at 0."""
    jobs = generate(GenerateSpec(rate_per_hour=1.0, count=3, mix="gavel-single"), TABLE, "v100", 0)
    assert jobs.submit_s[0] == 0 and jobs.kinds[0].startswith(("a", "c"))
    # random.Random(2): 0.956, then 0.948 >= 0.8: a long job, of 10 ** uniform(3, 4) minutes from 0.0566
    assert jobs.work_s[0] == pytest.approx(60 * 10 ** (3 + 0.05655136772680869))


def test_batches_grow_as_the_modes_say() -> None:
    assert batches("ResNet-18", 64, 1, "gns", 100) == [(0, 64), (11, 128), (31, 256)]
    assert batches("LM", 10, 1, "accordion", 100) == [(0, 10), (10, 80)]
    assert batches("LM", 80, 1, "gns", 100) == [(0, 80)]
    assert batches("ResNet-50", 64, 1, "static", 100) == [(0, 64)]


def _run(folder: Path, lines: list[str], **jobs: object) -> ClusterResult:
    table = ["worker_type,job_type,gpus,steps_per_s"]
    table += [f"v100,LM (batch size {b}),{g},{r}" for b, r in ((40, 10.0), (80, 8.0)) for g in (1, 2)]
    (folder / "speeds.csv").write_text("\n".join(table) + "\n")
    header = "job_type,total_steps,scale_factor_gpus,batch_mode,duration_s,arrival_s"
    (folder / "trace.csv").write_text("\n".join([header, *lines]) + "\n")
    own = {"trace": str(folder / "trace.csv"), "format": "shockwave", "throughputs": str(folder / "speeds.csv")}
    price = {"price_per_device_hour": 2.0} if jobs.pop("priced", True) else {}
    cluster = {"device": "v100", "nodes": 1, "devices_per_node": 4} | price
    result = api.simulate_cluster({"cluster": cluster, "jobs": own | {"round_s": 60.0} | jobs})
    assert isinstance(result, ClusterResult)
    return result


def test_a_job_speeds_up_when_its_batch_grows(tmp_path: Path) -> None:
    """40 → 80 samples a step at 0.8 of the rate: 1.6 times as fast, but not before epoch 11."""
    steps = 1492 * 30
    ends = {
        mode: float(_run(tmp_path, [f"LM (batch size 40),{steps},1,{mode},1,0"], policy="max_min_fairness").end_s[0])
        for mode in ("static", "gns")
    }
    assert ends["static"] == pytest.approx(steps / 10 + 20)
    # the change is decided in epoch 9 or 10, and the epoch begun counts as done
    assert 20 + 1492 * (9 / 10 + 20 / 16) <= ends["gns"] <= 20 + 1492 * (11 / 10 + 20 / 16)


@pytest.mark.parametrize("policy", [p for p in ROUND_POLICIES.list() if not ROUND_POLICIES.get(p).single])
def test_no_device_idles_while_a_job_waits_that_fits(tmp_path: Path, policy: str) -> None:
    """One device a job: in every round all four run, until fewer than four jobs are left."""
    lines = [f"LM (batch size 40),{600 * (1 + j % 3)},1,static,{60 * (1 + j % 3)},0" for j in range(10)]
    result = _run(tmp_path, lines, policy=policy, start_overhead_s=0)
    short = float(sum(60 * (1 + j % 3) for j in range(10))) / 4
    assert result.makespan_s <= short + 180 + 60
    assert result.end_s.min() >= 60


def test_knobs_of_rounds_are_checked(tmp_path: Path) -> None:
    line = ["LM (batch size 40),600,1,static,1,0"]
    with pytest.raises(BadInput, match="did you mean 'reset_s'"):
        _run(tmp_path, line, policy={"max_min_fairness": {"resets": 3}})
    with pytest.raises(BadInput, match="run or wait"):
        _run(tmp_path, line, policy={"max_min_fairness": {"newcomers": "sleep"}})
    with pytest.raises(BadInput, match="positive"):
        _run(tmp_path, line, policy={"max_min_fairness": {"reset_s": -3}})


def test_allox_matches_for_the_least_sum_of_completion_times() -> None:
    """Against all orders of five jobs on one fast and one slow device."""
    rng = np.random.default_rng(2)
    for _ in range(10):
        seconds = rng.uniform(1, 10, (5, 2))
        chosen = first_on_devices(seconds, np.array([1, 1]))
        assert sorted(chosen[chosen >= 0].tolist()) == [0, 1]
        best, firsts = np.inf, set[tuple[int, int]]()
        for order in permutations(range(5)):
            for cut in range(1, 5):
                queues = (order[:cut], order[cut:])
                total = sum(float(np.cumsum(seconds[list(q), k]).sum()) for k, q in enumerate(queues))
                if total < best - 1e-9:
                    best, firsts = total, set()
                if total < best + 1e-9:
                    firsts.add((queues[0][0], queues[1][0]))
        assert (int(np.flatnonzero(chosen == 0)[0]), int(np.flatnonzero(chosen == 1)[0])) in firsts


def test_allox_refuses_gangs(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="one device each"):
        _run(tmp_path, ["LM (batch size 40),600,2,static,60,0"], policy="allox")


def test_the_cost_policy_asks_for_prices(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="without one: v100"):
        _run(tmp_path, ["LM (batch size 40),600,1,static,60,0"], policy="cost_perf", priced=False)


def test_themis_serves_whoever_is_treated_worst() -> None:
    """Jobs that waited long win over those that just came, and a job that a round would end gains most."""
    active = _active(7, 12, single=True)
    gain = log_gain(active)
    assert (gain >= -1e-12).all() and gain[active.speed == 0].max(initial=0.0) == 0
    ages = np.where(np.arange(12) < 4, 1e6, 1.0)
    values = {name: getattr(active, name) for name in Active.__slots__}
    shares = _shares("themis", Active(**values | {"age_s": ages, "counts": np.array([4, 0, 0])}))
    assert shares[:4, 0].sum() == 4


def test_shockwave_sees_batches_grow() -> None:
    """Half of the work goes twice as fast: three quarters of the seconds, if one looks ahead."""
    active = _active(8, 2, single=True)
    values = {name: getattr(active, name) for name in Active.__slots__}
    growth = Growth(
        trigger_s=np.array([[0.0, 500.0], [0.0, np.inf]]),
        speed=np.array([[1.0, 2.0], [1.0, 1.0]]),
        batch=np.ones((2, 2)),
        epoch_s=np.ones(2),
    )
    whole = {"work_s": np.full(2, 1000.0), "left_s": np.full(2, 1000.0), "speed": np.ones((2, 3)), "growth": growth}
    grows = Active(**values | whole)
    assert foresee(grows, "ahead").left_s.tolist() == [750.0, 1000.0]
    assert foresee(grows, "now").left_s.tolist() == [1000.0, 1000.0]
    half = Active(**values | whole | {"left_s": np.full(2, 250.0), "speed": np.array([[2.0] * 3, [1.0] * 3])})
    seen = foresee(half, "ahead")
    assert seen.left_s.tolist() == [125.0, 250.0]
    assert seen.done.tolist() == [750.0, 750.0] and seen.passed_s.tolist() == [625.0, 750.0]
    assert seen.epoch_s.tolist() == pytest.approx([(500 + 251 / 2) / 751, 1.0])


def test_shockwaves_belief_by_hand() -> None:
    """Four epochs, two of them with the first batch, then twice as fast. After three it has seen 2 and, with the one
    under way, 2: each batch weighs 2 + 2, two epochs of each are expected and have been seen, one is left for certain.
    """
    seconds, batch = np.array([10.0, 10.0, 5.0, 5.0]), np.array([0, 0, 1, 1])
    assert believed_s(seconds, batch, 3) == 0.0
    # at the start: weights 2 + 1 and 2, expected 2.4 and 1.6, one of the first batch seen: 1.4 and 1.6, of 4 left
    assert believed_s(seconds, batch, 0) == pytest.approx((1.4 * 10 + 1.6 * 5) * 4 / 4)


def test_shockwave_gives_what_its_plan_leaves_to_the_longest() -> None:
    """Job 3 needs all five rounds, 1 weighs more for its two than 4; 0 and 2 are owed nothing, and 2 has more left."""
    owed, weight = np.array([0.0, 2.0, 0.0, 5.0, 2.0]), np.array([9.0, 3.0, 1.0, 1.0, 1.0])
    left = np.array([100.0, 50.0, 900.0, 70.0, 2000.0])
    assert in_order(owed, weight, np.ones(5), 5, left).tolist() == [3, 1, 4, 2, 0]


def test_the_centre_keeps_every_bound() -> None:
    """Shares between what is needed and one; those that need least gain most; nothing is taken beyond the room."""
    least, devices = np.array([0.1, 0.5, 1.0]), np.array([1.0, 2.0, 1.0])
    shares = centre(least, devices, 3.5)
    assert (shares >= least - 1e-12).all() and (shares <= 1.0).all() and devices @ shares <= 3.5
    assert shares[0] - least[0] > shares[1] - least[1] > shares[2] - least[2] >= 0.0
    free = 3.5 - devices @ shares
    slope = 1 / shares[:2] + 1 / (shares[:2] - least[:2]) - 1 / (1 - shares[:2])
    assert slope == pytest.approx(devices[:2] / free, rel=1e-6)
