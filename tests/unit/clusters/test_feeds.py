"""Rows of nodes that share a feed: locks act late and on low priority first, brakes come, jobs and fleets slow down."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from windtunnel import api, catalog
from windtunnel.clusters.result import ClusterResult
from windtunnel.cost.clock import KERNEL_LIMIT, board_j_per_flop, cap_of_lock, power_limit
from windtunnel.cost.coefficients import coefficients
from windtunnel.errors import BadInput

DEVICE = "a100-sxm-80gb"
CLUSTER = {"device": DEVICE, "nodes": 2, "devices_per_node": 4}
EXAMPLES = Path(__file__).parents[3] / "examples"
FSDP = EXAMPLES / "llama3-8b-8xh100-fsdp.yaml"


def _run(tmp_path: Path, power: dict[str, object] | None, rows: list[str], **jobs: object) -> ClusterResult:
    (tmp_path / "trace.csv").write_text("\n".join(["submit_s,num_gpus,duration_s,priority", *rows]) + "\n")
    own = {"trace": str(tmp_path / "trace.csv"), "idle_watts_per_device": 50, "job_watts_per_device": 400, **jobs}
    result = api.simulate_cluster({"cluster": CLUSTER, "jobs": own | ({} if power is None else {"power": power})})
    assert isinstance(result, ClusterResult)
    return result


def _speed(lock: float) -> float:
    """Of a job of which nothing is known but its watts."""
    device = catalog.device(DEVICE)
    found = coefficients("generic", device)
    return cap_of_lock(device, found, lock) / cap_of_lock(device, found, 1.0)


def test_a_lock_binds_where_power_does_not_hold_the_clock_below_it() -> None:
    device = catalog.device(DEVICE)
    found = coefficients("generic", device)
    nominal = power_limit(device, found, 400.0)
    for lock in (0.3, 0.5, 0.787, 1.0):
        rate = cap_of_lock(device, found, lock) / (board_j_per_flop(device, found) * device.peak("bf16"))
        assert rate == pytest.approx(min(nominal, KERNEL_LIMIT * lock))


def test_locks_by_hand(tmp_path: Path) -> None:
    """8 devices of 400 W are 0.94 of 3,400 W: low priority goes to 0.787 after 40 s, and high priority stays.

    Each class has a node. After the lock the row draws 1,600 W and 4 × (50 + 350 s), s the speed at that clock: between
    0.84 and 0.89, so that nothing is taken back and nothing more is locked.
    """
    slow = _speed(0.787)
    assert 0.84 < (1600 + 4 * (50 + 350 * slow)) / 3400 < 0.89
    result = _run(tmp_path, {"limit": 3400.0}, ["0,4,100,0", "0,4,100,1"])
    assert result.feeds is not None and result.feeds.rows[0].peak_w == 3200.0 and result.feeds.rows[0].brakes == 0
    assert result.end_s.tolist() == pytest.approx([40 + 60 / slow, 100.0])
    assert result.feeds.high.slowdown == 1.0
    assert result.feeds.low.slowdown == pytest.approx((40 + 60 / slow) / 100)
    assert result.lost.capped == pytest.approx(4 * (60 / slow - 60) / 3600, rel=1e-6)


def test_the_brake_by_hand(tmp_path: Path) -> None:
    """3,200 W on a feed of 3,000: after 5 s everything runs at 0.3 of the clock, and 40 s later it goes on."""
    power = {"limit": 3000.0, "caps": False}
    result = _run(tmp_path, power, ["0,8,100,0"])
    feeds, slow = result.feeds, _speed(0.3)
    assert feeds is not None and 8 * (50 + 350 * slow) < 0.84 * 3000
    # 45 s give 5 + 40 s × slow; then again
    cycle = 5 + 40 * slow
    whole = int(100 // cycle)
    left = 100 - whole * cycle
    ends = whole * 45 + (left if left <= 5 else 5 + (left - 5) / slow)
    assert result.end_s[0] == pytest.approx(ends)
    assert feeds.brakes == whole + (left > 5)
    assert feeds.rows[0].seconds_braked == pytest.approx(40 * whole + max(ends - 45 * whole - 5, 0))


def test_feeds_that_carry_everything_change_nothing(tmp_path: Path) -> None:
    rows = ["0,4,100,0", "5,8,50,1", "7,2,30,0", "9,1,500,2"]
    free = _run(tmp_path, None, rows, policy="priority")
    fed = _run(tmp_path, {"limit": 1e6, "nodes_per_row": 1}, rows, policy="priority")
    assert fed.end_s.tolist() == free.end_s.tolist()
    assert fed.feeds is not None and len(fed.feeds.rows) == 2 and fed.feeds.seconds_capped == 0.0
    assert fed.energy_kwh == pytest.approx(free.energy_kwh) and fed.power_w == pytest.approx(free.power_w)
    assert fed.lost.capped == 0.0 and fed.to_dict()["feeds"]["low_priority"]["jobs"] == 2


def test_a_job_on_two_rows_is_as_slow_as_its_slower_one(tmp_path: Path) -> None:
    """The row of node 0 is above its thresholds by itself, that of node 1 is not: a job on both is locked as well."""
    rows = ["0,3,1000,1", "0,5,1000,0"]
    own = {"placement": "best_fit"}
    both = _run(tmp_path, {"limit": 1500.0, "nodes_per_row": 1, "brake_after": 1000}, rows, **own)
    wide = both.end_s[1]
    assert wide > 1000 and both.feeds is not None and both.feeds.low.slowdown > 1.0


def test_watts_beside_the_devices(tmp_path: Path) -> None:
    """A node of 4 × 400 W and 1,000 W beside them, half of which is constant."""
    power = {"oversubscribed": 0.0, "beside_devices": 1000.0, "caps": False}
    result = _run(tmp_path, power, ["0,4,100,0"])
    assert result.feeds is not None
    (row,) = result.feeds.rows
    assert row.limit_w == 2 * 2600.0
    assert row.peak_w == pytest.approx(1600 + 200 + 2 * 500 + 500 * (1800 / 1600), abs=1)


def test_jobs_with_scenarios_slow_down_less_than_their_clock(tmp_path: Path) -> None:
    """A step waits for memory and links too, so that a lock costs it less than the clock's share; watts fall."""
    cluster = {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8}
    (tmp_path / "trace.csv").write_text(f"submit_s,num_gpus,scenario,steps\n0,8,{FSDP},100\n")
    jobs = {"trace": str(tmp_path / "trace.csv")}
    free = api.simulate_cluster({"cluster": cluster, "jobs": jobs | {"power": {"limit": 1e6}}})
    tight = {"limit": 3000.0, "delay": 1, "brake_after": 86400, "first_clock": 0.5, "second_clock": 0.5}
    locked = api.simulate_cluster({"cluster": cluster, "jobs": jobs | {"power": tight}})
    assert isinstance(free, ClusterResult) and isinstance(locked, ClusterResult)
    assert 1.05 < locked.makespan_s / free.makespan_s < 1.0 / _speed(0.5) + 1.0
    assert free.feeds is not None and locked.feeds is not None
    assert locked.feeds.rows[0].mean_w < 0.95 * free.feeds.rows[0].mean_w
    assert free.feeds.rows[0].peak_w >= free.feeds.rows[0].mean_w


def test_polca_as_a_technique_sets_feeds(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("submit_s,num_gpus,duration_s\n0,8,1000\n")
    scenario = {"cluster": CLUSTER, "jobs": {"trace": str(tmp_path / "trace.csv")}, "techniques": ["polca"]}
    result = api.simulate_cluster(scenario)
    assert isinstance(result, ClusterResult) and result.feeds is not None
    assert result.feeds.rows[0].limit_w == pytest.approx(3200 / 1.3) and result.end_s[0] > 1000
    assert result.techniques == ("polca",)
    scenario["techniques"] = [{"polca": {"first": 0.9, "second": 0.8}}]
    with pytest.raises(BadInput, match=r"techniques.polca.second = 0.8: must not be below first"):
        api.simulate_cluster(scenario)


@pytest.mark.parametrize(
    ("power", "jobs", "said"),
    [
        ({}, {}, "needs one of `limit` and `oversubscribed`"),
        ({"limit": 1000, "first": 0.9, "second": 0.8}, {}, "second = 0.8: must not be below first"),
        ({"limit": 1000, "second_clock": 0.95}, {}, "second_clock = 0.95: must not be above"),
        ({"limit": 1000}, {"policy": "cfs"}, "is simulated with policies of queues"),
        ({"limit": 1000, "delay": 0}, {}, "delay = 0: must be"),
        ({"limit": 2000}, {"start_overhead_s": 9e10}, "delay = 40.0: is too short"),
        ({"limit": 300}, {}, "limit = 300.0: leaves a row 300 W, and without a job it draws 400 W"),
    ],
)
def test_feeds_are_checked(tmp_path: Path, power: dict[str, object], jobs: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        _run(tmp_path, power, ["0,4,100,0"], **jobs)


def test_feeds_need_devices_whose_watts_are_known(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("submit_s,num_gpus,duration_s\n0,8,1000\n")
    cluster = {"device": "k80", "nodes": 1, "devices_per_node": 8}
    jobs = {"trace": str(tmp_path / "trace.csv"), "power": {"limit": 1000}}
    with pytest.raises(BadInput, match="needs a device with a design power"):
        api.simulate_cluster({"cluster": cluster, "jobs": jobs})


@pytest.mark.slow
def test_a_fleet_under_a_tight_feed_answers_less(tmp_path: Path) -> None:
    """The same load with and without a lock: watts fall, and what replicas cannot answer rises."""
    fleet = {"scenario": str(EXAMPLES / "serving" / "llama3-70b-4xh100.yaml"), "load": [24.5], "least": 4, "most": 4}
    cluster = {"device": "h100-sxm-80gb", "nodes": 3, "devices_per_node": 8}
    mix = {"rate_per_hour": 10, "count": 3, "classes": [{"devices": 1, "duration": "3 h"}]}
    runs = []
    for limit in (1e6, 6000.0):
        power = {"limit": limit, "brake_after": 86400, "high_priority": 1}
        jobs = {"policy": "priority", "generate": mix, "serving": [fleet | {"priority": 0}], "power": power}
        runs.append(api.simulate_cluster({"cluster": cluster, "jobs": jobs}))
    free, tight = runs
    assert isinstance(free, ClusterResult) and isinstance(tight, ClusterResult)
    assert free.feeds is not None and tight.feeds is not None
    assert tight.feeds.seconds_capped > 3600 and free.feeds.seconds_capped == 0
    unmet = [float(one.serving[0].unmet.sum()) / one.serving[0].requests for one in (free, tight)]
    energy = [one.serving[0].energy_kwh or 0.0 for one in (free, tight)]
    assert unmet[1] > 1.1 * unmet[0] and energy[1] / tight.makespan_s < energy[0] / free.makespan_s
    assert np.isfinite(unmet).all()


def test_the_example_of_shared_feeds() -> None:
    """Low priority pays most, and the feeds hold."""
    result = api.simulate_cluster(EXAMPLES / "cluster" / "shared-feed.yaml")
    assert isinstance(result, ClusterResult) and result.feeds is not None
    assert result.feeds.low.slowdown > result.feeds.high.slowdown > 1.0
    assert result.feeds.brakes == 0 and all(row.p99_w < row.limit_w for row in result.feeds.rows)
