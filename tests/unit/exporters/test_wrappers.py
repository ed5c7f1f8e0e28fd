"""Scripts and manifests around a launch: bash takes them, Kubernetes knows every field, variables reach the program."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from windtunnel.exporters.launch import export, list_targets
from windtunnel.exporters.wrappers import WRAPPERS
from windtunnel.training.predict import prepare

BASH = shutil.which("bash")
SCENARIO = {
    "name": "seven $billion; `odd` names",
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 32},
    "plan": {"zero": 1, "tp": 2},
}
FIELDS = {
    "ConfigMap": {"apiVersion", "kind", "metadata", "data"},
    "Service": {"apiVersion", "kind", "metadata", "spec"},
    "Service.spec": {"clusterIP", "publishNotReadyAddresses", "selector", "ports", "type"},
    "Job": {"apiVersion", "kind", "metadata", "spec"},
    "Job.spec": {"completionMode", "completions", "parallelism", "backoffLimit", "template", "suspend"},
    "template": {"metadata", "spec"},
    "pod": {"subdomain", "restartPolicy", "containers", "volumes", "nodeSelector", "hostNetwork", "tolerations"},
    "container": {"name", "image", "command", "args", "env", "ports", "resources", "volumeMounts", "workingDir"},
}
"""Names of the Kubernetes API (v1, batch/v1) for what is written."""


def unknown(kind: str, data: dict[str, Any]) -> set[str]:
    """Fields that the API does not have."""
    return set(data) - FIELDS[kind]


@pytest.mark.parametrize("target", list_targets())
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_bash_takes_every_script(target: str, wrapper: Any, tmp_path: Path) -> None:
    done = export(SCENARIO, target, None, tmp_path, wrapper)
    for path in done.files:
        if path.suffix in (".sh", ".sbatch") and BASH:
            ran = subprocess.run([BASH, "-n", path], capture_output=True, text=True, check=False)
            assert (ran.returncode, ran.stderr) == (0, "")
        elif path.suffix == ".py":
            compile(path.read_text("utf-8"), path.name, "exec")


@pytest.mark.parametrize("target", list_targets())
def test_kubernetes_knows_every_field(target: str, tmp_path: Path) -> None:
    done = export(SCENARIO, target, None, tmp_path, "kubernetes")
    objects = {item["kind"]: item for item in yaml.safe_load_all(done.files[0].read_text("utf-8"))}
    assert {kind: item["apiVersion"] for kind, item in objects.items()} == {
        "ConfigMap": "v1",
        "Service": "v1",
        "Job": "batch/v1",
    }
    job, service = objects["Job"], objects["Service"]
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    parts = [
        *objects.items(),
        ("Job.spec", job["spec"]),
        ("Service.spec", service["spec"]),
        ("template", job["spec"]["template"]),
        ("pod", pod),
        ("container", container),
    ]
    assert [unknown(kind, data) for kind, data in parts] == [set()] * len(parts)
    names = {item["metadata"]["name"] for item in objects.values()}
    assert len(names) == 1 and service["spec"]["selector"] == {"batch.kubernetes.io/job-name": names.pop()}
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 2
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    variables = {item["name"]: item["value"] for item in container["env"]}
    assert variables["NNODES"] == "2" and variables["MASTER_ADDR"].endswith(f".{pod['subdomain']}")
    mounted = {item["name"] for item in container["volumeMounts"]}
    assert mounted == {item["name"] for item in pod["volumes"]}
    written = {path.name: path.read_text("utf-8") for path in done.files[1:]}
    assert objects["ConfigMap"]["data"] == written  # nothing that the script reads is missing there


@pytest.mark.skipif(BASH is None, reason="no bash")
def test_slurm_hands_the_allocation_to_torchrun(tmp_path: Path) -> None:
    done = export(SCENARIO, "deepspeed", None, tmp_path, "slurm")
    tools = tmp_path / "tools"
    tools.mkdir()
    stand_ins = {
        "scontrol": 'printf "first-node\\nsecond-node\\n"',
        "srun": 'while [[ "$1" == --* ]]; do shift; done\nSLURM_NODEID=1 exec "$@"',
        "torchrun": 'printf "%s\\n" "$@"',
    }
    for name, body in stand_ins.items():
        (tools / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (tools / name).chmod(0o755)
    environment = {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "SLURM_JOB_NODELIST": "x",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "TRAIN_SCRIPT": "/my script.py",
    }
    ran = subprocess.run(
        [str(BASH), done.files[0], "--seed", "1"], capture_output=True, text=True, env=environment, check=True
    )
    words = ran.stdout.splitlines()
    given = dict(zip(words[0:10:2], words[1:10:2], strict=True))
    assert given == {
        "--nnodes": "2",
        "--nproc-per-node": "8",
        "--node-rank": "1",
        "--master-addr": "first-node",
        "--master-port": "29500",
    }
    assert words[10] == "/my script.py" and words[-2:] == ["--seed", "1"]


def test_the_best_plan_of_several_devices_and_sizes_is_exported_on_its_own_cluster(tmp_path: Path) -> None:
    from windtunnel.api import plan

    found = plan(
        {
            "model": "meta-llama/Llama-3.1-8B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 2},
            "training": {"seq_len": 4096, "global_batch": 16},
            "plan": {"zero": 1, "pp": 1, "cp": 1, "mbs": 1, "recompute": {"policy": "full"}},
            "search": {"space": {"device": ["h100-sxm-80gb", "a100-sxm-80gb"], "nodes": [1, 2], "tp": [2, 4]}},
        }
    )
    scenario = found.scenario
    cluster = prepare(scenario)[0].cluster
    done = export(scenario, "megatron", None, tmp_path, "slurm")
    batch, script = (path.read_text("utf-8") for path in done.files[:2])
    assert f"#SBATCH --nodes={cluster.nodes}" in batch
    assert f"NNODES * GPUS_PER_NODE != {cluster.num_devices}" in script
