"""Activations and their gradients from one pipeline stage to the next: how long a hop takes and what it loads."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats, Mask, Rows
from windtunnel.cost.coefficients import Coefficients
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.training.data_parallel.gradient_compression import gathered_wire
from windtunnel.training.stage_costs.stage_costs import StageCosts


def hop_times(parts: StageCosts, plan: ResolvedPlan) -> tuple[float, float]:
    """Seconds of a hop between two stages inside one scale-up domain, and across domains.

    Under scatter-gather (no sequence parallelism) the receiver gathers over NVLink.
    """
    extra = 0.0
    sent, kernels = hop_bytes(parts, plan)
    whole = sent * plan.tp
    if plan.tp > 1 and not plan.sp and whole > 0 and parts.scatter_gather:
        extra = float(parts.network.collective("all_gather", whole, parts.mesh.placement("tp"), axis="tp").alone_s)
    near, far = (float(parts.network.p2p(sent, away).alone_s) for away in (False, True))
    return near + extra + kernels, far + extra + kernels


def hop_bytes(parts: StageCosts, plan: ResolvedPlan) -> tuple[float, float]:
    """Bytes of a hop, and seconds of the kernels that make it small and wide again."""
    given = plan.compression
    if given.hop_bits is None:
        return parts.p2p_bytes, 0.0
    element = parts.graph.element_bytes
    sent = parts.p2p_bytes / element * gathered_wire(given.hop_bits, given.hop_block)
    chosen = Coefficients()
    rate = parts.network.cluster.device.memory_bytes_per_s * chosen.memory_fraction
    return sent, 2.0 * ((parts.p2p_bytes + sent) / rate + chosen.gemm_floor_s)


def hop_crosses(stride: int, domain: int, source: Rows, target: Rows) -> Mask:
    """Whether a hop leaves the scale-up domain, for stages `stride` devices apart."""
    return np.asarray((source * stride) // domain != (target * stride) // domain)


def hop_seconds(
    parts: StageCosts, plan: ResolvedPlan, cluster: ClusterSpec, source: Rows, target: Rows
) -> tuple[Floats, Floats, Floats]:
    """Seconds and work of each hop."""
    cross = hop_crosses(parts.mesh.strides["pp"], cluster.scale_up_domain, source, target)
    near_s, far_s = hop_times(parts, plan)
    sent, _ = hop_bytes(parts, plan)
    near, far = parts.network.p2p(sent, False), parts.network.p2p(sent, True)
    up = np.where(cross, 0.0, float(near.work_scale_up_bytes))
    out = np.where(cross, float(far.work_scale_out_bytes), 0.0)
    return np.where(cross, far_s, near_s), up, out
