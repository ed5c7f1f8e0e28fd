"""Serving fleets beside jobs: who gives way, what is never held twice, what a load costs, what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from windtunnel import api as doors
from windtunnel.cli.main import run
from windtunnel.clusters import prepare
from windtunnel.clusters.replica_figures import ReplicaFigures, replica_figures
from windtunnel.clusters.result import ClusterResult
from windtunnel.errors import BadInput
from windtunnel.specs.cluster import ClusterRef
from windtunnel.views.cluster import view
from windtunnel.writers import html

CLUSTER = {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8}
JOBS = ["submit_s,num_gpus,duration_s,priority", "0,8,20000,0", "0,4,9000,0", "3700,8,4000,0", "9000,2,30000,0"]
FIGURES = ReplicaFigures(
    name="served",
    devices=4,
    rate_per_s=10.0,
    low_per_s=9.5,
    high_per_s=10.5,
    start_up_s=90.0,
    load_per_s=np.array([0.0, 10.0]),
    watts=np.array([100.0, 500.0]),
)
SERVED = Path(__file__).parents[3] / "examples" / "serving" / "llama3-70b-4xh100.yaml"


@pytest.fixture
def replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica whose figures are round."""
    monkeypatch.setattr(prepare, "replica_figures", lambda *_: FIGURES)


def _source(folder: Path, *fleets: dict[str, object], rows: list[str] = JOBS, **jobs: object) -> dict[str, object]:
    trace = folder / "trace.csv"
    trace.write_text("\n".join(rows) + "\n")
    own = [{"scenario": str(SERVED), **fleet} for fleet in fleets]
    plain = {"trace": str(trace), "policy": "priority", "serving": own, "idle_watts_per_device": 50, **jobs}
    return {"cluster": CLUSTER, "jobs": plain}


def _run(source: dict[str, object]) -> ClusterResult:
    result = doors.simulate_cluster(source)
    assert isinstance(result, ClusterResult)
    return result


def _problems(source: dict[str, object]) -> list[str]:
    with pytest.raises(BadInput) as caught:
        _run(source)
    return [str(problem) for problem in caught.value.problems]


def test_a_job_gives_way_and_gets_its_devices_back_by_hand(tmp_path: Path, replica: None) -> None:
    """One job of 8 devices and one replica of 4 on 8: from 3,600 to 7,200 s the job waits."""
    source = _source(tmp_path, {"load": [0, 5, 0, 0, 0, 0], "least": 0}, rows=[JOBS[0], "0,8,10000,0"])
    source["cluster"] = CLUSTER | {"nodes": 1}
    saved = _run(source)
    assert saved.end_s.tolist() == [13600.0] and saved.preemptions == 1
    source["jobs"]["preempted_jobs"] = "lose"  # type: ignore[index]
    source["jobs"]["outages"] = {"per_node_day": 1e-9, "save_interval_s": 1000}  # type: ignore[index]
    assert _run(source).end_s.tolist() == pytest.approx([14200.0])  # 600 s after the last save are lost
    (fleet,) = saved.serving
    assert fleet.to_dict()["requests"] == pytest.approx(5 * 3600)
    assert fleet.unmet.sum() == pytest.approx(5 * 90)  # while the replica starts
    assert fleet.device_hours == pytest.approx(4.0) and fleet.energy_kwh == pytest.approx(4 * 0.3)
    held = 4 * 3600 * (300 - 50)  # what it draws above idle at half of its rate
    busy = 8 * 10000 * (700 - 50)
    assert saved.energy_kwh == pytest.approx((8 * 13600 * 50 + held + busy) / 3.6e6)


@pytest.mark.parametrize("outages", [None, {"per_node_day": 8.0, "repair_s": 1800, "save_interval_s": 600}])
def test_no_device_is_held_twice(tmp_path: Path, replica: None, outages: dict[str, object] | None) -> None:
    fleets = ({"load": [5, 25, 12, 31, 0, 8], "least": 0}, {"load": [0, 11], "least": 0, "priority": -5})
    result = _run(_source(tmp_path, *fleets, outages=outages))
    held = result.load.busy + result.load.serving
    assert 8 < held.max() <= 16 and result.load.serving.max() >= 12
    assert len(result.load.fleets) == 2 and np.isfinite(result.end_s).all()
    one = result.serving[0]
    assert (one.replicas <= one.wanted + 1e-9).all()
    assert (one.serve_from_s >= one.start_s).all() and (one.serve_until_s <= one.end_s + 1e-9).all()


def test_no_load_is_no_fleet(tmp_path: Path, replica: None) -> None:
    outages = {"per_node_day": 5.0, "repair_s": 600, "save_interval_s": 600}
    without = _run(_source(tmp_path, outages=outages))
    idle = _run(_source(tmp_path, {"load": [0.0], "least": 0}, outages=outages))
    assert without.outage_kills > 0 and idle.serving[0].requests == idle.serving[0].device_hours == 0
    for name in ("end_s", "first_start_s", "run_s"):
        assert np.array_equal(getattr(idle, name), getattr(without, name))
    assert (idle.utilisation, idle.energy_kwh) == pytest.approx((without.utilisation, without.energy_kwh))


def test_a_flat_load_holds_a_constant_number_of_devices(tmp_path: Path, replica: None) -> None:
    result = _run(_source(tmp_path, {"load": [15.0]}))
    assert set(result.load.serving[:-1].tolist()) == {8.0}
    assert result.serving[0].wanted.tolist() == [2] * len(result.serving[0].wanted)


def test_more_load_is_never_fewer_replicas(tmp_path: Path, replica: None) -> None:
    loads = [2.0, 10.0, 10.1, 29.0, 30.0, 80.0]
    counts = []
    for load in loads:
        source = _source(tmp_path, {"load": [load], "least": 0, "most": 3}) | {"cluster": CLUSTER | {"nodes": 4}}
        fleet = _run(source).serving[0]
        counts.append(int(fleet.wanted[0]))
        beyond = max(load - 10.0 * counts[-1], 0.0) * fleet.span_s  # and all of it while the first replicas start
        assert fleet.unmet.sum() == pytest.approx(beyond + min(load, 10.0 * counts[-1]) * 90)
    assert counts == [1, 1, 2, 3, 3, 3]


def test_jobs_of_higher_priority_keep_their_devices(tmp_path: Path, replica: None) -> None:
    rows = [JOBS[0], "0,16,8000,200", "100,8,100,0"]
    result = _run(_source(tmp_path, {"load": [0, 10, 10, 10, 10], "least": 0}, rows=rows))
    assert result.end_s[0] == 8000.0 and result.preemptions == 0
    assert result.serving[0].unmet[1] == pytest.approx(36000) and result.serving[0].start_s.min() == 8000.0


def test_a_replica_under_a_locked_clock_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a locked clock a replica answers 6 of 10 requests/s, with 350 in place of 500 W; the lock comes after 40 s.

    Two replicas hold 8 devices of 500 W and draw 4,000 W beside 8 that idle at 50: 0.92 of a feed of 4,800 W.
    """
    locked = replace(FIGURES, rate_per_s=6.0, watts=np.array([100.0, 350.0]), load_per_s=np.array([0.0, 6.0]))
    monkeypatch.setattr(prepare, "replica_figures", lambda _, part, __: locked if part.clock_share else FIGURES)
    fleet = {"load": [20.0], "least": 2, "most": 2, "start_up": 0, "priority": 0}
    power = {"limit": 4800.0, "brake_after": 86400, "release": 0.3}
    result = _run(_source(tmp_path, fleet, rows=[JOBS[0], "0,1,3600,0"], power=power, job_watts_per_device=50))
    (served,) = result.serving
    assert result.feeds is not None and result.feeds.rows[0].peak_w == 8 * 500 + 8 * 50
    assert result.feeds.seconds_capped == pytest.approx(result.makespan_s - 40)
    assert served.unmet.sum() == pytest.approx((result.makespan_s - 40) * (20 - 2 * 6))
    joules = 8 * (40 * 500 + (result.makespan_s - 40) * 350)
    assert served.energy_kwh == pytest.approx(joules / 3.6e6)


def test_what_a_fleet_does_not_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = replace(
        FIGURES, dropped=("serving.autoscale",), assumed=(("serving.autoscale.engine_start_s", "45", "logs"),)
    )
    monkeypatch.setattr(prepare, "replica_figures", lambda *_: own)
    assumed = _run(_source(tmp_path, {"load": [1.0]})).assumed
    assert ("jobs.serving.0", "serving.autoscale", "of its scenario is not read: a fleet has its own") in assumed
    assert ("jobs.serving.0.start_up", "45", "engine_start_s: logs") in assumed


def test_a_failed_replica_serves_no_more(tmp_path: Path, replica: None) -> None:
    cause = {"name": "node", "per_1000_node_days": 4000.0, "detect_s": 300}
    outages = {"failures": {"causes": [cause]}, "repair_s": 1800}
    fleet = _run(_source(tmp_path, {"load": [20.0]}, outages=outages)).serving[0]
    stopped = fleet.end_s - fleet.serve_until_s
    assert fleet.failed > 0 and stopped.max() == pytest.approx(300.0) and fleet.unmet.sum() > 20 * 90 * 1.5


def test_loads_of_days_and_of_files(tmp_path: Path, replica: None) -> None:
    by_day = {"load": {"peak": 30, "trough": 2, "peak_hour": 15}, "least": 0}
    grid = {"start": "2026-03-02T15:00"}
    fleet = _run(_source(tmp_path, by_day, **grid)).serving[0]
    assert fleet.load_per_s[0] == pytest.approx(30, rel=0.01) and fleet.load_per_s.argmin() in (
        11,
        12,
        len(fleet.load_per_s) - 1,
    )
    (tmp_path / "load.csv").write_text("hour,requests_per_s\n0,4\n1,21\n")
    fleet = _run(_source(tmp_path, {"load": str(tmp_path / "load.csv")})).serving[0]
    assert fleet.wanted[:4].tolist() == [1, 3, 1, 3]


def test_the_report_shows_fleets(tmp_path: Path, replica: None) -> None:
    page = html.render(view(_run(_source(tmp_path, {"name": "chat & co", "load": [15.0, 25.0]}))))
    assert "chat &amp; co" in page and "Replicas" in page and "requests unmet" in page
    assert "Replicas" not in html.render(view(_run(_source(tmp_path))))


def test_what_cannot_be_is_said_in_a_line_each(
    tmp_path: Path, replica: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        "least = 3: must not be above most = 2" in _problems(_source(tmp_path, {"load": [1], "least": 3, "most": 2}))[0]
    )
    assert "load.1 = -2: must be at least 0" in _problems(_source(tmp_path, {"load": [1, -2]}))[0]
    two = _problems(_source(tmp_path, {"load": [1], "most": 5}, {"load": "none.csv"}))
    assert "jobs.serving.0.most = 5: must be at most 4: replicas of 4 devices" in two[0] and "cannot be read" in two[1]
    (tmp_path / "load.csv").write_text("requests_per_s\n4\n-1\nx\n")
    lines = _problems(_source(tmp_path, {"load": str(tmp_path / "load.csv")}))
    assert [line.rpartition(":")[2] for line in lines] == ["3)", "4)"]
    assert "needs policy priority" in _problems(_source(tmp_path, {"load": [1]}, policy="srtf"))[0]
    assert "hold more than 16" in _problems(_source(tmp_path, {"load": [1], "least": 3}, {"load": [1], "least": 2}))[0]
    assert (
        "trough = 9.0: must not be above peak = 3"
        in _problems(_source(tmp_path, {"load": {"peak": 3, "trough": 9}}))[0]
    )


def test_an_unknown_scenario_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    file = tmp_path / "s.json"
    file.write_text(json.dumps(_source(tmp_path, {"load": [1], "scenario": "absent.yaml"})))
    assert run(["cluster", str(file)]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1 and "jobs.serving.0.scenario" in said[0] and "absent.yaml" in said[0]


@pytest.mark.slow
def test_the_simulated_replica(tmp_path: Path) -> None:
    """Its rate is that of `serve --sweep`; devices, start-up and watts are the scenario's."""
    rows = [JOBS[0], "0,8,2000,0"]
    fleet = _run(_source(tmp_path, {"load": [9.0]}, rows=rows)).serving[0].fleet
    own = fleet.replica
    assert own.devices == 4 and own.low_per_s <= own.rate_per_s <= own.high_per_s
    at = [f"serving.traffic.rate_per_s={own.rate_per_s * share}" for share in (0.9, 1.15)]
    below, above = (doors.simulate_serving(SERVED, overrides=[setting]) for setting in at)
    assert below.slo_met and not above.slo_met
    assert own.start_up_s == pytest.approx(45 + 70.6e9 * 2 / 5e9, rel=0.02)
    assert 50 < own.watts[0] < own.watts[-1] < 700  # from idle to design power


def test_a_run_too_short_to_find_the_sustained_load_is_refused(tmp_path: Path) -> None:
    """Four requests meet a loose objective however fast they come: no load is too high, so none is the limit."""
    traffic = {"rate_per_s": 1, "num_requests": 4, "input_tokens": 10, "output_tokens": 2}
    serving = {"engine": "vllm", "traffic": traffic, "slo": {"ttft_s": 100}}
    cluster = {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1}
    file = tmp_path / "replica.json"
    file.write_text(json.dumps({"model": "meta-llama/Llama-3.1-8B", "cluster": cluster, "serving": serving}))
    with pytest.raises(BadInput, match=r"every load up to .* the traffic needs more"):
        replica_figures(file, ClusterRef.model_validate(cluster), "h100-sxm-80gb")
