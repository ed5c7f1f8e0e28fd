"""Sweeps whose driver, workers and Ray nodes are killed: every cell exactly once, none lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from windtunnel.sweeps.define import Asked, define
from windtunnel.sweeps.execute import Wishes, execute
from windtunnel.sweeps.start import Where, start, summary
from windtunnel.sweeps.views import query

pytestmark = pytest.mark.slow

SCENARIO = Path(__file__).parents[2] / "examples" / "llama3-70b-64xh100.yaml"
VARY = ("plan.tp=2,4,8", "plan.mbs=1,2", "plan.pp=2,4,8", "training.global_batch=64..512:x2")
CELLS = 3 * 2 * 3 * 4


def command(folder: Path) -> list[str]:
    """The sweep as a user starts it."""
    vary = [word for axis in VARY for word in ("--vary", axis)]
    return [sys.executable, "-m", "windtunnel", "sweep", str(SCENARIO), *vary, "--out", str(folder), "-j", "2"]


def children(of: int) -> list[int]:
    """Processes that a process has started."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(of)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def check_whole(folder: Path) -> None:
    """Every cell has exactly one row."""
    rows, cells = query(folder, "SELECT count(*) r, count(DISTINCT cell) c FROM attempts").iloc[0].tolist()
    assert (rows, cells) == (CELLS, CELLS)
    assert summary(folder)["missing"] == 0


def test_a_driver_killed_at_ten_moments_loses_and_repeats_nothing(tmp_path: Path) -> None:
    chance, folder, kills, left = random.Random(7), tmp_path / "s", 0, []
    deadline = time.monotonic() + 500
    while True:
        process = subprocess.Popen(command(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert process.wait(timeout=chance.uniform(0.3, 5.0) if kills < 10 else None) == 0
            break
        except subprocess.TimeoutExpired:
            left += children(process.pid)
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        assert time.monotonic() < deadline
    check_whole(folder)
    time.sleep(1.0)
    assert not [pid for pid in left if Path(f"/proc/{pid}").exists()], "workers outlive their driver"


def test_workers_killed_at_ten_moments_lose_and_repeat_nothing(tmp_path: Path) -> None:
    chance, folder, kills = random.Random(8), tmp_path / "s", 0
    process = subprocess.Popen(command(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        time.sleep(chance.uniform(0.2, 1.5))
        workers = children(process.pid)
        if workers and kills < 10:
            try:
                os.kill(chance.choice(workers), signal.SIGKILL)
                kills += 1
            except ProcessLookupError:
                continue
    assert process.returncode == 0
    assert kills > 0
    rows, cells = query(folder, "SELECT count(*) r, count(DISTINCT cell) c FROM attempts").iloc[0].tolist()
    assert (rows, cells) == (CELLS, CELLS)


def test_a_ray_node_killed_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="Ray is an extra: pip install 'windtunnel[ray]'")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    from windtunnel.sweeps.executors.ray import OnRay

    definition = define(Asked(source=SCENARIO, vary=VARY))
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        second = cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
        killed: list[int] = []

        def kill_once(progress: object) -> None:
            if getattr(progress, "done", 0) >= 12 and not killed:
                killed.append(1)
                cluster.remove_node(second, allow_graceful=False)
                cluster.add_node(num_cpus=1)

        outcome = execute(definition, tmp_path / "s", Wishes(executor=OnRay(cluster.address), report=kill_once))
        assert killed and outcome.complete
    finally:
        ray.shutdown()
        cluster.shutdown()
    check_whole(tmp_path / "s")
    here = start(Asked(source=SCENARIO, vary=VARY), tmp_path / "here", Where(processes=1)).to_frame()
    theirs = query(tmp_path / "s", "SELECT cell, step_time_s FROM cells ORDER BY cell")
    assert theirs["step_time_s"].equals(here.sort_values("cell")["step_time_s"].reset_index(drop=True))


def test_a_sweep_goes_on_where_this_machines_part_of_ray_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'windtunnel[ray]'")
    from windtunnel.sweeps.executors.ray import OnRay

    killed: list[int] = []

    def kill_once(progress: object) -> None:
        if getattr(progress, "done", 0) >= 12 and not killed:
            names = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
            rows = [line.split() for line in names.splitlines()]
            killed.extend(int(row[0]) for row in rows if row[1:] == [str(os.getpid()), "raylet"])
            os.kill(killed[0], signal.SIGKILL)

    definition = define(Asked(source=SCENARIO, vary=VARY))
    outcome = execute(definition, tmp_path / "s", Wishes(executor=OnRay(None, cpus=2), report=kill_once))
    assert killed and outcome.complete
    check_whole(tmp_path / "s")
    here = start(Asked(source=SCENARIO, vary=VARY), tmp_path / "here", Where(processes=1)).to_frame()
    theirs = query(tmp_path / "s", "SELECT cell, status, step_time_s FROM cells ORDER BY cell")
    expected = here.sort_values("cell")[["cell", "status", "step_time_s"]].reset_index(drop=True)
    assert theirs.equals(expected)
