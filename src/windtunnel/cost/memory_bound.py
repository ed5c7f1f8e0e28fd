"""Element-wise work, scans and the optimizer: bytes over achievable bandwidth."""

from __future__ import annotations

from windtunnel.arrays import Floats
from windtunnel.cost.coefficients import Coefficients
from windtunnel.specs.device import DeviceSpec


def pointwise_time_s(
    device: DeviceSpec, coefficients: Coefficients, moved_bytes: Floats, *, row_reduction: bool = False
) -> Floats:
    """Seconds to move `moved_bytes` through device memory, after fusion.

    `row_reduction`: a softmax kernel, whose rows are held in registers between its reductions; it reaches
    `softmax_fraction` of the rate of streaming kernels.

    Source: docs/internals/cost-model.md, element-wise kernels reach 0.66–0.94 of the data-sheet bandwidth; softmax 990
    GB/s where layer norm reaches 1,860 on A100 (LLMCompass, arXiv 2312.03134, figure 5).
    Valid for: more than about 1 MB; launches are the host's business.
    """
    rate = device.memory_bytes_per_s * coefficients.memory_fraction
    return moved_bytes / (rate * coefficients.softmax_fraction if row_reduction else rate)


DEPENDENT_LOAD_S = 1.3e-7
"""A load from the L2 cache that the next one waits for: 193 cycles on V100 (Jia et al. 2018, arXiv 1804.06826), 200 on
A100 (Abdelkhalik et al. 2022, arXiv 2208.11174), at 1.4 to 1.5 GHz."""


def scan_time_s(
    device: DeviceSpec, coefficients: Coefficients, flop: Floats, moved_bytes: Floats, *, number_format: str = "bf16"
) -> Floats:
    """Seconds of a chunked state-space or linear-attention scan.

    Source: docs/internals/cost-model.md; chunk products run at about an eighth of peak. Valid for: chunk 64 to 256.
    Error: the open record has eight such rows; −15 % on Nemotron-H. Chunk products of fp32
    tensors run in TF32 (`tl.dot` in Triton).
    """
    peak = device.peak("tf32" if number_format in ("fp32", "tf32") else "bf16")
    compute = flop / (peak * coefficients.scan_fraction)
    return compute + moved_bytes / (device.memory_bytes_per_s * coefficients.memory_fraction)


OPTIMIZER_STATE_BYTES: dict[str, float] = {
    "adam": 8.0,
    "adam8bit": 2.03,
    "lion": 4.0,
    "momentum": 4.0,
    "sgd": 0.0,
    "adafactor": 0.1,
    "muon": 4.0,
    "none": 0.0,
}
"""Bytes of state per parameter besides master weights; 8-bit states have one fp32 scale a block of 256."""


def optimizer_bytes(name: str, master_bytes: float, grad_bytes: float, param_bytes: float) -> float:
    """Bytes moved per parameter by one optimizer step.

    Reads and writes of states and master weights, one read of the gradient for the update and one for the norm, one
    write of the model weight.

    Source: Rajbhandari et al. 2020 (arXiv 1910.02054), section 3.1, for what a mixed-precision Adam keeps; the passes
    are counted. Valid for: one fused kernel a tensor list; an unfused optimizer moves each operand several times.
    """
    states = OPTIMIZER_STATE_BYTES[name]
    master = master_bytes if master_bytes else param_bytes
    return 2 * states + 2 * master + 2 * grad_bytes + (param_bytes if master_bytes else 0.0)


def optimizer_time_s(device: DeviceSpec, coefficients: Coefficients, params: float, bytes_per_param: float) -> float:
    """Seconds of the optimizer over `params` local parameters.

    Source: 20–21 ps per parameter measured for mixed-precision Adam on A100 (docs/internals/cost-model.md).
    Valid for: fused or multi-tensor implementations.
    """
    return params * bytes_per_param / (device.memory_bytes_per_s * coefficients.optimizer_fraction)
