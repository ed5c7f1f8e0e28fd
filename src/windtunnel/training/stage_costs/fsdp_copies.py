"""Copies that FSDP makes next to its collectives, on the stream that computes.

A gathered buffer holds the ranks' shards one after the other, so per-parameter sharding (FSDP2) copies it out into the
layer's weights before the layer runs, and copies the layer's gradients into a buffer of the reduction's format before
they are scattered. A flat parameter (FSDP1) is used in place; its gradients are concatenated, cast and divided. FSDP1
casts and divides on the stream that reduces, but those kernels take the SMs that products would: charged there as well.

Source: PyTorch 2.1–2.9, `torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py` (`foreach_all_gather_copy_out`,
`foreach_reduce_scatter_copy_in`) and `_runtime_utils.py` (`_reduce_grad`); reads and writes counted.
"""

from __future__ import annotations

from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.program.segment import COMPUTE, Launch, Segment
from windtunnel.specs.device import DeviceSpec


def copy_bytes(
    behaviour: Behaviour,
    plan: ResolvedPlan,
    grad_bytes: float,
    direction: str,
    *,
    frozen: bool = False,
    one_stream: bool = False,
) -> float:
    """Bytes read and written per unsharded parameter in one pass of a micro-batch over a layer.

    Args:
        behaviour: how the framework shards.
        plan: ZeRO stage, axes and whether weights are gathered again in backward.
        grad_bytes: bytes of one gradient on the wire.
        direction: F or B.
        frozen: whether the weights have no gradients of their own (LoRA).
        one_stream: the device has no stream of its own for copying shards into the buffer that is gathered (a CPU).
    """
    if plan.zero != 3 or plan.dp * plan.cp * plan.copies == 1 or behaviour.fsdp_copies == "none":
        return 0.0
    own = behaviour.element_bytes  # of weights and gradients as computed with
    out = 2.0 * own if behaviour.fsdp_copies == "per_parameter" else 0.0  # read and written
    if behaviour.fsdp_copies == "per_parameter" and one_stream:  # the fp32 shard is read, and written as gathered
        out += (4.0 + own) / plan.shard_group
    if behaviour.fsdp_copies == "per_parameter":
        back = own + grad_bytes
    else:  # concatenation, cast where the formats differ, division in place
        back = 2.0 * own + (own + grad_bytes if grad_bytes > own else 0.0) + 2.0 * grad_bytes
    back = 0.0 if frozen else back
    if plan.gather_block:
        return (out if direction == "F" else out + back) / plan.gather_block
    if not plan.reshard_after_forward:  # gathered once and reduced once a step, whatever the number of micro-batches
        return (out if direction == "F" else back) / plan.m
    return out if direction == "F" else out + back


def add_copies(
    segment: Segment, params: float, per_param: float, device: DeviceSpec, coefficients: Coefficients
) -> None:
    """Append the copies of a layer with `params` unsharded parameters to its segment."""
    moved = params * per_param
    if not moved or not segment.launches:
        return
    seconds = moved / (device.memory_bytes_per_s * coefficients.memory_fraction)
    last = len(segment.launches) - 1
    segment.append(
        Launch(
            name="fsdp_copies",
            tag="memory_bound",
            stream=COMPUTE,
            alone_s=seconds,
            after=[last],
            sm=1.0,
            hbm_bytes=moved,
            kernels=2.0,
            phase="D",
            kind="memory_bound",
        )
    )
