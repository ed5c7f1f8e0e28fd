"""Shell scripts: one a pool (one node of one instance), one for a whole node, one for what stands in front.

Sources: Slurm manual pages sbatch(1), srun(1) and scontrol(1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.exporters.wrappers import comment

if TYPE_CHECKING:
    from windtunnel.exporters.servers.placing import Part
    from windtunnel.exporters.servers.target import Server, ServerDraft
    from windtunnel.specs.cluster import ClusterSpec

_HERE = 'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"'
_VISIBLE = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "HIP_VISIBLE_DEVICES"}


def said(title: str, draft: ServerDraft) -> str:
    """What every written file says first: where it is from, what it cannot express, what to look at."""
    lines = [title]
    if draft.unsupported:
        lines += ["not expressible, left out:", *(f"- {item}" for item in draft.unsupported)]
    if draft.notes:
        lines += ["notes:", *(f"- {item}" for item in draft.notes)]
    return comment(lines).rstrip()


def pool_script(title: str, draft: ServerDraft, server: Server, model: str) -> str:
    """The script that one node of one instance runs."""
    pool = server.pool
    lines = [
        "#!/usr/bin/env bash",
        said(title, draft),
        comment(
            [f"pool {pool.name}: {pool.spec.replicas} of {pool.devices} devices, {server.per_node} on a node"]
        ).rstrip(),
        "set -euo pipefail",
        _HERE,
        f'MODEL="${{MODEL:-{model}}}"',
        f'INSTANCE="${{INSTANCE:-0}}"  # 0 to {pool.spec.replicas - 1}',
        f'PORT="${{PORT:-$(({server.port} + INSTANCE))}}"',
    ]
    if server.nodes > 1:
        lines += [
            f'NODE_RANK="${{NODE_RANK:-0}}"  # 0 to {server.nodes - 1}',
            'LEADER="${LEADER:-127.0.0.1}"  # the instance\'s first node',
        ]
    lines += [f"export {name}={value}" for name, value in server.environment.items()]
    lines += [*server.before, "ARGS=(", *(f"  {' '.join(words)}" for words in server.options), ")"]
    if server.follower:
        lines += [
            'if [ "$NODE_RANK" -gt 0 ]; then',
            "  ARGS+=(",
            *(f"    {' '.join(words)}" for words in server.follower),
            "  )",
            "fi",
        ]
    lines.append(f'exec {" ".join(server.program)} "${{ARGS[@]}}" "$@"')
    return "\n".join(lines) + "\n"


def node_script(title: str, draft: ServerDraft, target: str, parts: list[Part]) -> str:
    """Everything that runs on one node; the first node also runs the entry."""
    used = max(part.node for part in parts) + 1
    lines = [
        "#!/usr/bin/env bash",
        said(title, draft),
        "set -euo pipefail",
        _HERE,
        *_nodes(used),
        "PIDS=()",
        "trap 'kill \"${PIDS[@]}\" 2>/dev/null || true' EXIT",
        'case "$NODE" in',
    ]
    lines[2:2] = [comment([f"run it on each of {used} nodes" if used > 1 else "run it on one node"]).rstrip()]
    for node in range(used):
        lines.append(f"  {node})")
        for part in parts:
            if part.node != node:
                continue
            vendor = part.server.pool.cluster.device.vendor.lower()
            visible = _VISIBLE.get(vendor, "CUDA_VISIBLE_DEVICES")
            words = [f"{visible}={','.join(map(str, part.devices))}", f"INSTANCE={part.instance}"]
            if part.server.nodes > 1:
                first = next(p.node for p in parts if p.server is part.server and p.instance == part.instance)
                words += [f"NODE_RANK={part.rank}", f'LEADER="${{HOSTS[{first}]}}"']
                if part.server.hosts and part.rank == 0:
                    mates = [p for p in parts if p.server is part.server and p.instance == part.instance]
                    listed = ",".join(f"${{HOSTS[{p.node}]}}:{len(p.devices)}" for p in mates)
                    words.append(f'{part.server.hosts}="{listed}"')
            lines += [f'    {" ".join(words)} bash "$HERE/{target}-{part.server.pool.name}.sh" &', '    PIDS+=("$!")']
        if node == 0 and draft.entry is not None:
            lines += [f'    bash "$HERE/{target}-entry.sh" &', '    PIDS+=("$!")']
        lines.append("    ;;")
    lines += [
        '  *) echo "NODE $NODE: this plan has nodes 0 to ' + str(used - 1) + '" >&2; exit 2 ;;',
        "esac",
        "wait -n",
    ]
    return "\n".join(lines) + "\n"


def _nodes(used: int) -> list[str]:
    default = "127.0.0.1" if used == 1 else ""
    lines = ['NODE="${NODE:-0}"']
    if default:
        lines.append(f'read -r -a HOSTS <<< "${{HOSTS:-{default}}}"')
    else:
        lines.append(f'read -r -a HOSTS <<< "${{HOSTS:?the names of the {used} nodes, separated by blanks}}"')
    return lines


def entry_script(title: str, draft: ServerDraft, parts: list[Part]) -> str:
    """What stands in front of the servers that `serve.sh` starts."""
    assert draft.entry is not None
    used = max(part.node for part in parts) + 1
    urls: dict[str, list[str]] = {}
    for part in parts:
        if part.rank == 0:
            urls.setdefault(part.server.pool.name, []).append(f"${{HOSTS[{part.node}]}}:{part.port}")
    lines = [
        "#!/usr/bin/env bash",
        said(title, draft),
        f"# needs {draft.entry.needs}",
        "set -euo pipefail",
        *_nodes(used)[1:],
        f'PORT="${{PORT:-{draft.entry.port}}}"',
        *draft.entry.lines(urls),
    ]
    return "\n".join(lines) + "\n"


def slurm(title: str, draft: ServerDraft, name: str, parts: list[Part], cluster: ClusterSpec) -> str:
    """A batch file: `serve.sh` once on each node."""
    used = max(part.node for part in parts) + 1
    return (
        "\n".join(
            [
                "#!/usr/bin/env bash",
                f"#SBATCH --job-name={name}",
                f"#SBATCH --nodes={used}",
                "#SBATCH --ntasks-per-node=1",
                f"#SBATCH --gpus-per-node={cluster.devices_per_node}",
                "#SBATCH --exclusive",
                "#SBATCH --output=%x-%j.out",
                said(title, draft),
                "# submit from the folder that holds serve.sh",
                "set -euo pipefail",
                "HOSTS=\"$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | tr '\\n' ' ')\"",
                "export HOSTS",
                'srun --kill-on-bad-exit=1 bash -c \'NODE="$SLURM_NODEID" exec bash "$0" "$@"\' \\',
                '  "$SLURM_SUBMIT_DIR/serve.sh" "$@"',
            ]
        )
        + "\n"
    )
