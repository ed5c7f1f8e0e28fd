"""Bytes of frozen weights that are kept in few bits under adapters, and of unpacking them for a product."""

from __future__ import annotations

_BLOCK, _SCALES, _GROUP = 64.0, 256.0, 128.0
BASE_BYTES: dict[str, float] = {
    "nf4": 0.5 + 1 / _BLOCK + 4 / (_BLOCK * _SCALES),
    "nf4_single": 0.5 + 4 / _BLOCK,
    "int4": 0.5 + 2.5 / _GROUP,
    "int8": 1.0,
    "fp8": 1.0,
    "mxfp8": 2.0 * (1.0 + 1.0 / 32.0),
    "mxfp4": 2.0 * (0.5 + 1.0 / 32.0),
    "nvfp4": 2.0 * (0.5 + 1.0 / 16.0),
}
"""Bytes of one weight by format of the base, scales included.

`nf4`: four bits, an 8-bit scale for each block of 64 weights, an fp32 scale for every 256 of those; `nf4_single`:
an fp32 scale for each block. Source: Dettmers et al. 2023 (arXiv 2305.14314), section 3. `int4`: a 16-bit scale and a
4-bit zero point for each group of 128. Source: Frantar et al. 2022 (arXiv 2210.17323), section 4.
`int8`: one scale a row, which is left out. Source: Dettmers et al. 2022 (arXiv 2208.07339), section 3.
`fp8`: one scale a tensor, which is left out. Source: Transformer Engine `pytorch/fp8.py` (`fp8_model_init`).
`mxfp8`, `mxfp4`, `nvfp4`: two copies, scaled along rows for the product and along columns for its input's gradient,
with a scale of eight bits for each block of 32 (`nvfp4`: 16). Source: Transformer Engine
`pytorch/tensor/mxfp8_tensor.py` and `nvfp4_tensor.py` (row-wise and column-wise data).
"""
UNPACKED_BYTES: dict[str, float] = {
    "nf4": 0.56,
    "nf4_single": 0.5625,
    "int4": 0.52,
    "int8": 1.0,
    "fp8": 1.0,
    "mxfp8": 1.03,
    "mxfp4": 0.53125,
    "nvfp4": 0.5625,
}
"""Bytes read to unpack one weight; the 16-bit result is written besides."""
TRANSPOSED_BYTES = 2.0
"""Bytes moved to transpose one fp8 weight for the gradient of its input: it is read and written once."""
ROW_BY_COLUMN_ONLY = ("ada", "hopper", "blackwell_gb20x")
"""Generations whose fp8 products take rows times columns alone, so that backward transposes a weight that is kept once.
Source: cuBLAS 12 documentation, `cublasLtMatmul` (fp8 kernels: TN format on Ada and Hopper, all formats on Blackwell);
Transformer Engine `pytorch/utils.py`, `is_non_tn_fp8_gemm_supported` (not on SM 12.0); Megatron-Core
`disable_parameter_transpose_cache`."""


HELD = ("fp8", "mxfp8", "mxfp4", "nvfp4")
"""Training precisions whose products take frozen weights as a base of the same name stores them."""


def multiplied_as_stored(base: str | None, precision: str) -> bool:
    """Whether a frozen weight is multiplied in the format that it is stored in: no cast and no unpacking.

    Args:
        base: Format of the base (`BASE_BYTES`); None: 16 bits.
        precision: Training precision.
    """
    return base == precision and precision in HELD
