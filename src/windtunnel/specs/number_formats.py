"""Number formats of training: which matrices a precision multiplies, and on which devices it can."""

from __future__ import annotations

from collections.abc import Collection

MATRIX_FORMAT = {
    "fp32": "fp32",
    "tf32": "tf32",
    "fp16": "fp16",
    "bf16": "bf16",
    "fp8": "fp8",
    "fp8_rowwise": "fp8",
    "fp8_block": "fp8",
    "mxfp8": "fp8",
    "mxfp4": "fp4",
    "nvfp4": "fp4",
    "int8": "int8",
}
"""Precision of training → format of its matrices."""

UNITS_OF_THEIR_OWN = ("fp8", "int8", "fp4")
"""Matrix formats that a device without their units does not multiply; wider ones run, slower, on other units."""

MICROSCALED = ("mxfp8", "mxfp4", "nvfp4")
"""Precisions whose units take a scale for every few elements. Devices with fp4 units have them and no others do: they
came together (NVIDIA Blackwell, AMD CDNA 4; OCP Microscaling Formats 1.0)."""


def multiplies(precision: str, rates: Collection[str]) -> bool:
    """Whether a device trains in a precision.

    Args:
        precision: of training.
        rates: number formats that the device multiplies.
    """
    if precision in MICROSCALED and "fp4" not in rates:
        return False
    number_format = MATRIX_FORMAT[precision]
    return number_format not in UNITS_OF_THEIR_OWN or number_format in rates


def trained_formats(rates: Collection[str]) -> list[str]:
    """Precisions that a device has units for."""
    return [name for name, own in MATRIX_FORMAT.items() if own in rates and multiplies(name, rates)]


def next_wider(precision: str, rates: Collection[str]) -> str:
    """What a device trains in instead of a precision that it has no units for: fp8 for narrower ones, else 16 bits."""
    if precision in MICROSCALED and multiplies("fp8", rates):
        return "fp8"
    return next((name for name in ("bf16", "fp16") if name in rates), "fp32")
