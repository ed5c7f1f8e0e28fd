"""Groups of unlike devices: launched as one job where whole stages lie in each, refused with the reason else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windtunnel.errors import BadInput
from windtunnel.exporters.launch import export

GROUPS: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {
        "groups": [
            {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8},
            {"device": "a100-sxm-80gb", "nodes": 2, "devices_per_node": 8},
        ]
    },
    "training": {"seq_len": 4096, "global_batch": 64},
    "plan": {"tp": 4, "pp": 4, "stage_layers": [10, 10, 6, 6], "group_axis": "pp"},
}


@pytest.mark.parametrize("target", ["megatron", "deepspeed"])
def test_stages_in_groups_become_one_job_on_all_nodes(target: str, tmp_path: Path) -> None:
    scenario = GROUPS | {"plan": GROUPS["plan"] | ({"zero": 1} if target == "deepspeed" else {})}
    done = export(scenario, target, None, tmp_path, "slurm")
    batch, script = (path.read_text("utf-8") for path in done.files[:2])
    assert "#SBATCH --nodes=4" in batch and "NNODES * GPUS_PER_NODE != 32" in script
    assert "NODE_RANK 0 to 1 must be nodes of h100-sxm-80gb" in done.notes
    assert "NODE_RANK 2 to 3 must be nodes of a100-sxm-80gb" in done.notes
    assert all(note in script for note in done.notes)
    if target == "megatron":
        assert "'Et*10|t*10|t*6|t*6L'" in script


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        ({"tp": 4, "pp": 4}, "plan.group_axis"),
        ({**GROUPS["plan"], "order": ["tp", "cp", "ep", "pp", "dp"]}, "plan.order"),
    ],
)
def test_what_no_launcher_can_do_is_refused(plan: dict[str, Any], field: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        export(GROUPS | {"plan": plan}, "megatron", None, tmp_path)
    assert [problem.field for problem in caught.value.problems] == [field]
