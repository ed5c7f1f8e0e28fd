"""Device memory that a job reserves: cached segments of the allocator, CUDA context and communication buffers."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.engine.allocator import Replay, replay_tensors
from windtunnel.errors import BadInput, Problem
from windtunnel.network.groups import GroupPlacement, placement
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.training.memory.memory_inputs import MemoryInputs
from windtunnel.training.memory.stage_trace import StageEvents, StageTraceWriter
from windtunnel.training.memory.static_memory import StaticMemory
from windtunnel.training.memory.tensor_events import KINDS, OUTPUTS, TEMPORARY, WORKSPACE
from windtunnel.training.stage_costs.stage_costs import StageCosts

MIB = 2**20
CONTEXT_BYTES = 0.6e9
"""CUDA context and loaded kernels of one process. Assumed: nvidia-smi shows 0.5–0.7 GB for an idle process."""
CONNECTION_BYTES = 14 * MIB
"""Buffers of one connection of one channel: a receive buffer of 10 MiB (4 MiB simple, 4.7 MiB LL128, 0.5 MiB LL,
rounded to 2 MiB) and two send buffers of 2 MiB. Source: NCCL src/init.cc (default buffer sizes); NVIDIA/nccl issue
1685, 8 H100: an all-to-all adds 3.28 GB = 7 peers · 32 channels · 14 MiB."""
PEER_CHANNELS = 32
"""Channels to each peer of a send/receive inside the scale-up network. Source: NVIDIA/nccl issue 1685."""
NETWORK_PEER_CHANNELS = 2
"""Channels to a peer across nodes; their buffers are shared. Source: NCCL src/init.cc, paths over a NIC (assumed)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedMemory:
    """Device memory that a job holds, in bytes."""

    allocated_bytes: float
    """Largest sum of the allocator's blocks that tensors use."""
    at_peak: dict[str, float]
    """Kind of tensor → bytes in use at that peak; the values sum to `allocated_bytes`."""
    step_bytes: float
    """The same sum at its largest within a step: before the first one, weights may be on the device twice."""
    at_step_peak: dict[str, float]
    """Kind of tensor → bytes in use then; the values sum to `step_bytes`."""
    allocator_bytes: float
    """Bytes that the framework's allocator reserves (`torch.cuda.max_memory_reserved`)."""
    wanted_bytes: float
    """Bytes that it would reserve on a device without a limit."""
    context_bytes: float
    communication_bytes: float
    allocator_retries: int
    """Times that the allocator had to return cached segments because the device was full."""

    @property
    def total_bytes(self) -> float:
        """Sum of the three reservations."""
        return self.allocator_bytes + self.context_bytes + self.communication_bytes


def communication_buffer_bytes(costs: StageCosts, plan: ResolvedPlan) -> float:
    """Bytes of the communicators of one rank: rings of the groups that reduce or gather, peers of the others."""
    cluster, params = costs.network.cluster, costs.network.params
    if cluster.device.kind == "tpu":  # no library between the program and its links
        return 0.0

    def ring(place: GroupPlacement) -> float:
        if float(place.size) <= 1:
            return 0.0
        link = params.out if float(place.num_domains) > 1 else params.up
        return link.channels * CONNECTION_BYTES

    def peers(place: GroupPlacement, limit: float) -> float:
        inside = min(float(place.ranks_per_domain) - 1, limit)
        outside = min(float(place.size) - 1, limit) - inside
        return (inside * PEER_CHANNELS + outside * NETWORK_PEER_CHANNELS) * CONNECTION_BYTES

    total = ring(costs.dp_place)
    if plan.expert_dp != plan.dp * plan.cp and plan.ep > 1:
        total += ring(costs.expert_dp_place)
    if plan.tp > 1:
        total += ring(costs.mesh.placement("tp"))
    if plan.cp > 1:
        place = costs.mesh.placement("cp")
        total += peers(place, 1.0 if plan.cp_kind == "ring" else float(place.size))  # token rings return straight
    if plan.pp > 1:
        total += 2 * peers(costs.mesh.placement("pp"), 1.0)
    if plan.ep > 1 and plan.dispatcher in ("alltoall", "allgather"):
        place = placement(plan.ep, plan.etp, cluster.scale_up_domain)
        total += peers(place, float(plan.ep)) if plan.dispatcher in ("alltoall", "einsum") else ring(place)
    return total


def reserved_memory(inputs: MemoryInputs, static: StaticMemory, stage: int, capacity_bytes: float) -> ReservedMemory:
    """Replay the tensors of one stage through the block allocator and add what lives outside of it.

    Args:
        inputs: The step.
        static: Bytes that live through it.
        stage: The pipeline stage.
        capacity_bytes: Memory of one device: an allocator that would exceed it returns cached segments first.
    """
    costs, plan, training, framework = inputs.costs, inputs.plan, inputs.training, inputs.framework
    if training.gradients == "zeroth_order":
        return _one_pass(costs, plan, static.on_stage(stage))
    writer = StageTraceWriter(inputs, static.on_stage(stage), static.late_gradient_bytes, stage)
    events = writer.events()
    if not np.abs(events.sizes).sum() < _MOST_BYTES:
        raise BadInput(Problem("model", "with this sequence length and batch, tensors would take more than 4 EiB"))
    sizes, tensors, streams = np.rint(events.sizes).astype(np.int64), events.tensors, events.streams
    chosen = training.expandable_segments
    expandable = framework.expandable_segments if chosen is None else chosen
    communication = communication_buffer_bytes(costs, plan)
    replay = _replay(sizes, tensors, streams, expandable=expandable)
    allocated, retries = replay.allocated_bytes, 0
    here = static.on_stage(stage)
    reserved = replay.reserved_bytes + _warm_up_bytes(plan, here, replay, expandable=expandable)
    wanted, named = allocated if framework.planned_memory else reserved, _named_buffers(here)
    at_peak = _split(bytes_at_peak(events, replay.peak_event, replay.allocated_bytes), named)
    step_peak, step_bytes = _step_peak(events, writer.step_starts, replay)
    at_step_peak = _split(bytes_at_peak(events, step_peak, step_bytes), named)
    room = capacity_bytes - (CONTEXT_BYTES + communication)
    if framework.planned_memory:  # a planning compiler reserves exactly what is allocated
        reserved = allocated
    elif reserved > room > 0:
        if expandable:  # free pages are returned one by one
            reserved, retries = max(allocated, int(room)), 1
        elif allocated > room:  # returning every cached segment would not make room
            retries = 1
        else:
            replay = _replay(sizes, tensors, streams, limit_bytes=int(room))
            reserved = replay.reserved_bytes + _warm_up_bytes(plan, here, replay, expandable=expandable)
            retries = replay.releases
    return ReservedMemory(
        allocated_bytes=float(allocated),
        at_peak=at_peak,
        step_bytes=step_bytes,
        at_step_peak=at_step_peak,
        allocator_bytes=float(reserved),
        wanted_bytes=float(wanted),
        context_bytes=CONTEXT_BYTES,
        communication_bytes=communication,
        allocator_retries=retries,
    )


def _warm_up_bytes(plan: ResolvedPlan, static: dict[str, float], replay: Replay, *, expandable: bool) -> int:
    """Segments that steps before the capture of a whole-step graph leave behind, which the graph's own pool cannot use.

    Expandable segments give their pages back before the capture.

    Source: PyTorch `c10/cuda/CUDACachingAllocator.cpp` (`graph_pools`: a capture allocates from a pool of its own);
    NVIDIA-NeMo/Megatron-Bridge issue 4587 (60.9 GB inactive after the first step without expandable segments, none
    with them).
    """
    if plan.cuda_graphs != "full" or expandable:
        return 0
    return max(replay.reserved_bytes - round(sum(static.values())), 0)


_MOST_BYTES = 2.0**62
"""Bytes of all tensors of a trace that whole numbers of 64 bits can count."""
_REPLAYS: dict[bytes, Replay] = {}
"""Digest of a tensor trace → its replay, oldest first. Plans that differ in communication alone share a trace."""
_MAX_REPLAYS = 128


def _replay(sizes: Ints, tensors: Ints, streams: Ints, *, expandable: bool = False, limit_bytes: int = 0) -> Replay:
    """Replay a tensor trace, or return the replay of an equal one."""
    digest = blake2b(f"{expandable} {limit_bytes}".encode(), digest_size=16)
    for column in (sizes, tensors, streams):
        digest.update(np.ascontiguousarray(column, np.int64).tobytes())
    key = digest.digest()
    if key not in _REPLAYS:
        if len(_REPLAYS) >= _MAX_REPLAYS:
            _REPLAYS.pop(next(iter(_REPLAYS)))
        _REPLAYS[key] = replay_tensors(sizes, tensors, streams, expandable=expandable, limit_bytes=limit_bytes)
    return _REPLAYS[key]


def _one_pass(costs: StageCosts, plan: ResolvedPlan, static: dict[str, float]) -> ReservedMemory:
    """Memory of a step without a backward pass: static tensors, and the temporaries of one layer at a time."""
    used = dict(static) | {"temporaries": float(costs.transient_bytes[0].max())}
    total = sum(used.values())
    return ReservedMemory(
        allocated_bytes=total,
        at_peak=used,
        step_bytes=total,
        at_step_peak=used,
        allocator_bytes=total,
        wanted_bytes=total,
        context_bytes=CONTEXT_BYTES,
        communication_bytes=communication_buffer_bytes(costs, plan),
        allocator_retries=0,
    )


def bytes_at_peak(events: StageEvents, peak_event: int, allocated_bytes: float) -> dict[str, float]:
    """Bytes in use after an event by kind of tensor.

    What the allocator's blocks add to the sizes of their tensors, up to `allocated_bytes`, counts as temporaries.
    """
    row = slice(0, peak_event + 1)
    size = np.zeros(int(events.tensors.max(initial=0)) + 1)
    kind = np.zeros(len(size), np.int64)
    made = events.sizes > 0
    size[events.tensors[made]] = events.sizes[made]  # a number that is used again has the size it had
    kind[events.tensors[made]] = events.kinds[made]
    sign = np.where(made[row], 1.0, -1.0)
    total = np.bincount(kind[events.tensors[row]], weights=sign * size[events.tensors[row]], minlength=len(KINDS))
    out = {name: float(value) for name, value in zip(KINDS, total, strict=True)}
    out[KINDS[TEMPORARY]] += allocated_bytes - sum(out.values())
    return {name: value for name, value in out.items() if abs(value) >= 1.0}


def _step_peak(events: StageEvents, start: int, replay: Replay) -> tuple[int, float]:
    """The event at which a step, which begins with event `start`, has most in use, and the bytes of its blocks."""
    if replay.peak_event >= start:
        return replay.peak_event, float(replay.allocated_bytes)
    size = np.zeros(int(events.tensors.max(initial=0)) + 1)
    made = events.sizes > 0
    size[events.tensors[made]] = events.sizes[made]
    in_use = np.cumsum(np.where(made, 1.0, -1.0) * size[events.tensors])
    event = start + int(np.argmax(in_use[start:])) if start < len(in_use) else len(in_use) - 1
    return event, float(in_use[event])


def _named_buffers(static: dict[str, float]) -> dict[str, dict[str, float]]:
    """Kind in the trace → bytes of the buffers with names of their own that it counts for."""
    own = {name: size for name, size in static.items() if name not in KINDS}
    outputs = {name: own.pop(name) for name in ("stage buffers",) if name in own}
    return {KINDS[WORKSPACE]: own, KINDS[OUTPUTS]: outputs}


def _split(at_peak: dict[str, float], named: dict[str, dict[str, float]]) -> dict[str, float]:
    """Bytes by kind, with buffers under their own names as soon as they exist."""
    out = dict(at_peak)
    for kind, buffers in named.items():
        total = sum(buffers.values())
        if buffers and out.get(kind, 0.0) > total * (1.0 - 1e-6):
            rest = out.pop(kind) - total
            out |= buffers | ({kind: rest} if rest >= 1.0 else {})
            out[KINDS[TEMPORARY]] = out.get(KINDS[TEMPORARY], 0.0) + (rest if rest < 1.0 else 0.0)
    return out
