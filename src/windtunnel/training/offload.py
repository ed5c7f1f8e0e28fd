"""Copies between device and host memory that a plan's offloading puts into a step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.schedules.table import B, F, InstructionTable, W
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.training.assembly import S_FROM_HOST, S_TO_HOST, T_OFFLOAD, Assembly, Rows
from windtunnel.training.parts import HEAD, Parts

Floats = npt.NDArray[np.float64]
HOST_LINK_FRACTION = 0.85
"""Payload share of a host link with large pinned copies (PCIe packet headers and flow control)."""
NVME_BYTES_PER_S = 6e9
"""Per device: eight data-centre drives of 6 to 7 GB/s in a node of eight devices (PCIe 4 x4 sheets, as of 2023)."""


def host_bytes(parts: Parts, plan: ResolvedPlan, table: InstructionTable, resident: Floats) -> Floats:
    """Host memory that one device of each stage fills: what lives there, and activations of the passes in flight.

    Activations leave with forward and are given up with the backward that reads them; the head's stay.

    Args:
        parts: Virtual stages.
        plan: What is offloaded.
        table: The pipeline schedule.
        resident: Weights and optimizer state in host memory, shape (p,), bytes.

    Returns:
        Bytes, shape (p,).
    """
    saved = np.array([sum(v for kind, v in kept.items() if kind != HEAD) for kept in parts.kept_bytes])
    saved = saved * plan.offload.activations
    last = W if table.split_backward else B
    change = np.where(table.kind == F, 1.0, np.where(table.kind == last, -1.0, 0.0))
    part = np.zeros((table.p, table.v), np.int64)
    part[table.placement[:, 0], table.placement[:, 1]] = np.arange(len(table.placement))
    flow = change * saved[part[table.stage, table.chunk]]
    out: Floats = resident.copy()
    for stage in range(table.p):
        rows = slice(int(table.stage_ptr[stage]), int(table.stage_ptr[stage + 1]))
        out[stage] += float(np.cumsum(flow[rows]).max(initial=0.0))
    return out


def copied_bytes(parts: Parts, plan: ResolvedPlan) -> tuple[Floats, Floats]:
    """Bytes that one pass of each virtual stage copies, shape (K,): weights in before every use; activations.

    Logits and the head's input are used at once and stay.
    """
    blocks = [sum(size for kind, size in kept.items() if kind != HEAD) for kept in parts.kept_bytes]
    return copied_weights(parts, plan), np.array(blocks) * plan.offload.activations


def copied_weights(parts: Parts, plan: ResolvedPlan) -> Floats:
    """Bytes of weights that one pass of each virtual stage copies in, shape (K,)."""
    shard = plan.shard_group if plan.zero == 3 else 1
    width = parts.graph.element_bytes
    weights: Floats = (parts.dense_params + parts.expert_params) * width / shard * plan.offload.params
    return weights


def copy_rate(tier: str, cluster: ClusterSpec) -> float:
    """Bytes per second of copies between a device and where offloaded tensors live."""
    rate = cluster.device.pcie_bytes_per_s * HOST_LINK_FRACTION
    return min(rate, NVME_BYTES_PER_S) if tier == "nvme" else rate


def offload_traffic(
    asm: Assembly, parts: Parts, plan: ResolvedPlan, cluster: ClusterSpec, kind: Rows, part: Rows,
    table: InstructionTable, first_task: Rows, last_task: Rows, row_of: Rows,
) -> None:  # fmt: skip
    """Copy kept activations out after forward and back before backward, and weights in before every use.

    Layer by layer, beside computation; logits and the head's input are used at once and stay. A copy in may start two
    layers ahead. What the host link cannot hide delays computation.

    Source: Rajbhandari et al. 2021 (arXiv 2104.07857), section 5.1.
    """
    weights, saved = copied_bytes(parts, plan)
    count = last_task - first_task + 1
    row = np.repeat(np.arange(len(kind)), count)
    piece = np.arange(len(row)) - first_task[row]
    share = 1.0 / count[row] / copy_rate(plan.offload.tier, cluster)
    f, b = np.flatnonzero(kind[row] == F), np.flatnonzero(kind[row] == B)
    at = row * 4096.0 + piece * 4
    inputs = np.concatenate([f, b]) if weights.any() else b
    seconds_in = (weights[part[row]] + np.where(kind[row] == B, saved[part[row]], 0.0)) * share
    copies_in = asm.add(
        at[inputs] + 0.5, table.stage[row[inputs]], S_FROM_HOST, seconds_in[inputs], T_OFFLOAD, row=row[inputs]
    )  # fmt: skip
    before = inputs - 2
    ok = (before >= 0) & (table.stage[row[np.maximum(before, 0)]] == table.stage[row[inputs]])
    asm.depend(copies_in[ok], before[ok])
    asm.depend(inputs, copies_in)
    if not saved.any():
        return
    out = asm.add(at[f] + 2.5, table.stage[row[f]], S_TO_HOST, (saved[part[row]] * share)[f], T_OFFLOAD, row=row[f])
    asm.depend(out, f)
    stored = np.full(len(row), -1, np.int64)
    stored[f] = out
    # backward runs the layers in reverse: it reads first what forward stored last
    twin = row_of[F, part[row[b]], table.micro_batch[row[b]]]
    source = first_task[twin] + (count[twin] * (count[row[b]] - 1 - piece[b])) // count[row[b]]
    asm.depend(copies_in[len(inputs) - len(b) :], stored[source])
