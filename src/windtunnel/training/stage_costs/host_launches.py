"""What the host does for each segment: launches, reads of sizes, and whether it keeps ahead of the device."""

from __future__ import annotations

from windtunnel.cost.coefficients import Coefficients
from windtunnel.graph import ModelGraph, Style
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.program.segment import Segment
from windtunnel.specs.model import ModelSpec
from windtunnel.training.stage_costs.eager_operators import Eager, bookkeeping, exchange, rotation

_DISPATCH = frozenset({"permute", "moe", "moe_act", "ep_comm"})
_MIXTURE = _DISPATCH | {"router", "shared_experts"}
"""Modules of a mixture that the launches of a plain layer (`Style.layer_kernels`) do not contain."""


def host_work(
    segments: list[Segment],
    model: ModelSpec,
    g: ModelGraph,
    plan: ResolvedPlan,
    coefficients: Coefficients,
    style: Style,
    eager: Eager,
) -> tuple[list[float], list[float], list[bool]]:
    """Per segment: launches, seconds that the device waits for reads, and whether a read takes the host's lead away.

    A graph over a layer holds its attention and, in a mixture padded to a capacity, everything else; otherwise, with
    or without a capacity, the sizes of what follows the router are read back, so that only the router is captured.
    Source: Megatron-Core `token_dispatcher.py` (`MoEAlltoAllTokenDispatcher.preprocess`).
    """
    host, sync, drained = [], [], []
    launches_an_operator = (
        coefficients.operator_host_s / coefficients.host_kernel_s if coefficients.host_kernel_s else 0.0
    )
    graphs = plan.cuda_graphs
    read_back = not model.has_fixed_expert_rows
    for segment in segments:
        ends = segment.name in ("embedding", "head")
        mixture = not ends and g.blocks[segment.name].expert_params > 0
        plain = sum(x.kernels for x in segment.launches if x.module not in _MIXTURE)
        router = sum(x.kernels for x in segment.launches if x.module in _MIXTURE - _DISPATCH)
        dispatch = sum(x.kernels for x in segment.launches if x.module in _DISPATCH)
        if not ends:  # the style states how many launches a plain layer takes; recomputation comes on top
            forward = sum(x.kernels for x in segment.launches if x.phase == "F" and x.module not in _MIXTURE)
            base = style.layer_kernels[0] if segment.direction == "F" else style.layer_kernels[1]
            again = style.layer_kernels[0] if any(x.phase == "R" for x in segment.launches) else 0.0
            plain = max(base, forward) + again if segment.launches else 0.0
            if segment.direction == "W":
                plain = base / 2 if segment.launches else 0.0
        waited = 0.0
        if not ends and graphs in ("none", "moe"):
            turned, stalled = rotation(segment, model, plan, eager)
            waited = (stalled + exchange(segment, plan, eager)) * coefficients.operator_host_s
            plain += turned * launches_an_operator
        if mixture and graphs in ("none", "attention"):
            router += bookkeeping(segment, plan, eager) * launches_an_operator
        if graphs in ("layer", "attention") and not ends:
            plain = 1.0
        if graphs in ("layer", "moe") and mixture:
            router = 1.0
            dispatch = dispatch if read_back else 0.0
        host.append(1.0 if graphs == "full" else plain + router + dispatch)
        reads = mixture and read_back and graphs != "full"
        sync.append(waited + (coefficients.moe_sync_s / 2 if reads and segment.direction in "FB" else 0.0))
        drained.append(reads or waited > 0.0)
    return host, sync, drained
