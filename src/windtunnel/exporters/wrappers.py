"""How a launch script gets onto the nodes: torchrun by hand, Slurm, Kubernetes.

Each node runs the same script once; it starts one process a device with torchrun and reads `NNODES`, `NODE_RANK`,
`MASTER_ADDR` and `MASTER_PORT`. Slurm and Kubernetes only set these.

Sources: PyTorch documentation, "torchrun (Elastic Launch)"; Slurm manual pages sbatch(1) and srun(1); Kubernetes
documentation, "Indexed Job for Parallel Processing with Static Work Assignment" and "Job with Pod-to-Pod
Communication" (batch/v1, completion index in JOB_COMPLETION_INDEX, host names through a headless service).
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import yaml

from windtunnel.errors import comment as as_comment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from windtunnel.exporters.target import Draft
    from windtunnel.specs.cluster import ClusterSpec

WRAPPERS = ("torchrun", "slurm", "kubernetes")
RESOURCE = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "gpu.intel.com/i915"}


def comment(lines: Iterable[str]) -> str:
    """Lines as `#` comments, none of them able to leave the comment."""
    return "".join(as_comment(line) + "\n" for line in lines)


def header(title: str, draft: Draft) -> list[str]:
    """What every written file says first: where it is from, what it cannot express, what to look at."""
    lines = [title]
    if draft.misfits:
        lines += ["DOES NOT FIT:", *(f"- {item}" for item in draft.misfits)]
    if draft.unsupported:
        lines += ["not expressible, left out:", *(f"- {item}" for item in draft.unsupported)]
    if draft.notes:
        lines += ["notes:", *(f"- {item}" for item in draft.notes)]
    return lines


def node_script(title: str, draft: Draft, cluster: ClusterSpec) -> str:
    """The script that one node runs."""
    lines = [
        "#!/usr/bin/env bash",
        comment(header(title, draft)).rstrip(),
        "set -euo pipefail",
        'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"',
        f'NNODES="${{NNODES:-{cluster.nodes}}}"',
        f'GPUS_PER_NODE="${{GPUS_PER_NODE:-{cluster.devices_per_node}}}"',
        'NODE_RANK="${NODE_RANK:-0}"',
        'MASTER_ADDR="${MASTER_ADDR:-127.0.0.1}"',
        'MASTER_PORT="${MASTER_PORT:-29500}"',
        f"if (( NNODES * GPUS_PER_NODE != {cluster.num_devices} )); then",
        f'  echo "this plan is for {cluster.num_devices} devices, not $NNODES x $GPUS_PER_NODE" >&2',
        "  exit 2",
        "fi",
        *(f"export {name}={shlex.quote(value)}" for name, value in draft.environment.items()),
        *draft.setup,
        "TORCHRUN=(",
        '  torchrun --nnodes "$NNODES" --nproc-per-node "$GPUS_PER_NODE" --node-rank "$NODE_RANK"',
        '  --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT"',
        ")",
        f'exec "${{TORCHRUN[@]}}" {draft.program} "$@"',
    ]
    return "\n".join(lines) + "\n"


def slurm(title: str, script: str, name: str, draft: Draft, cluster: ClusterSpec) -> str:
    """A batch file: one task a node; the first node is the rendezvous."""
    return (
        "\n".join(
            [
                "#!/usr/bin/env bash",
                f"#SBATCH --job-name={name}",
                f"#SBATCH --nodes={cluster.nodes}",
                "#SBATCH --ntasks-per-node=1",
                f"#SBATCH --gpus-per-node={cluster.devices_per_node}",
                "#SBATCH --exclusive",
                "#SBATCH --output=%x-%j.out",
                comment([*header(title, draft), f"submit from the folder that holds {script}"]).rstrip(),
                "set -euo pipefail",
                'HOSTS="$(scontrol show hostnames "$SLURM_JOB_NODELIST")"',
                "MASTER_ADDR=\"${HOSTS%%$'\\n'*}\"",
                'export MASTER_ADDR MASTER_PORT="${MASTER_PORT:-29500}" NNODES="$SLURM_JOB_NUM_NODES"',
                'srun --kill-on-bad-exit=1 bash -c \'NODE_RANK="$SLURM_NODEID" exec bash "$0" "$@"\' \\',
                f'  "$SLURM_SUBMIT_DIR/{script}" "$@"',
            ]
        )
        + "\n"
    )


def kubernetes(title: str, script: str, name: str, draft: Draft, files: dict[str, str], cluster: ClusterSpec) -> str:
    """An indexed Job of one pod a node, with the files in a ConfigMap and host names through a headless service."""
    resource = RESOURCE.get(cluster.device.vendor.lower(), "nvidia.com/gpu")
    variables = [
        {"name": "NNODES", "value": str(cluster.nodes)},
        {"name": "MASTER_ADDR", "value": f"{name}-0.{name}"},
        {"name": "MASTER_PORT", "value": "29500"},
    ]
    start = f'NODE_RANK="$JOB_COMPLETION_INDEX" exec bash /launch/{script}'
    container: dict[str, Any] = {
        "name": "train",
        "image": "REPLACE-WITH-YOUR-IMAGE",
        "command": ["bash", "-c", start],
        "env": variables,
        "ports": [{"containerPort": 29500}],
        "resources": {"limits": {resource: str(cluster.devices_per_node)}},
        "volumeMounts": [{"name": "launch", "mountPath": "/launch"}, {"name": "shm", "mountPath": "/dev/shm"}],
    }
    pod = {
        "subdomain": name,
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [
            {"name": "launch", "configMap": {"name": name}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ],
    }
    documents = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": dict(files)},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": {"batch.kubernetes.io/job-name": name},
            },
        },
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "completionMode": "Indexed",
                "completions": cluster.nodes,
                "parallelism": cluster.nodes,
                "backoffLimit": 0,
                "template": {"spec": pod},
            },
        },
    ]
    text: str = yaml.dump_all(documents, Dumper=Readable, sort_keys=False, width=120)
    return comment([*header(title, draft), "set the container's image and what its data needs"]) + text


class Readable(yaml.SafeDumper):
    """Texts of several lines as blocks, and what repeats spelled out."""

    def ignore_aliases(self, data: Any) -> bool:
        """No anchors."""
        return True


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Readable.add_representer(str, _block)


def object_name(text: str) -> str:
    """A name that Kubernetes and Slurm take: lower case letters, digits and hyphens, at most 50."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50].strip("-") or "train"
