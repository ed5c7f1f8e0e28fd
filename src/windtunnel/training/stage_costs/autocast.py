"""Mixed precision by `torch.autocast`: weights stay fp32, each pass casts what its products read.

A pass of a micro-batch casts every weight once (autocast's weight cache); backward of the product reads that copy, so
it lives until then. The gradient comes in 16 bits and is cast to the weight's fp32 at once. FSDP has its own policy
instead and gathers weights in 16 bits.

Source: PyTorch 2.x, `aten/src/ATen/autocast_mode.cpp` (`cached_cast`; cleared when the outermost context ends) and
`ToCopyBackward0`.
"""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.graph import Kind, Operator
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.program.segment import COMPUTE, Launch, Segment
from windtunnel.specs.device import DeviceSpec

CAST_BYTES = 2.0
"""Bytes of the 16-bit copy of one weight."""
_MOVED_BYTES = 4.0 + CAST_BYTES
"""Read and written by one cast, of a weight or of its gradient."""


def casts_weights(behaviour: Behaviour, plan: ResolvedPlan) -> bool:
    """Whether passes run under autocast."""
    return behaviour.autocast and plan.zero != 3


def cast_elements(op: Operator) -> float:
    """Weights that an operator's product reads as a cast copy, on this rank."""
    if op.kind not in (Kind.GEMM, Kind.GROUPED_GEMM):
        return 0.0
    return op.params or (op.n * op.k if op.name == "lm_head" else 0.0)  # a tied head's are the embedding's


def add_casts(
    segment: Segment, operators: Sequence[Operator], device: DeviceSpec, coefficients: Coefficients, *, frozen: bool
) -> None:
    """Append the casts of a layer to its segment: of weights forward, of their gradients backward.

    Args:
        segment: forward or backward of the layer.
        operators: of the layer, on this rank.
        device: where it runs.
        coefficients: of device and framework.
        frozen: whether the weights have no gradients.
    """
    cast = [n for op in operators if (n := cast_elements(op))]
    if not cast or not segment.launches or (frozen and segment.direction != "F"):
        return
    moved = sum(cast) * _MOVED_BYTES
    seconds = moved / (device.memory_bytes_per_s * coefficients.memory_fraction)
    segment.append(
        Launch(
            name="autocast",
            tag="memory_bound",
            stream=COMPUTE,
            alone_s=seconds,
            after=[len(segment.launches) - 1],
            sm=1.0,
            hbm_bytes=moved,
            kernels=float(len(cast)),
            phase="D",
            kind="memory_bound",
        )
    )
