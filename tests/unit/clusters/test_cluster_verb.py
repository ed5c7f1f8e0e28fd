"""`windtunnel cluster`: what it answers, and what it says of input that it cannot use."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from windtunnel import api as doors
from windtunnel.cli.main import run
from windtunnel.clusters.event_loop.records import BREAKS, CAPACITY
from windtunnel.clusters.outages import draw_outages
from windtunnel.clusters.pod_policies import POD_POLICIES, Ask
from windtunnel.clusters.pod_policies.fgd import Fragments
from windtunnel.clusters.policies import POLICIES
from windtunnel.clusters.result import ClusterResult
from windtunnel.clusters.sharing_policies import SHARING_POLICIES
from windtunnel.clusters.task_policies import TASK_POLICIES
from windtunnel.clusters.traces import JOB_TRACES
from windtunnel.clusters.traces.base import read_trace
from windtunnel.errors import BadInput
from windtunnel.specs.jobs import OutagesSpec
from windtunnel.views.cluster import view
from windtunnel.writers import html

CLUSTER = {"device": "v100-sxm-32gb", "nodes": 2, "devices_per_node": 4}
LINES = ["job_id,user,submit_s,num_gpus,duration_s,deadline_s", "a,u,0,4,100,120", "b,v,10,4,50,200", "c,u,20,8,30,90"]


def _jobs_run(source: dict[str, object]) -> ClusterResult:
    result = doors.simulate_cluster(source)
    assert isinstance(result, ClusterResult)
    return result


def _trace(folder: Path, lines: list[str] = LINES) -> Path:
    file = folder / "trace.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def _scenario(folder: Path, **jobs: object) -> dict[str, object]:
    return {"cluster": CLUSTER, "jobs": {"trace": str(folder / "trace.csv"), **jobs}}


def _problems(folder: Path, lines: list[str] = LINES, **jobs: object) -> list[str]:
    _trace(folder, lines)
    with pytest.raises(BadInput) as caught:
        _jobs_run(_scenario(folder, **jobs))
    return [str(problem) for problem in caught.value.problems]


def test_three_jobs_by_hand(tmp_path: Path) -> None:
    _trace(tmp_path)
    result = _jobs_run(_scenario(tmp_path))
    assert result.end_s.tolist() == [100.0, 60.0, 130.0]
    assert result.jct_s.mean == pytest.approx((100 + 50 + 110) / 3)
    assert result.queue_s.mean == pytest.approx(80 / 3)
    assert result.makespan_s == 130
    assert result.utilisation == pytest.approx((400 + 200 + 240) / (8 * 130))
    # c waits from 20 on: nothing idles until b ends at 60, then half of the devices until 100
    assert result.fragmentation == pytest.approx(0.5 * 40 / 130)
    assert result.deadlines_met == pytest.approx(2 / 3)


def test_preemption_and_overhead_by_hand(tmp_path: Path) -> None:
    """Job c is shortest when it comes: a and b stop, lose their place and start again with an overhead."""
    _trace(tmp_path)
    result = _jobs_run(_scenario(tmp_path, policy="srtf", start_overhead_s=2))
    # c from 20 to 52; a has 82 s left, b 42: again from 52, with 2 s of overhead
    assert result.end_s.tolist() == [136.0, 96.0, 52.0]
    assert result.preemptions == 2


@pytest.mark.parametrize("policy", POLICIES.list())
def test_every_policy_ends_every_job(tmp_path: Path, policy: str) -> None:
    _trace(tmp_path)
    result = _jobs_run(_scenario(tmp_path, policy=policy))
    assert (result.end_s >= result.table.submit_s + result.table.work_s - 1e-9).all()


MURI = ["job_id,num_gpu,submit_time_s,duration_s,iterations,model_name,iteration_time_ms,priority"]
MURI[0] += "".join(f",resource_time_{i}_ms" for i in range(3))
MURI += [f"{i},{2 ** (i % 4)},{i},100,100,bert,1000,{i % 2},{300 - i},{500 + i},200" for i in range(12)]


@pytest.mark.parametrize("policy", [*SHARING_POLICIES.list(), *TASK_POLICIES.list()])
def test_every_policy_of_parts_ends_every_job_and_fills_no_device_twice(tmp_path: Path, policy: str) -> None:
    _trace(tmp_path, MURI)
    result = _jobs_run(_scenario(tmp_path, format="muri", policy=policy))
    if policy in SHARING_POLICIES:  # tasks need not run at once, and shorter ones finish sooner
        assert (result.end_s >= result.table.submit_s + result.table.work_s - 1e-9).all()
    assert np.isfinite(result.end_s).all() and result.load.busy.max() <= 8 + 1e-9 and 0.3 < result.utilisation <= 1


def test_sharing_needs_what_a_trace_may_lack(tmp_path: Path) -> None:
    (line,) = _problems(tmp_path, policy="muri-s")
    assert "needs the stages of an iteration" in line
    assert "must be a list of 3 positive numbers" in _problems(tmp_path, policy={"muri-s": {"slower": [1.0]}})[0]
    outages = {"per_node_day": 1.0}
    assert "are not simulated" in _problems(tmp_path, MURI, format="muri", policy="antman", outages=outages)[0]


def test_json_has_the_keys_of_the_contract(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _trace(tmp_path)
    file = tmp_path / "scenario.json"
    jobs = {"trace": "trace.csv", "grid": {"g_co2_per_kwh": 300}, "idle_watts_per_device": 50}
    file.write_text(json.dumps({"cluster": CLUSTER, "jobs": jobs}))
    assert run(["cluster", str(file), "--json", "--report", str(tmp_path / "out.html")]) == 0
    data = json.loads(capsys.readouterr().out)
    wanted = "policy jobs jct_s makespan_s queue_s utilisation fragmentation finish_time_fairness deadlines_met"
    wanted += " preemptions energy_kwh carbon_kg cost power_w simulated_in_s allocated_share"
    assert set(wanted.split()) <= data.keys()
    assert set(data["jct_s"]) == {"mean", "p50", "p90", "p99"}
    # 8 devices idle for 130 s at 50 W, and 840 device-seconds of jobs at 300 W instead
    assert data["energy_kwh"] == pytest.approx((8 * 130 * 50 + 840 * 250) / 3.6e6)
    assert data["carbon_kg"] == pytest.approx(data["energy_kwh"] * 0.3)
    page = (tmp_path / "out.html").read_text()
    assert "Jobs that wait" in page and "<svg" in page


def test_equal_seeds_give_equal_runs(tmp_path: Path) -> None:
    _trace(tmp_path)
    outages = {"per_node_day": 1000.0, "repair_s": 30, "save_interval_s": 10}
    runs = [_jobs_run(_scenario(tmp_path, outages=outages, seed=seed)) for seed in (3, 3, 4)]
    assert runs[0].end_s.tolist() == runs[1].end_s.tolist() != runs[2].end_s.tolist()


def test_an_outage_costs_what_came_after_the_last_checkpoint(tmp_path: Path) -> None:
    _trace(tmp_path, ["submit_s,num_gpus,duration_s", "0,4,1000"])
    plain = _jobs_run(_scenario(tmp_path))
    outages = {"per_node_day": 100.0, "repair_s": 1, "save_interval_s": 100}
    for seed in range(20):
        result = _jobs_run(_scenario(tmp_path, outages=outages, seed=seed))
        extra = result.makespan_s - plain.makespan_s
        assert 0 <= extra <= 101 * result.outage_kills
        assert (extra > 0) == (result.outage_kills > 0)


def test_a_restarted_job_of_high_priority_preempts(tmp_path: Path) -> None:
    """The large job fails on and on; when it starts again, the small ones go back to their checkpoints."""
    rows = ["submit_s,num_gpus,duration_s,priority", "0,8,1000,2", "1,4,5000,0", "1,4,5000,1"]
    _trace(tmp_path, rows)
    cause = {"name": "software", "per_job_day": 100.0, "radius": "process", "detect_s": 30}
    outages = {"failures": {"causes": [cause]}, "save_interval_s": 300, "repair_s": 60}
    own: dict[str, object] = {
        "policy": "priority",
        "outages": outages,
        "preempted_jobs": "lose",
        "start_overhead_s": 20,
    }
    result = _jobs_run(_scenario(tmp_path, **own))
    assert result.end_s[0] < min(result.end_s[1:])
    lost = result.to_dict()["device_time"]
    assert result.outage_kills > 0 and lost["failures_device_h"] > 0
    assert lost["useful_device_h"] == pytest.approx((8 * 1000 + 8 * 5000) / 3600)
    held = sum(value for name, value in lost.items() if name.endswith("_device_h"))
    s = result.segments
    assert held == pytest.approx(float(((s.end_s - s.start_s) * result.table.devices[s.job]).sum()) / 3600)
    assert lost["standing_device_h"] == pytest.approx(sum(30 * result.table.devices[s.job[s.why == 2]]) / 3600)


def test_the_report_shows_failures_and_watts(tmp_path: Path) -> None:
    _trace(tmp_path, ["submit_s,num_gpus,duration_s", "0,8,5000", "0,4,5000"])
    cause = {"name": "software", "per_job_day": 100.0, "radius": "process", "detect_s": 30}
    outages = {"failures": {"causes": [cause]}, "save_interval_s": 300}
    result = _jobs_run(_scenario(tmp_path, outages=outages, idle_watts_per_device=50))
    page = html.render(view(result))
    assert result.outage_kills > 0 and "failed" in page and "of work lost" in page and "Power of the cluster" in page
    assert "failed" not in html.render(view(_jobs_run(_scenario(tmp_path))))


def test_profiles_of_failures_are_checked(tmp_path: Path) -> None:
    assert "did you mean 'rsc-1-2024'" in _problems(tmp_path, outages={"failures": "rsc-1-2023"})[0]
    assert "needs one of `per_node_day` and `failures`" in _problems(tmp_path, outages={"repair_s": 5})[0]


def test_repair_crews_keep_nodes_away(tmp_path: Path) -> None:
    spec = {"failures": {"causes": [{"name": "n", "per_1000_node_days": 3000.0}]}, "manual_share": 1.0}

    def away(crews: int) -> float:
        drawn = draw_outages(OutagesSpec(**spec, repair_crews=crews), np.full(20, 8), 30 * 86400.0, 0.0, 1)  # type: ignore[arg-type]
        down = float((drawn.time_s * np.where(drawn.capacity > 0, 1.0, -1.0))[drawn.kind == CAPACITY].sum())
        return down / (drawn.kind == BREAKS).sum()

    assert away(0) == pytest.approx(4 * 3600 + 172800)
    assert away(5) > 1.2 * away(0)


FSDP = Path(__file__).parents[3] / "examples" / "llama3-8b-8xh100-fsdp.yaml"


def test_a_scenario_says_how_long_a_job_takes(tmp_path: Path) -> None:
    """Steps on what the job gets: twice as many at half the devices are slower, and spread ones slower than packed."""
    rows = ["submit_s,num_gpus,scenario,steps,duration_s", f"0,8,{FSDP},100,", "0,4,,,50", f"1,8,{FSDP},100,"]
    _trace(tmp_path, rows)
    cluster = {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8}
    source = {"cluster": cluster, "jobs": {"trace": str(tmp_path / "trace.csv"), "placement": "best_fit"}}
    result = _jobs_run(source)
    step = doors.simulate_training(FSDP, overrides=[f"cluster={json.dumps(cluster | {'nodes': 1})}"]).step_time_s
    work = result.table.work_s
    assert work.tolist() == pytest.approx([100 * step, 50.0, 100 * step])
    assert result.end_s[0] == pytest.approx(100 * step)
    assert result.table.spread_speed is not None and 0.2 < result.table.spread_speed[0] < 0.99
    _trace(tmp_path, [rows[0], f"0,16,{FSDP},100,", "0,4,,,"])
    with pytest.raises(BadInput) as caught:
        _jobs_run(source)
    assert [str(p) for p in caught.value.problems] == [
        f"duration_s = '': must be seconds, or `scenario` and `steps` must say how long the job takes"
        f" ({tmp_path / 'trace.csv'}:3)"
    ]
    _trace(tmp_path, [rows[0], f"0,16,{FSDP},100,"])
    with pytest.raises(BadInput, match=r"cannot run on 16 devices.*global_batch = 8.*trace.csv:2"):
        _jobs_run(source)


def test_a_mix_of_classes(tmp_path: Path) -> None:
    mix = [
        {"name": "small", "share": 3, "devices": 1, "duration": "1 h", "cv": 1.0},
        {"name": "large", "share": 1, "devices": 8, "duration": 600, "priority": 2},
    ]
    source = {"cluster": CLUSTER, "jobs": {"generate": {"rate_per_hour": 20, "count": 400, "classes": mix}}}
    jobs = _jobs_run(source).table
    large = jobs.devices == 8
    assert large.mean() == pytest.approx(0.25, abs=0.07) and (jobs.work_s[large] == 600).all()
    assert jobs.work_s[~large].mean() == pytest.approx(3600, rel=0.2)
    assert jobs.priority is not None and (jobs.priority[large] == 2).all()
    mix[0]["steps"] = 5
    with pytest.raises(BadInput, match="needs one of `duration` and `steps`"):
        _jobs_run(source)


def test_unsorted_and_damaged_lines_are_named(tmp_path: Path) -> None:
    lines = ["submit_s,num_gpus,duration_s", "5,1,10", "3,1,10", "7,x,10", "8,1", "9,1,-4"]
    problems = _problems(tmp_path, lines)
    file = tmp_path / "trace.csv"
    assert any("submit_s = 3: must not be before" in line and f"{file}:3" in line for line in problems)
    assert any("num_gpus = x: must be a whole number" in line and f"{file}:4" in line for line in problems)
    assert any("has 2 cells" in line and f"{file}:5" in line for line in problems)
    assert any("duration_s = -4" in line and f"{file}:6" in line for line in problems)


def test_a_line_without_a_moment_is_not_out_of_order_too(tmp_path: Path) -> None:
    """Problems come in the order of the lines, and what cannot be read is said once."""
    lines = ["submit_s,num_gpus,duration_s,priority", "5,1,10,0", "x,1,10,2000", "4,1,10,0", "6,0,10,0"]
    said = [line.split(" (")[0] for line in _problems(tmp_path, lines)]
    assert said == [
        "submit_s = x: must be a number between -1e+11 and 1e+11",
        "priority = 2000: must be a whole number between -1000 and 1000",
        "submit_s = 4: must not be before the job above it: sort the file by it",
        "num_gpus = 0: must be a whole number between 1 and 1e+11",
    ]


def test_jobs_larger_than_the_cluster_are_named(tmp_path: Path) -> None:
    (line,) = _problems(tmp_path, [*LINES[:3], "c,u,20,9,30,90"])
    assert "larger than the cluster" in line and "trace.csv:4" in line


def test_unknown_names_are_said_with_the_nearest(tmp_path: Path) -> None:
    assert "did you mean 'srtf'?" in _problems(tmp_path, policy="strf")[0]
    assert "did you mean 'muri'?" in _problems(tmp_path, format="murri")[0]
    assert "unknown knob" in _problems(tmp_path, policy={"backfill": {"deep": 3}})[0]
    assert "must be a positive number" in _problems(tmp_path, policy={"backfill": {"depth": -3}})[0]


def test_a_scenario_without_jobs_or_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="jobs: is required"):
        _jobs_run({"model": "gpt3-13b", "cluster": CLUSTER})
    with pytest.raises(BadInput, match="model: is required"):
        doors.simulate_training({"cluster": CLUSTER, "training": {"seq_len": 128, "global_batch": 1}})
    with pytest.raises(BadInput, match=r"trace: is required"):
        _jobs_run({"cluster": CLUSTER, "jobs": {"policy": "fifo"}})


EXAMPLES = {
    "csv": ["submit_s,num_gpus,duration_s", "0,2,60", "5,1,30"],
    "philly": ["timestamp,duration,num_gpus,gpu_time,cluster", "0,60,2,120,a", "5,30,1,30,a"],
    "gaia": ["arrival,length,cpus", "0,60,2", "5,30,1"],
    "pai": ["job_id,num_gpu,submit_time,duration", "1,2,0,60", "2,1,5,30"],
    "muri": [
        "job_id,num_gpu,submit_time_s,duration_s,iterations,model_name,iteration_time_ms",
        f"0,2,0,1,1000,vgg16,{60 / 1.015}",
        f"1,1,5,1,1000,bert,{30 / 1.015}",
    ],
    "elasticflow": [
        "job_id,num_gpu_final,submit_s,start_s,end_s,deadline_s,executed_s",
        "1,1,5,5,35,99,30",
        "0,2,0,0,60,99,60",
    ],
    "alibaba-2023": [
        "name,cpu_milli,num_gpu,gpu_milli,creation_time,deletion_time",
        "a,1,2,1000,0,60",
        "b,1,0,0,1,9",
        "c,1,1,500,5,35",
    ],
    "sacct": [
        "JobID|User|Submit|ElapsedRaw|TimelimitRaw|AllocTRES",
        "8|v|1970-01-01T00:00:05|30|1|billing=4,gres/gpu=1",
        "7|u|1970-01-01T00:00:00|60|2|cpu=8,gres/gpu=2,gres/gpu:h100=2",
        "7.batch|u|1970-01-01T00:00:00|60||gres/gpu=2",
        "9|u|1970-01-01T00:00:09|60|2|cpu=8",
    ],
}


@pytest.mark.parametrize("form", EXAMPLES)
def test_formats_read_the_same_two_jobs(tmp_path: Path, form: str) -> None:
    file = _trace(tmp_path, EXAMPLES[form])
    jobs = read_trace(file, form, 1.0)
    assert jobs.submit_s.tolist() == [0.0, 5.0]
    assert jobs.devices.tolist() == [2, 1]
    assert jobs.work_s.tolist() == pytest.approx([60.0, 30.0])
    if form == "sacct":
        assert jobs.estimates.tolist() == [120.0, 60.0]
        assert "1 of 3 jobs left out" in jobs.notes[0][1]
    if form == "muri":
        assert jobs.overhead_s is not None and jobs.overhead_s.tolist() == [7.0, 10.0]


def test_every_format_of_the_registry_has_a_source() -> None:
    assert {"csv", "muri", "philly", "gaia", "pai", "sacct"} <= set(JOB_TRACES.list())
    assert all(form.what for _, form in JOB_TRACES.items())


def test_dominant_resource_fairness_is_envy_free(tmp_path: Path) -> None:
    """Two users with endless queues hold equal shares to within a job, whatever one job of theirs takes."""
    rows = ["submit_s,num_gpus,duration_s,user", *["0,1,1000,a"] * 40, *["0,3,1000,b"] * 40]
    _trace(tmp_path, rows)
    cluster = {"device": "v100-sxm-32gb", "nodes": 18, "devices_per_node": 1}
    for policy, most in (("drf", 3), ("fifo", 18)):
        jobs = {"trace": str(tmp_path / "trace.csv"), "policy": policy, "placement": "best_fit"}
        result = _jobs_run({"cluster": cluster, "jobs": jobs})
        started = result.first_start_s == 0
        held = {
            user: int(result.table.devices[started & (np.array(result.table.users) == user)].sum()) for user in "ab"
        }
        assert sum(held.values()) == 18
        assert abs(held["a"] - held["b"]) <= most
        assert policy == "drf" or held["b"] == 0


TABLE = ["worker_type,job_type,gpus,steps_per_s", "fast,a,1,10", "slow,a,1,5", "fast,b,1,4", "slow,b,1,4"]


def _mixed(folder: Path, lines: list[str], **jobs: object) -> dict[str, object]:
    (folder / "speeds.csv").write_text("\n".join(TABLE) + "\n")
    _trace(folder, lines)
    groups = [
        {"device": "fast", "nodes": 1, "devices_per_node": 1},
        {"device": "slow", "nodes": 1, "devices_per_node": 1},
    ]
    own = {
        "trace": str(folder / "trace.csv"),
        "format": "gavel",
        "throughputs": str(folder / "speeds.csv"),
        "round_s": 10,
    }
    return {"cluster": {"groups": groups}, "jobs": own | jobs}


def test_aware_fairness_gives_fast_devices_to_those_that_gain(tmp_path: Path) -> None:
    """Job a is twice as fast on `fast`, b equally fast on both: aware of it, a runs there and b on `slow`."""
    lines = ["job_type,scale_factor,duration_s,arrival_s", "a,1,100,0", "b,1,100,0"]
    aware = _jobs_run(_mixed(tmp_path, lines, policy="max_min_fairness_perf"))
    assert aware.end_s.tolist() == [100.0, 100.0]
    agnostic = _jobs_run(_mixed(tmp_path, lines, policy="max_min_fairness"))
    assert agnostic.end_s[1] == 100.0
    assert 100.0 < agnostic.end_s[0] <= 200.0
    first = _jobs_run(_mixed(tmp_path, ["job_type,scale_factor,duration_s,arrival_s", *lines[:0:-1]], policy="fifo"))
    assert first.end_s.tolist() == [100.0, 200.0]


def test_rounds_share_a_device_between_jobs(tmp_path: Path) -> None:
    lines = ["submit_s,num_gpus,duration_s", "0,4,100", "0,4,100", "0,4,100"]
    _trace(tmp_path, lines)
    result = _jobs_run(_scenario(tmp_path, policy="max_min_fairness", round_s=10))
    assert sorted(result.end_s.tolist()) == [pytest.approx(150, abs=20)] * 3
    assert result.utilisation > 0.9


def test_generated_load_and_its_window(tmp_path: Path) -> None:
    scenario = _mixed(tmp_path, LINES, policy="max_min_fairness_perf")
    jobs = dict(scenario["jobs"], generate={"rate_per_hour": 0.02, "count": 60, "measure": [20, 60]}, round_s=3600)  # type: ignore[call-overload]
    jobs.pop("trace")
    scenario["jobs"] = jobs
    result = _jobs_run(scenario)
    assert result.jobs == 40
    again = _jobs_run(scenario)
    assert again.end_s.tolist() == result.end_s.tolist()
    scenario["jobs"] = jobs | {"generate": {"rate_per_hour": 1, "measure": [5, 5000]}}
    with pytest.raises(BadInput, match="measure"):
        _jobs_run(scenario)
    scenario["jobs"] = jobs | {"policy": "srtf"}
    with pytest.raises(BadInput, match="does not know unlike devices"):
        _jobs_run(scenario)


def test_a_kind_that_the_table_lacks_is_refused(tmp_path: Path) -> None:
    scenario = _mixed(tmp_path, ["job_type,scale_factor,duration_s,arrival_s", "c,1,100,0"], policy="max_min_fairness")
    with pytest.raises(BadInput, match="no steps_per_s of it"):
        _jobs_run(scenario)
    scenario["cluster"] = {"groups": [{"device": "fast"}, {"device": "slwo"}]}
    with pytest.raises(BadInput, match="did you mean 'slow'"):
        _jobs_run(scenario)


NODES = ["count,cpu_milli,memory_mib,gpus,gpu_model", "6,64000,262144,4,A", "4,96000,262144,8,B"]
PODS = ["cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_s,deletion_s"]
PODS += (
    ["4000,1000,1,460,,0,9"] * 20
    + ["8000,1000,1,1000,A|B,0,9"] * 20
    + ["16000,1000,4,1000,B,0,9"] * 5
    + ["2000,1000,0,0,,0,9"] * 5
)


def _pods(folder: Path, policy: str, pods: list[str] = PODS, **more: object) -> dict[str, object]:
    (folder / "nodes.csv").write_text("\n".join(NODES) + "\n")
    _trace(folder, pods)
    own = {"trace": str(folder / "trace.csv"), "format": "fgd", "nodes": str(folder / "nodes.csv"), "policy": policy}
    return {"jobs": own | more}


@pytest.mark.parametrize("policy", POD_POLICIES.list())
def test_pods_take_no_more_than_there_is(tmp_path: Path, policy: str) -> None:
    data = doors.simulate_cluster(_pods(tmp_path, policy)).to_dict()
    shares = [point["share"] for point in data["allocated_share"]]
    assert data["devices"] == 56 and data["nodes"] == 10
    assert all(0 < a <= b <= 1 for a, b in pairwise(shares))
    assert all(p["share"] <= p["arrived_load"] + 4 / 56 for p in data["allocated_share"])
    assert data["refused"] > 0
    assert data == doors.simulate_cluster(_pods(tmp_path, policy)).to_dict() | {
        "simulated_in_s": data["simulated_in_s"]
    }


def test_descending_fragmentation_beats_random_placement(tmp_path: Path) -> None:
    def mean(policy: str) -> float:
        runs = [doors.simulate_cluster(_pods(tmp_path, policy, seed=seed)).utilisation for seed in range(5)]
        return float(np.mean(runs))

    assert mean("fgd") > mean("random")


def test_fragments_by_hand() -> None:
    """Half of two GPUs is left: a pod of 0.46 can use both, one of a whole GPU none, one without a GPU none either."""
    half, whole, none = Ask(1, 0, 1, 460, ()), Ask(1, 0, 1, 1000, ()), Ask(1, 0, 0, 0, ())
    left = np.array([500, 500])
    assert Fragments(((half, 1.0),)).of(10, left, "A") == 0
    assert Fragments(((half, 0.5), (whole, 0.25), (none, 0.25))).of(10, left, "A") == 500
    assert Fragments(((half, 1.0),)).of(0, left, "A") == 1000  # no CPU left
    assert Fragments(((half, 1.0),)).of(10, np.array([500, 400]), "A") == 400


def test_damaged_pods_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"gpu_milli = 500.*trace.csv:2"):
        doors.simulate_cluster(_pods(tmp_path, "fgd", [PODS[0], "1,1,2,500,,0,9"]))
    with pytest.raises(BadInput, match="nodes: is required"):
        doors.simulate_cluster({"jobs": {"trace": "x.csv", "policy": "fgd"}, "cluster": CLUSTER})
