"""Fused attention, forward and backward."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from windtunnel.cost.coefficients import Coefficients
from windtunnel.specs.device import DeviceSpec

Floats = npt.NDArray[np.float64]
BACKWARD_FLOP_RATIO = 2.5
"""Five matrix products backward against two forward (Dao et al. 2022, arXiv 2205.14135, appendix B)."""


def attention_time_s(
    device: DeviceSpec,
    coefficients: Coefficients,
    pairs: Floats,
    heads: Floats,
    d_qk: Floats,
    d_v: Floats,
    seq_len: Floats,
    *,
    kernel: str,
    backward: bool,
) -> Floats:
    """Seconds of a fused attention kernel over `pairs` query-key pairs per head (mask already applied).

    `t = F / (peak_bf16 · e · s/(s + s0) · min(1, d/128)^x) + floor` with F = 2·pairs·heads·(d_qk + d_v) forward and 2.5
    times that backward at a rate `attention_backward` of the forward one.

    Source: MODELLING notes in docs/cost-model.md; FlashAttention-2 (arXiv 2307.08691) for the FLOP count.
    Valid for: s 512 to 131,072, head size 64 to 256.
    """
    fraction = coefficients.attention_fraction.get(kernel, coefficients.attention_fraction["flash2"])
    flop = 2.0 * pairs * heads * (d_qk + d_v)
    if device.kind == "tpu":  # a systolic array takes heads in whole multiples of its side; the rest is padding
        side = float(device.gemm_tiles[0][0])
        narrow = (d_qk + d_v) / (side * (np.ceil(d_qk / side) + np.ceil(d_v / side)))
    else:
        narrow = np.minimum(1.0, (d_qk + d_v) / 256.0) ** coefficients.attention_head_exponent
    rate = device.peak("bf16") * fraction * seq_len / (seq_len + coefficients.attention_ramp) * narrow
    if backward:
        return BACKWARD_FLOP_RATIO * flop / (rate * coefficients.attention_backward) + coefficients.attention_floor_s
    return flop / rate + coefficients.attention_floor_s
