"""Matrix multiplication: tile and wave quantisation, k ramp, roofline, floor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.tiled import operand_reads
from windtunnel.specs.device import DeviceSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Products:
    """Matrix products (m, k) times (k, n): arrays of one shape, or that broadcast to one; an entry is one launch."""

    m: Floats
    n: Floats
    k: Floats
    groups: Floats
    """Independent products of these sizes in the launch."""
    peak_flop_per_s: Floats
    """Peak of the device in the format of the products, FLOP/s."""
    fraction: Floats
    """Share of the peak that large products reach."""
    operand_bytes: Floats
    """Bytes of an element that is read."""
    output_bytes: Floats
    """Bytes of an element that is written."""
    extra_bytes: Floats
    """Bytes that the launch moves next to operands and outputs, in all."""
    aligned_share: Floats | None = None
    """Rate over that of aligned products, below 1 where rows are no whole 16 bytes (see `aligned`); absent: 1."""


LOAD_BYTES = 16.0
"""Bytes that one thread copies into shared memory at once, and of which strides of bulk copies have to be multiples.
Source: NVIDIA, Matrix Multiplication Background User's Guide, section 2.2 (multiples of 16 bytes); CUDA driver API,
`cuTensorMapEncodeTiled` (`globalStrides`)."""
_BITS = {"fp4": 4.0}


def aligned(device: DeviceSpec, n: float, k: float, operand_bytes: float, number_format: str = "") -> bool:
    """Whether the rows of all matrices of a product are whole loads: outputs and reductions are, tokens are no row.

    Args:
        device: that multiplies; only GPUs load operands this way, others pad to whole tiles.
        n: outputs of a layer's product, or columns of one of a batch.
        k: its reductions.
        operand_bytes: of one element.
        number_format: of the operands, where packing counts.

    Sizes that are no integers are means of many products, not a shape.

    Source: of the dimensions of a product only n and k are strides of its operands, forward and backward (PyTorch,
    `torch/_inductor/fx_passes/pad_mm.py`). Valid for: matrices that start at whole loads, as allocators place them.
    """
    if device.kind != "gpu":
        return True
    elements = LOAD_BYTES * 8.0 / _BITS.get(number_format, 8.0 * operand_bytes)
    return not any(size == int(size) and size % elements for size in (n, k))


def gemm_time_s(device: DeviceSpec, coefficients: Coefficients, products: Products) -> Floats:
    """Seconds of each launch of matrix products, in the shape that the arrays of `products` broadcast to.

    `t = max(W·2·A·B·(k + k0)·e(A,B) / (peak/SMs · fraction), bytes / (bandwidth · fraction_b)) + floor`, the best over
    the device's tiles; `W = w·ceil(n/SMs) + (1 − w)·max(n/SMs, 1)` softens wave quantisation, `e` is the operand
    traffic of a tile relative to the largest one.

    Source: form fitted on 1,900 measured GEMMs of A100, H100, A40, V100 and B200 (docs/internals/cost-model.md).
    Valid for: 1e7 to 1e14 FLOP. Error: 5–7 % mean in grouped cross-validation (V100 13 %).
    """
    m, n, k = products.m, products.n, products.k
    read = operand_reads(device, m, n, k, products.operand_bytes, products.output_bytes)
    moved = products.groups * (read + products.output_bytes * m * n) + products.extra_bytes
    rate = device.memory_bytes_per_s * coefficients.gemm_bytes_fraction
    accumulate = coefficients.accumulate_exposed * products.extra_bytes / rate
    tiled_s = _tiled_s(device, coefficients, products)
    return np.maximum(tiled_s + accumulate, moved / rate) + coefficients.gemm_floor_s


def _tiled_s(device: DeviceSpec, coefficients: Coefficients, products: Products) -> Floats:
    """Seconds of the arithmetic of each launch, over the tiles of the device that suits it best."""
    peak = np.asarray(products.peak_flop_per_s, np.float64) * products.fraction
    if products.aligned_share is not None:
        peak = peak * products.aligned_share
    flop_per_sm = peak / device.num_sms
    c, w = coefficients.gemm_tile_c, coefficients.gemm_wave
    largest = max(device.gemm_tiles, key=lambda tile: tile[0] * tile[1])
    reference = 1.0 + c * (1.0 / largest[0] + 1.0 / largest[1])
    best: Floats | None = None
    for rows, columns in device.gemm_tiles:
        tiles = np.ceil(products.m / rows) * np.ceil(products.n / columns) * products.groups
        waves = tiles / device.num_sms
        quantised = w * np.ceil(waves) + (1.0 - w) * np.maximum(waves, 1.0)
        intensity = (1.0 + c * (1.0 / rows + 1.0 / columns)) / reference
        time = quantised * (2.0 * rows * columns) * (products.k + coefficients.gemm_k0) * intensity / flop_per_sm
        best = time if best is None else np.minimum(best, time)
    assert best is not None
    return best
