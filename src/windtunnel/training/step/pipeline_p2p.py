"""Activations and their gradients from one pipeline stage to the next: how long a hop takes and what it loads."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Mask, Rows
from windtunnel.cost.coefficients import Coefficients
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.program.comm_work import CommWork
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.training.data_parallel.gradient_compression import gathered_wire
from windtunnel.training.stage_costs.stage_costs import StageCosts


def hop_times(stages: StageCosts, plan: ResolvedPlan) -> tuple[float, float]:
    """Seconds of a hop between two stages inside one scale-up domain, and across domains.

    Under scatter-gather (no sequence parallelism) the receiver gathers over NVLink.
    """
    extra = 0.0
    sent, kernels = hop_bytes(stages, plan)
    whole = sent * plan.tp
    if plan.tp > 1 and not plan.sp and whole > 0 and stages.scatter_gather:
        extra = float(stages.network.collective("all_gather", whole, stages.mesh.placement("tp"), axis="tp").alone_s)
    near, far = (float(stages.network.p2p(sent, crosses).alone_s) for crosses in (False, True))
    return near + extra + kernels, far + extra + kernels


def hop_bytes(stages: StageCosts, plan: ResolvedPlan) -> tuple[float, float]:
    """Bytes of a hop, and seconds of the kernels that make it small and wide again."""
    given = plan.compression
    if given.hop_bits is None:
        return stages.p2p_bytes, 0.0
    element = stages.graph.element_bytes
    sent = stages.p2p_bytes / element * gathered_wire(given.hop_bits, given.hop_block)
    prior = Coefficients()
    rate = stages.network.cluster.device.memory_bytes_per_s * prior.memory_fraction
    return sent, 2.0 * ((stages.p2p_bytes + sent) / rate + prior.gemm_floor_s)


def hop_crosses(stride: int, domain: int, source: Rows, target: Rows) -> Mask:
    """Whether a hop leaves the scale-up domain, for stages `stride` devices apart."""
    return np.asarray((source * stride) // domain != (target * stride) // domain)


def p2p_work(stages: StageCosts, plan: ResolvedPlan, cluster: ClusterSpec, source: Rows, target: Rows) -> CommWork:
    """Seconds and bytes of hops from pipeline stages `source` to stages `target`."""
    cross = hop_crosses(stages.mesh.strides["pp"], cluster.scale_up_domain, source, target)
    near_s, far_s = hop_times(stages, plan)
    sent, _ = hop_bytes(stages, plan)
    near, far = stages.network.p2p(sent, False), stages.network.p2p(sent, True)
    return CommWork.of(
        np.where(cross, far_s, near_s),
        scale_up_bytes=np.where(cross, 0.0, float(near.work_scale_up_bytes)),
        scale_out_bytes=np.where(cross, float(far.work_scale_out_bytes), 0.0),
    )
