"""Copies between a device and the memories of its node that a plan's offloading puts into a step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Rows
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.program.comm_work import CommWork
from windtunnel.schedules.table import B, F, InstructionTable, W
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.plan import Offload, Tier
from windtunnel.training.offload.memory_tiers import copy_rate, drive_bytes_per_s, link_bytes_per_s, near_rate
from windtunnel.training.stage_costs.block_pricing import HEAD
from windtunnel.training.stage_costs.stage_costs import StageCosts
from windtunnel.training.step.replica_tasks import ReplicaTasks
from windtunnel.training.task_builder import S_FROM_HOST, S_READ, S_TO_HOST, S_WRITE, T_OFFLOAD, TaskBuilder


def kept_elsewhere(stages: StageCosts, plan: ResolvedPlan, schedule: InstructionTable) -> Floats:
    """Activations of the passes in flight that one device of each stage keeps elsewhere at most, shape (p,), bytes.

    They leave with forward and are given up with the backward that reads them; the head's stay.
    """
    saved = np.array([sum(v for kind, v in kept.items() if kind != HEAD) for kept in stages.kept_bytes])
    saved = saved * plan.offload.activations
    last = W if schedule.split_backward else B
    change = np.where(schedule.kind == F, 1.0, np.where(schedule.kind == last, -1.0, 0.0))
    part = np.zeros((schedule.p, schedule.v), np.int64)
    part[schedule.placement[:, 0], schedule.placement[:, 1]] = np.arange(len(schedule.placement))
    flow = change * saved[part[schedule.stage, schedule.chunk]]
    out = np.zeros(schedule.p)
    for stage in range(schedule.p):
        rows = slice(int(schedule.stage_ptr[stage]), int(schedule.stage_ptr[stage + 1]))
        out[stage] = float(np.cumsum(flow[rows]).max(initial=0.0))
    return out


def copied_bytes(stages: StageCosts, plan: ResolvedPlan) -> tuple[Floats, Floats]:
    """Bytes that one pass of each virtual stage copies, shape (K,): weights in before every use; activations.

    Logits and the head's input are used at once and stay.
    """
    blocks = [sum(size for kind, size in kept.items() if kind != HEAD) for kept in stages.kept_bytes]
    return copied_weights(stages, plan), np.array(blocks) * plan.offload.activations


def copied_weights(stages: StageCosts, plan: ResolvedPlan) -> Floats:
    """Bytes of weights that one pass of each virtual stage copies in, shape (K,)."""
    shard = plan.shard_group if plan.zero == 3 else 1
    width = stages.graph.element_bytes * stages.stored_share
    weights: Floats = (stages.dense_params + stages.expert_params) * width / shard * plan.offload.params
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

    def __init__(self, tasks: TaskBuilder, plan: ResolvedPlan, cluster: ClusterSpec) -> None:
        self.tasks, self.offload, self.cluster = tasks, plan.offload, cluster
        self.shares_link = cluster.scale_up.topology == "host"
        """Whether collectives cross the same link."""
        self.host_rate_known = cluster.host_memory_bytes_per_s is not None
        """Whether the rate of host memory is known, which then holds copies up."""

    def _link(
        self, key: npt.ArrayLike, stage: npt.ArrayLike, stream: int, nbytes: Floats, tier: Tier, row: npt.ArrayLike
    ) -> Rows:
        seconds = nbytes / near_rate(tier, self.cluster, stripe=self.offload.stripe)
        return self.tasks.add(
            key,
            stage,
            stream,
            CommWork.of(seconds, scale_up_bytes=nbytes if self.shares_link else 0.0),
            T_OFFLOAD,
            row=row,
            host_bytes=nbytes * (self.host_rate_known and tier != "cxl"),
        )

    def inward(
        self, key: npt.ArrayLike, stage: npt.ArrayLike, nbytes: npt.ArrayLike, tier: Tier, row: npt.ArrayLike = -1
    ) -> tuple[Rows, Rows]:
        """Add copies to a device. Returns the tasks that begin them and those that end them."""
        size = np.broadcast_to(np.asarray(nbytes, np.float64), np.shape(np.atleast_1d(key)))
        if tier != "nvme":
            ids = self._link(key, stage, S_FROM_HOST, size, tier, row)
            return ids, ids
        read = self.read(key, stage, size, row)
        ids = self._link(np.asarray(key) + 0.01, stage, S_FROM_HOST, size, tier, row)
        self.tasks.depend(ids, read)
        return read, ids

    def outward(
        self, key: npt.ArrayLike, stage: npt.ArrayLike, nbytes: npt.ArrayLike, tier: Tier, row: npt.ArrayLike = -1
    ) -> tuple[Rows, Rows]:
        """Add copies from a device. Returns the tasks that begin them and those that end them."""
        size = np.broadcast_to(np.asarray(nbytes, np.float64), np.shape(np.atleast_1d(key)))
        ids = self._link(key, stage, S_TO_HOST, size, tier, row)
        if tier != "nvme":
            return ids, ids
        written = self.write(np.asarray(key) + 0.01, stage, size, row)
        self.tasks.depend(written, ids)
        return ids, written

    def read(self, key: npt.ArrayLike, stage: npt.ArrayLike, nbytes: npt.ArrayLike, row: npt.ArrayLike = -1) -> Rows:
        """Add reads from drives to host memory."""
        size = np.asarray(nbytes, np.float64)
        seconds = size / drive_bytes_per_s(self.cluster, write=False)
        host_bytes = size * self.host_rate_known
        return self.tasks.add(key, stage, S_READ, seconds, T_OFFLOAD, row=row, host_bytes=host_bytes)

    def write(self, key: npt.ArrayLike, stage: npt.ArrayLike, nbytes: npt.ArrayLike, row: npt.ArrayLike = -1) -> Rows:
        """Add writes from host memory to drives."""
        size = np.asarray(nbytes, np.float64)
        seconds = size / drive_bytes_per_s(self.cluster, write=True)
        host_bytes = size * self.host_rate_known
        return self.tasks.add(key, stage, S_WRITE, seconds, T_OFFLOAD, row=row, host_bytes=host_bytes)


def add_offload_tasks(tasks: TaskBuilder, replica: ReplicaTasks, gathers: Rows) -> None:
    """Copy kept activations out after forward and back before backward, and weights in before every use.

    Layer by layer, next to computation; logits and the head's input are used at once and stay. A copy in may start
    `prefetch_layers` ahead; sharded weights come in shard by shard and are gathered then. What the host link cannot
    hide delays computation.

    Args:
        tasks: Collects the tasks.
        replica: The instructions and their compute tasks.
        gathers: (t,): gather before each compute task, −1 for none.

    Source: Rajbhandari et al. 2021 (arXiv 2104.07857), section 5.1.
    """
    group, instructions = replica.group, replica.instructions
    weights, saved = copied_bytes(group.stages, group.plan)
    copies = Copies(tasks, group.plan, group.cluster)
    share, virtual_stage = 1.0 / instructions.pieces[instructions.row], instructions.virtual_stage[instructions.row]
    if weights.any():
        _copy_weights(copies, replica, weights[virtual_stage] * share, gathers)
    if saved.any():
        _copy_activations(copies, replica, saved[virtual_stage] * share)


def _copy_weights(copies: Copies, replica: ReplicaTasks, nbytes: Floats, gathers: Rows) -> None:
    """Copy the weights of each piece in before it runs, and back out where a step updates them at once."""
    instructions, tasks, offload = replica.instructions, copies.tasks, copies.offload
    row, keys, tier = instructions.row, instructions.piece_keys(), copies.offload.tier_of("params")
    stage = replica.group.schedule.stage[row]
    forward, backward = (np.flatnonzero(instructions.kind[row] == kind) for kind in (F, B))
    has_backward = replica.group.stages.trainable_share > 0
    use = np.sort(np.concatenate([forward, backward])) if has_backward else forward
    begin, end = copies.inward(keys[use] + 0.5, stage[use], nbytes[use], tier, row[use])
    _begin_ahead(tasks, replica, begin, use, offload.prefetch_layers)
    tasks.depend(use, end)
    gathered = gathers[use] >= 0
    tasks.depend(gathers[use[gathered]], end[gathered])
    if not has_backward:  # weights are updated while they are on the device
        back, _ = copies.outward(keys[forward] + 2.5, stage[forward], nbytes[forward], tier, row[forward])
        tasks.depend(back, forward)


def _copy_activations(copies: Copies, replica: ReplicaTasks, nbytes: Floats) -> None:
    """Copy the activations that each piece keeps out after forward, and in before backward."""
    instructions, tasks, tier = replica.instructions, copies.tasks, copies.offload.tier_of("activations")
    row, keys, pieces = instructions.row, instructions.piece_keys(), instructions.pieces
    schedule = replica.group.schedule
    stage = schedule.stage[row]
    forward, backward = (np.flatnonzero(instructions.kind[row] == kind) for kind in (F, B))
    begin, end = copies.inward(keys[backward] + 0.6, stage[backward], nbytes[backward], tier, row[backward])
    _begin_ahead(tasks, replica, begin, backward, copies.offload.prefetch_layers)
    tasks.depend(backward, end)
    out, stored = copies.outward(keys[forward] + 2.5, stage[forward], nbytes[forward], tier, row[forward])
    tasks.depend(out, forward)
    stored_by = np.full(len(row), -1, np.int64)
    stored_by[forward] = stored
    # backward runs the layers in reverse: it reads first what forward stored last
    back_row = row[backward]
    twin = instructions.row_of[F, instructions.virtual_stage[back_row], schedule.micro_batch[back_row]]
    position = (pieces[twin] * (pieces[back_row] - 1 - instructions.piece[backward])) // pieces[back_row]
    tasks.depend(begin, stored_by[instructions.first_task[twin] + position])


def _begin_ahead(tasks: TaskBuilder, replica: ReplicaTasks, begin: Rows, use: Rows, layers: int) -> None:
    """Let copies begin when the layer so many before the one that uses them has run."""
    stage = replica.group.schedule.stage[replica.instructions.row]
    before = use - layers
    same_stage = (before >= 0) & (stage[np.maximum(before, 0)] == stage[use])
    tasks.depend(begin[same_stage], before[same_stage])
