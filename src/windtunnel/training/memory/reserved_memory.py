"""What a job holds of device memory beside its tensors: cached segments, CUDA context, communication buffers."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.cost.coefficients import Behaviour
from windtunnel.engine.allocator import Replay, replay_tensors
from windtunnel.network.groups import GroupPlacement, placement
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.schedules.table import InstructionTable
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.memory.stage_trace import Events, StageTrace
from windtunnel.training.memory.tensor_events import KINDS, TEMPORARY
from windtunnel.training.stage_costs.stage_costs import StageCosts

MIB = 2**20
CONTEXT_BYTES = 0.6e9
"""CUDA context and loaded kernels of one process. Assumed: nvidia-smi shows 0.5–0.7 GB for an idle process."""
CONNECTION_BYTES = 14 * MIB
"""One connection of one channel: a receive buffer of 10 MiB (4 MiB simple, 4.7 MiB LL128, 0.5 MiB LL, rounded to 2 MiB)
and two send buffers of 2 MiB. Source: NCCL src/init.cc (default buffer sizes); NVIDIA/nccl issue 1685, 8 H100: an
all-to-all adds 3.28 GB = 7 peers · 32 channels · 14 MiB."""
PEER_CHANNELS = 32
"""Channels to each peer of a send/receive inside the scale-up network. Source: as above."""
NETWORK_PEER_CHANNELS = 2
"""Channels to a peer across nodes; their buffers are shared. Source: NCCL src/init.cc, paths over a NIC (assumed)."""


@dataclass(frozen=True, slots=True)
class ReservedMemory:
    """Device memory that a job holds. Bytes."""

    allocated_bytes: float
    """Largest sum of the tensors' blocks in use."""
    at_peak: dict[str, float]
    """What was in use then, by kind; sums to `allocated_bytes`."""
    allocator_bytes: float
    """What the framework's allocator reserves (`torch.cuda.max_memory_reserved`)."""
    context_bytes: float
    communication_bytes: float
    allocator_retries: int
    """How often the allocator had to return cached segments because the device was full."""

    @property
    def total_bytes(self) -> float:
        """All of it."""
        return self.allocator_bytes + self.context_bytes + self.communication_bytes


def communication_buffer_bytes(parts: StageCosts, plan: ResolvedPlan) -> float:
    """Buffers of the communicators of one rank: rings of the groups that reduce or gather, peers of the others."""
    cluster, params = parts.network.cluster, parts.network.params
    if cluster.device.kind == "tpu":  # no library between the program and its links
        return 0.0

    def ring(place: GroupPlacement) -> float:
        if float(place.size) <= 1:
            return 0.0
        link = params.out if float(place.num_domains) > 1 else params.up
        return link.channels * CONNECTION_BYTES

    def peers(place: GroupPlacement, most: float) -> float:
        inside = min(float(place.ranks_per_domain) - 1, most)
        outside = min(float(place.size) - 1, most) - inside
        return (inside * PEER_CHANNELS + outside * NETWORK_PEER_CHANNELS) * CONNECTION_BYTES

    total = ring(parts.dp_place)
    if plan.expert_dp != plan.dp * plan.cp and plan.ep > 1:
        total += ring(parts.expert_dp_place)
    if plan.tp > 1:
        total += ring(parts.mesh.placement("tp"))
    if plan.cp > 1:
        place = parts.mesh.placement("cp")
        total += peers(place, 1.0 if plan.cp_kind == "ring" else float(place.size))  # token rings return straight
    if plan.pp > 1:
        total += 2 * peers(parts.mesh.placement("pp"), 1.0)
    if plan.ep > 1 and plan.dispatcher in ("alltoall", "allgather"):
        place = placement(plan.ep, plan.etp, cluster.scale_up_domain)
        total += peers(place, float(plan.ep)) if plan.dispatcher in ("alltoall", "einsum") else ring(place)
    return total


def reserved_memory(
    parts: StageCosts,
    plan: ResolvedPlan,
    training: TrainingSpec,
    behaviour: Behaviour,
    table: InstructionTable,
    static: dict[str, float],
    late_bytes: Floats,
    stage: int,
    capacity_bytes: float,
) -> ReservedMemory:
    """Replay the tensors of one stage through the block allocator and add what lives outside of it.

    Args:
        parts: Blocks and virtual stages.
        plan: Axis sizes and policies.
        training: Optimizer and precision.
        behaviour: What the framework does.
        table: The pipeline schedule.
        static: Bytes that live through the step on the stage, by kind.
        late_bytes: Gradients that appear in the first backward, by virtual stage, shape (K,).
        stage: The stage.
        capacity_bytes: The device's memory: an allocator that would pass it returns cached segments first.
    """
    if training.gradients == "zeroth_order":
        return _one_pass(parts, plan, static, stage)
    writer = StageTrace(parts, plan, training, behaviour, table, static, late_bytes, stage)
    events = writer.events()
    sizes, tensors, streams = np.rint(events.sizes).astype(np.int64), events.tensors, events.streams
    chosen = training.expandable_segments
    expandable = behaviour.expandable_segments if chosen is None else chosen
    communication = communication_buffer_bytes(parts, plan)
    outside = CONTEXT_BYTES + communication
    replay = _replayed(sizes, tensors, streams, expandable=expandable)
    allocated, reserved, retries = replay.allocated_bytes, replay.reserved_bytes, 0
    at_peak = alive(events, replay)
    room = capacity_bytes - outside
    if behaviour.planned_memory:  # as large as what is alive
        reserved = allocated
    elif reserved > room > 0:
        if expandable:  # free pages are returned one by one
            reserved, retries = max(allocated, int(room)), 1
        elif allocated > room:  # nothing that is returned makes room
            retries = 1
        else:
            replay = _replayed(sizes, tensors, streams, limit_bytes=int(room))
            reserved, retries = replay.reserved_bytes, replay.releases
    return ReservedMemory(float(allocated), at_peak, float(reserved), CONTEXT_BYTES, communication, retries)


_REPLAYS: dict[bytes, Replay] = {}
"""The latest programs that were replayed, oldest first: what only changes traffic or order keeps its tensors."""
_KEPT = 128


def _replayed(sizes: Ints, tensors: Ints, streams: Ints, *, expandable: bool = False, limit_bytes: int = 0) -> Replay:
    """`replay_tensors`, once for each program."""
    digest = blake2b(f"{expandable} {limit_bytes}".encode(), digest_size=16)
    for column in (sizes, tensors, streams):
        digest.update(np.ascontiguousarray(column, np.int64).tobytes())
    key = digest.digest()
    if key not in _REPLAYS:
        if len(_REPLAYS) >= _KEPT:
            _REPLAYS.pop(next(iter(_REPLAYS)))
        _REPLAYS[key] = replay_tensors(sizes, tensors, streams, expandable=expandable, limit_bytes=limit_bytes)
    return _REPLAYS[key]


def _one_pass(parts: StageCosts, plan: ResolvedPlan, static: dict[str, float], stage: int) -> ReservedMemory:
    """Without backward: what stays, and one layer's tensors at a time, each layer in the place of the one before."""
    used = dict(static) | {"temporaries": float(parts.transient_bytes[0].max())}
    total = sum(used.values())
    return ReservedMemory(total, used, total, CONTEXT_BYTES, communication_buffer_bytes(parts, plan), 0)


def alive(events: Events, replay: Replay) -> dict[str, float]:
    """Bytes in use at the peak by kind of tensor; what blocks add to their tensors counts as temporaries."""
    row = slice(0, replay.peak_event + 1)
    size = np.zeros(int(events.tensors.max(initial=0)) + 1)
    kind = np.zeros(len(size), np.int64)
    made = events.sizes > 0
    size[events.tensors[made]] = events.sizes[made]  # a number that is used again has the size it had
    kind[events.tensors[made]] = events.kinds[made]
    sign = np.where(made[row], 1.0, -1.0)
    total = np.bincount(kind[events.tensors[row]], weights=sign * size[events.tensors[row]], minlength=len(KINDS))
    out = {name: float(value) for name, value in zip(KINDS, total, strict=True)}
    out[KINDS[TEMPORARY]] += replay.allocated_bytes - sum(out.values())
    return {name: value for name, value in out.items() if abs(value) >= 1.0}
