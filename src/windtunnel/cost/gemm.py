"""Matrix multiplication: tile and wave quantisation, k ramp, roofline, floor."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats, Mask
from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.tiled import operand_reads
from windtunnel.specs.device import DeviceSpec


def gemm_time_s(
    device: DeviceSpec,
    coefficients: Coefficients,
    m: Floats,
    n: Floats,
    k: Floats,
    *,
    peak_flop_per_s: Floats,
    fraction: Floats,
    operand_bytes: Floats,
    output_bytes: Floats,
    extra_bytes: Floats,
    groups: Floats,
    unaligned: Mask | None = None,
) -> Floats:
    """Seconds of `groups` independent (m, n, k) products, all arguments of one shape (broadcast).

    `t = max(W·2·A·B·(k + k0)·e(A,B) / (peak/SMs · fraction), bytes / (bandwidth · fraction_b)) + floor`, the best over
    the device's tiles; `W = w·ceil(n/SMs) + (1 − w)·max(n/SMs, 1)` softens wave quantisation, `e` is the operand
    traffic of a tile relative to the largest one.

    Units: FLOP/s, bytes, seconds. `operand_bytes` and `output_bytes` are per element, `extra_bytes` in all.
    Source: form fitted on 1,900 measured GEMMs of A100, H100, A40, V100 and B200 (docs/internals/cost-model.md).
    Valid for: 1e7 to 1e14 FLOP. Error: 5–7 % mean in grouped cross-validation (V100 13 %).
    """
    peak = np.asarray(peak_flop_per_s, np.float64) * fraction
    if unaligned is not None:
        peak = np.where(unaligned, peak * coefficients.unaligned_fraction, peak)
    flop_per_sm = peak / device.num_sms
    c, w = coefficients.gemm_tile_c, coefficients.gemm_wave
    largest = max(device.gemm_tiles, key=lambda tile: tile[0] * tile[1])
    reference = 1.0 + c * (1.0 / largest[0] + 1.0 / largest[1])
    best: Floats | None = None
    for rows, columns in device.gemm_tiles:
        tiles = np.ceil(m / rows) * np.ceil(n / columns) * groups
        waves = tiles / device.num_sms
        quantised = w * np.ceil(waves) + (1.0 - w) * np.maximum(waves, 1.0)
        intensity = (1.0 + c * (1.0 / rows + 1.0 / columns)) / reference
        time = quantised * (2.0 * rows * columns) * (k + coefficients.gemm_k0) * intensity / flop_per_sm
        best = time if best is None else np.minimum(best, time)
    read = operand_reads(device, m, n, k, operand_bytes, output_bytes)
    moved = groups * (read + output_bytes * m * n) + extra_bytes
    rate = device.memory_bytes_per_s * coefficients.gemm_bytes_fraction
    assert best is not None
    accumulate = coefficients.accumulate_exposed * extra_bytes / rate
    return np.maximum(best + accumulate, moved / rate) + coefficients.gemm_floor_s
