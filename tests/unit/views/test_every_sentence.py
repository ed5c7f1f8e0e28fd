"""Every sentence of the terminal stands in the HTML report and in what the studio draws, command by command."""

from __future__ import annotations

from pathlib import Path

import pytest
from view_texts import fragments, missing, printed

from windtunnel import api
from windtunnel.views import cluster
from windtunnel.views.view import View

TRACE = ["submit_s,num_gpus,duration_s,priority", "0,8,20000,0", "0,4,9000,1", "3700,8,4000,0", "9000,2,30000,0"]
MACHINES = {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8}
FAILING = {"failures": {"causes": [{"name": "software", "per_job_day": 40.0, "radius": "process", "detect_s": 30}]}}
JOBS = {
    "first-come": {"policy": "fifo"},
    "preempting": {"policy": "priority", "preempted_jobs": "lose", "start_overhead_s": 20},
    "failing": {"policy": "fifo", "outages": {**FAILING, "save_interval_s": 300}, "idle_watts_per_device": 50},
}


def _holds(view: View, *texts: str) -> None:
    told = fragments(view)
    assert len(told) > 10 and not [text for text in texts if not any(text in part for part in told)]
    assert missing(view) == []
    assert max(map(len, printed(view, 80).splitlines())) <= 80


@pytest.mark.parametrize("case", JOBS)
def test_cluster(tmp_path: Path, case: str) -> None:
    (tmp_path / "jobs.csv").write_text("\n".join(TRACE), encoding="utf-8")
    trace = str(tmp_path / "jobs.csv")
    result = api.simulate_cluster({"name": case, "cluster": MACHINES, "jobs": {"trace": trace, **JOBS[case]}})
    _holds(cluster.view(result), "4 jobs on", "Utilisation", "list price of the device")
