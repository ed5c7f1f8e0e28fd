"""A policy of queues is one entry that names its key; what cannot decide is refused where it is declared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.clusters.elastic_policies import ElasticPolicy
from windtunnel.clusters.event_loop.records import ATTAINED, RANKED, REMAINING, JobTable, Rules
from windtunnel.clusters.event_loop.run import run_queue
from windtunnel.clusters.outages import NO_OUTAGES
from windtunnel.clusters.pod_policies import PodPolicy
from windtunnel.clusters.policies import POLICIES, QueuePolicy
from windtunnel.clusters.result import ClusterResult
from windtunnel.clusters.round_policies import RoundPolicy
from windtunnel.clusters.sharing_policies import SharingPolicy
from windtunnel.clusters.task_policies import TaskPolicy
from windtunnel.errors import BadInput

CLUSTER = {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 4}
COLUMNS = "job_id,submit_s,num_gpus,duration_s,estimate_s,deadline_s,priority"
FEWEST = """
from windtunnel.clusters.policies import QueuePolicy

POLICY = QueuePolicy(name="Fewest devices first", source="test", key=lambda jobs: jobs.devices)
"""
SCRIPT = """
import json, sys
from windtunnel import api
from windtunnel.kernel_cache import always_compiled
jobs = {"trace": sys.argv[1], "policy": "fewest-first"}
def starts():
    result = api.simulate_cluster({"cluster": json.loads(sys.argv[2]), "jobs": jobs})
    return [float(t) for t in result.first_start_s]
found = [starts()]
with always_compiled():
    found.append(starts())
print(json.dumps(found))
"""


def trace(folder: Path, *rows: tuple[float, int, float, float, float, int]) -> Path:
    """Jobs: submitted, devices, seconds, seconds expected, deadline, priority."""
    file = folder / "jobs.csv"
    lines = [f"j{i}," + ",".join("" if x == np.inf else f"{x:g}" for x in row) for i, row in enumerate(rows)]
    file.write_text("\n".join([COLUMNS, *lines]) + "\n")
    return file


def simulated(file: Path, policy: Any, **more: Any) -> ClusterResult:
    result = api.simulate_cluster({"cluster": CLUSTER, "jobs": {"trace": str(file), "policy": policy, **more}})
    assert isinstance(result, ClusterResult)
    return result


def starts(file: Path, policy: Any, **more: Any) -> list[float]:
    return [float(t) for t in simulated(file, policy, **more).first_start_s]


def ends(file: Path, policy: Any, **more: Any) -> list[float]:
    return [float(t) for t in simulated(file, policy, **more).end_s]


def test_a_new_policy_is_one_file_that_states_its_key(tmp_path: Path) -> None:
    """Of three, one, two and two devices, all waiting for four at once: fewest first, ties as they were submitted."""
    rows = [(0, 4), (1, 3), (2, 1), (3, 2), (4, 2)]
    file = trace(tmp_path, *((at, devices, 10.0, 10.0, np.inf, 0) for at, devices in rows))
    plugin = tmp_path / "plugin"
    info = plugin / "fewest_first-1.0.dist-info"
    info.mkdir(parents=True)
    (plugin / "fewest_first.py").write_text(FEWEST)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fewest-first\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[windtunnel.cluster_policies]\nfewest-first = fewest_first:POLICY\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(plugin)])}
    command = [sys.executable, "-c", SCRIPT, str(file), json.dumps(CLUSTER)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[0.0, 30.0, 10.0, 10.0, 20.0]] * 2
    assert starts(file, "sjf") == [0.0, 10.0, 10.0, 20.0, 20.0]  # all are equally long: as they were submitted


WRONG: list[tuple[str, Callable[[], Any]]] = [
    (r"`key` must be a function of \(jobs\), not 'devices'", lambda: QueuePolicy(name="x", source="", key="devices")),  # type: ignore[arg-type]
    (r"`key` must be a function of \(jobs\)", lambda: QueuePolicy(name="x", source="", key=lambda: np.ones(1))),  # type: ignore[misc, arg-type]
    ("STATIC and RANKED alone", lambda: QueuePolicy(name="x", source="", kind=REMAINING, key=lambda jobs: jobs.work_s)),
    ("RANKED needs a `key`", lambda: QueuePolicy(name="x", source="", kind=RANKED)),
    ("`limits` belong to kind ATTAINED", lambda: QueuePolicy(name="x", source="", kind=ATTAINED)),
    (
        "`limits` belong to kind ATTAINED",
        lambda: QueuePolicy(name="x", source="", limits=lambda jobs, knobs: np.ones(1)),
    ),
    ("has one of `allocate` and `start`", lambda: RoundPolicy(name="x", source="")),
    (r"`allocate` must be a function of \(active\)", lambda: RoundPolicy(name="x", source="", allocate="equal")),  # type: ignore[arg-type]
    (r"`prepare` must be a function of \(jobs, knobs, seed\)", lambda: SharingPolicy(name="x", source="", prepare=len)),  # type: ignore[arg-type]
    (r"`order` must be a function of \(knobs, devices\)", lambda: TaskPolicy(name="x", source="", order=len)),  # type: ignore[arg-type]
    (r"`scorer` must be a function of \(typical, random\)", lambda: PodPolicy(name="x", source="", scorer="best")),  # type: ignore[arg-type]
    (r"`start` must be a function of \(\)", lambda: ElasticPolicy(name="x", source="", start=len)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("message", "declare"), WRONG)
def test_a_policy_that_cannot_decide_is_refused_where_it_is_declared(message: str, declare: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=message):
        declare()


@pytest.mark.parametrize("key", [lambda jobs: 1.0, lambda jobs: np.full(len(jobs), np.nan)])
def test_a_key_is_a_number_of_each_job(key: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    POLICIES.list()
    monkeypatch.setitem(POLICIES._entries, "odd", QueuePolicy(name="odd one", source="test", key=key))
    file = trace(tmp_path, (0, 1, 10, 10, np.inf, 0), (1, 1, 10, 10, np.inf, 0))
    with pytest.raises(BadInput, match="has a key that is not a number of each of the 2 jobs"):
        starts(file, "odd")


def test_shortest_jobs_start_by_what_is_expected_not_by_what_they_take(tmp_path: Path) -> None:
    """j1 is expected to take longest and takes least; nothing that runs is stopped."""
    rows = ((0, 4, 10, 10, np.inf, 0), (1, 4, 5, 30, np.inf, 0), (2, 4, 20, 20, np.inf, 0), (3, 4, 25, 7, np.inf, 0))
    assert starts(trace(tmp_path, *rows), "sjf") == [0.0, 55.0, 35.0, 10.0]


def test_jobs_of_an_early_deadline_preempt(tmp_path: Path) -> None:
    """j1 takes j0's devices at 4, j3 waits behind an equal deadline, and what has none comes last."""
    rows = ((0, 4, 10, 10, 100, 0), (4, 4, 6, 6, 50, 0), (5, 4, 3, 3, np.inf, 0), (6, 4, 2, 2, 100, 0))
    file = trace(tmp_path, *rows)
    assert starts(file, "edf") == [0.0, 4.0, 18.0, 16.0]
    assert ends(file, "edf") == [16.0, 10.0, 21.0, 18.0]


def test_what_is_left_orders_time_and_service_differently(tmp_path: Path) -> None:
    """At 8, j0 has 12 s left on two devices; j1 asks 10 s of four, j2 13 s of one and j3 12 s of two, a tie."""
    rows = ((0, 2, 20, 20, np.inf, 0), (8, 4, 10, 10, np.inf, 0))
    file = trace(tmp_path, *rows)
    assert ends(file, "srtf") == [30.0, 18.0]  # 10 s are less than 12 s: j1 preempts
    assert ends(file, "srsf") == [20.0, 30.0]  # 40 device-seconds are more than 24: j1 waits


def test_an_equal_rest_preempts_nobody(tmp_path: Path) -> None:
    """At 8, j0 has 12 s left on four devices, as j1; with a second less j1 would go first."""
    for policy in ("srtf", "srsf"):
        equal = trace(tmp_path, (0, 4, 20, 20, np.inf, 0), (8, 4, 12, 12, np.inf, 0))
        assert ends(equal, policy) == [20.0, 32.0]
        less = trace(tmp_path, (0, 4, 20, 20, np.inf, 0), (8, 4, 11, 11, np.inf, 0))
        assert ends(less, policy) == [31.0, 19.0]


def test_higher_priorities_preempt_and_equal_ones_wait(tmp_path: Path) -> None:
    equal = trace(tmp_path, (0, 4, 10, 10, np.inf, 1), (4, 4, 5, 5, np.inf, 1))
    assert ends(equal, "priority") == [10.0, 15.0]
    higher = trace(tmp_path, (0, 4, 10, 10, np.inf, 1), (4, 4, 5, 5, np.inf, 2))
    assert starts(higher, "priority") == [0.0, 4.0]


def test_a_job_at_the_head_holds_others_back_in_fifo_alone(tmp_path: Path) -> None:
    """j1 waits for four devices while j2's one idles: fifo keeps it idle, backfill lets j2 in as it ends by 10."""
    file = trace(tmp_path, (0, 3, 10, 10, np.inf, 0), (1, 4, 5, 5, np.inf, 0), (2, 1, 8, 8, np.inf, 0))
    assert starts(file, "fifo") == [0.0, 10.0, 15.0]
    assert starts(file, "backfill") == [0.0, 10.0, 2.0]
    late = trace(tmp_path, (0, 3, 10, 10, np.inf, 0), (1, 4, 5, 5, np.inf, 0), (2, 1, 9, 9, np.inf, 0))
    assert starts(late, "backfill") == [0.0, 10.0, 15.0]  # it would end at 11 and delay j1


def test_the_depth_of_backfilling(tmp_path: Path) -> None:
    """j3 fits beside j0; with a depth of 1 only j2, the first behind the head of the queue, is looked at."""
    rows = ((0, 3, 10, 10, np.inf, 0), (1, 4, 5, 5, np.inf, 0), (2, 4, 5, 5, np.inf, 0), (3, 1, 5, 5, np.inf, 0))
    file = trace(tmp_path, *rows)
    assert starts(file, {"backfill": {"depth": 2}}) == [0.0, 10.0, 15.0, 3.0]
    assert starts(file, {"backfill": {"depth": 1}}) == [0.0, 10.0, 15.0, 20.0]


def test_levels_of_attained_service(tmp_path: Path) -> None:
    """j0 of four devices falls a level at its limit and lets j1 in, which has received nothing."""
    file = trace(tmp_path, (0, 4, 20, 20, np.inf, 0), (1, 4, 5, 5, np.inf, 0))
    assert ends(file, {"las": {"quantum_device_s": 40.0}}) == [25.0, 15.0]  # at 10 s: 40 device-seconds
    assert ends(file, {"tiresias-l": {"limits_device_s": [48.0, 400.0]}}) == [25.0, 17.0]
    assert ends(file, "las") == [20.0, 25.0]
    assert ends(file, "tiresias-l") == [20.0, 25.0]


def test_jobs_in_any_layout_are_one_specialisation_of_the_loop() -> None:
    from windtunnel.clusters.event_loop.queue_kernel import advance

    one, rules = np.ones(3), Rules(0, False, 0, 0, False, np.zeros(0), 1.0, 1.0, 1)
    exact = JobTable(np.arange(3.0), np.ones(3, np.int64), one, one, one, one)
    strided = JobTable(np.arange(0.0, 3.0, 0.5)[::2], np.ones(3, np.int32), one.astype(int), one, one, one)
    ends = [run_queue(jobs, rules, NO_OUTAGES, np.ones(2, np.int64)).end_s.tolist() for jobs in (exact, strided)]
    assert ends[0] == ends[1]
    assert len(advance.signatures) == 1
