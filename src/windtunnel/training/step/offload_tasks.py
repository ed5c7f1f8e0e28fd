"""Copies between a device and the memories of its node that a plan's offloading puts into a step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Rows
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.schedules.table import B, F, InstructionTable, W
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.plan import Offload, Tier
from windtunnel.training.offload.memory_tiers import copy_rate, drive_bytes_per_s, link_bytes_per_s, near_rate
from windtunnel.training.stage_costs.stage_costs import HEAD, StageCosts
from windtunnel.training.task_builder import S_FROM_HOST, S_READ, S_TO_HOST, S_WRITE, T_OFFLOAD, TaskBuilder


def kept_elsewhere(parts: StageCosts, plan: ResolvedPlan, table: InstructionTable) -> Floats:
    """Activations of the passes in flight that one device of each stage keeps elsewhere at most, shape (p,), bytes.

    They leave with forward and are given up with the backward that reads them; the head's stay.
    """
    saved = np.array([sum(v for kind, v in kept.items() if kind != HEAD) for kept in parts.kept_bytes])
    saved = saved * plan.offload.activations
    last = W if table.split_backward else B
    change = np.where(table.kind == F, 1.0, np.where(table.kind == last, -1.0, 0.0))
    part = np.zeros((table.p, table.v), np.int64)
    part[table.placement[:, 0], table.placement[:, 1]] = np.arange(len(table.placement))
    flow = change * saved[part[table.stage, table.chunk]]
    out = np.zeros(table.p)
    for stage in range(table.p):
        rows = slice(int(table.stage_ptr[stage]), int(table.stage_ptr[stage + 1]))
        out[stage] = float(np.cumsum(flow[rows]).max(initial=0.0))
    return out


def copied_bytes(parts: StageCosts, plan: ResolvedPlan) -> tuple[Floats, Floats]:
    """Bytes that one pass of each virtual stage copies, shape (K,): weights in before every use; activations.

    Logits and the head's input are used at once and stay.
    """
    blocks = [sum(size for kind, size in kept.items() if kind != HEAD) for kept in parts.kept_bytes]
    return copied_weights(parts, plan), np.array(blocks) * plan.offload.activations


def copied_weights(parts: StageCosts, plan: ResolvedPlan) -> Floats:
    """Bytes of weights that one pass of each virtual stage copies in, shape (K,)."""
    shard = plan.shard_group if plan.zero == 3 else 1
    width = parts.graph.element_bytes
    weights: Floats = (parts.dense_params + parts.expert_params) * width / shard * plan.offload.params
    return weights


def least_rate(offload: Offload, cluster: ClusterSpec) -> float:
    """No copy of weights or activations is faster on its links: bytes per second, for bounds.

    Of copies that lie on unlike tiers only the host link is common to all.
    """
    tiers = {offload.tier_of(name) for name in ("params", "activations") if getattr(offload, name)}
    if len(tiers) != 1:
        return link_bytes_per_s(cluster)
    return copy_rate(tiers.pop(), cluster, stripe=offload.stripe)


class Copies:
    """Adds copies of one plan: what crosses the host link, and before or after it the drives."""

    def __init__(self, asm: TaskBuilder, plan: ResolvedPlan, cluster: ClusterSpec) -> None:
        self.asm, self.offload, self.cluster = asm, plan.offload, cluster
        self.shared = cluster.scale_up.topology == "host"
        """Whether collectives cross the same link."""
        self.known = cluster.host_memory_bytes_per_s is not None
        """Whether the rate of host memory is known, which then holds copies up."""

    def _link(
        self, key: npt.ArrayLike, stage: npt.ArrayLike, stream: int, nbytes: Floats, tier: Tier, row: npt.ArrayLike
    ) -> Rows:
        seconds = nbytes / near_rate(tier, self.cluster, stripe=self.offload.stripe)
        return self.asm.add(
            key,
            stage,
            stream,
            seconds,
            T_OFFLOAD,
            row=row,
            host=nbytes * (self.known and tier != "cxl"),
            up=nbytes if self.shared else 0.0,
        )

    def inward(
        self, key: npt.ArrayLike, stage: npt.ArrayLike, nbytes: npt.ArrayLike, tier: Tier, row: npt.ArrayLike = -1
    ) -> tuple[Rows, Rows]:
        """Copies to a device. Returns the tasks that begin them and those that end them."""
        size = np.broadcast_to(np.asarray(nbytes, np.float64), np.shape(np.atleast_1d(key)))
        if tier != "nvme":
            ids = self._link(key, stage, S_FROM_HOST, size, tier, row)
            return ids, ids
        read = self.read(key, stage, size, row)
        ids = self._link(np.asarray(key) + 0.01, stage, S_FROM_HOST, size, tier, row)
        self.asm.depend(ids, read)
        return read, ids

    def outward(
        self, key: npt.ArrayLike, stage: npt.ArrayLike, nbytes: npt.ArrayLike, tier: Tier, row: npt.ArrayLike = -1
    ) -> tuple[Rows, Rows]:
        """Copies from a device. Returns the tasks that begin them and those that end them."""
        size = np.broadcast_to(np.asarray(nbytes, np.float64), np.shape(np.atleast_1d(key)))
        ids = self._link(key, stage, S_TO_HOST, size, tier, row)
        if tier != "nvme":
            return ids, ids
        written = self.write(np.asarray(key) + 0.01, stage, size, row)
        self.asm.depend(written, ids)
        return ids, written

    def read(self, key: npt.ArrayLike, stage: npt.ArrayLike, nbytes: npt.ArrayLike, row: npt.ArrayLike = -1) -> Rows:
        """From drives to host memory."""
        size = np.asarray(nbytes, np.float64)
        seconds = size / drive_bytes_per_s(self.cluster, write=False)
        return self.asm.add(key, stage, S_READ, seconds, T_OFFLOAD, row=row, host=size * self.known)

    def write(self, key: npt.ArrayLike, stage: npt.ArrayLike, nbytes: npt.ArrayLike, row: npt.ArrayLike = -1) -> Rows:
        """From host memory to drives."""
        size = np.asarray(nbytes, np.float64)
        seconds = size / drive_bytes_per_s(self.cluster, write=True)
        return self.asm.add(key, stage, S_WRITE, seconds, T_OFFLOAD, row=row, host=size * self.known)


def offload_traffic(
    asm: TaskBuilder,
    parts: StageCosts,
    plan: ResolvedPlan,
    cluster: ClusterSpec,
    kind: Rows,
    part: Rows,
    table: InstructionTable,
    first_task: Rows,
    last_task: Rows,
    row_of: Rows,
    gathers: Rows,
) -> None:
    """Copy kept activations out after forward and back before backward, and weights in before every use.

    Layer by layer, beside computation; logits and the head's input are used at once and stay. A copy in may start
    `prefetch_layers` ahead; sharded weights come in shard by shard and are gathered then. What the host link cannot
    hide delays computation.

    Args:
        asm: Collects the tasks.
        parts: Virtual stages.
        plan: What is offloaded.
        cluster: Rates.
        kind: Of each instruction.
        part: Virtual stage of each instruction.
        table: The pipeline schedule.
        first_task: First compute task of each instruction.
        last_task: Last compute task of each instruction.
        row_of: (kind, virtual stage, micro-batch) → instruction.
        gathers: Gather before each compute task, −1 for none.

    Source: Rajbhandari et al. 2021 (arXiv 2104.07857), section 5.1.
    """
    weights, saved = copied_bytes(parts, plan)
    copies, offload = Copies(asm, plan, cluster), plan.offload
    count = last_task - first_task + 1
    row = np.repeat(np.arange(len(kind)), count)
    piece = np.arange(len(row)) - first_task[row]
    share = 1.0 / count[row]
    f, b = np.flatnonzero(kind[row] == F), np.flatnonzero(kind[row] == B)
    at = row * 4096.0 + piece * 4

    def ahead(begin: Rows, use: Rows) -> None:
        """Copies begin when the layer so many before the one that uses them has run."""
        before = use - offload.prefetch_layers
        ok = (before >= 0) & (table.stage[row[np.maximum(before, 0)]] == table.stage[row[use]])
        asm.depend(begin[ok], before[ok])

    backward = parts.trainable_share > 0
    if weights.any():
        use = np.sort(np.concatenate([f, b])) if backward else f
        begin, end = copies.inward(
            at[use] + 0.5, table.stage[row[use]], (weights[part[row]] * share)[use], offload.tier_of("params"), row[use]
        )
        ahead(begin, use)
        asm.depend(use, end)
        gathered = gathers[use] >= 0
        asm.depend(gathers[use[gathered]], end[gathered])
        if not backward:  # updated while they are here
            back, _ = copies.outward(
                at[f] + 2.5, table.stage[row[f]], (weights[part[row]] * share)[f], offload.tier_of("params"), row[f]
            )
            asm.depend(back, f)
    if not saved.any():
        return
    tier = offload.tier_of("activations")
    begin, end = copies.inward(at[b] + 0.6, table.stage[row[b]], (saved[part[row]] * share)[b], tier, row[b])
    ahead(begin, b)
    asm.depend(b, end)
    out, stored = copies.outward(at[f] + 2.5, table.stage[row[f]], (saved[part[row]] * share)[f], tier, row[f])
    asm.depend(out, f)
    where = np.full(len(row), -1, np.int64)
    where[f] = stored
    # backward runs the layers in reverse: it reads first what forward stored last
    twin = row_of[F, part[row[b]], table.micro_batch[row[b]]]
    source = first_task[twin] + (count[twin] * (count[row[b]] - 1 - piece[b])) // count[row[b]]
    asm.depend(begin, where[source])
