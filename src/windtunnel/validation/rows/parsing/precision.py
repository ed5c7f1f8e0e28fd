"""Number formats of a row."""

from __future__ import annotations

import re
from typing import Any

from windtunnel import catalog
from windtunnel.parallel.precision import MATRIX_FORMAT, UNITS_OF_THEIR_OWN
from windtunnel.validation.rows.parsing.context import Context
from windtunnel.validation.rows.parsing.hardware import canonical_device
from windtunnel.validation.rows.parsing.loose_values import unstated, words
from windtunnel.validation.rows.parsing.pattern_tables import default, matches, meaning, table

_FIRST_NVFP4 = (25, 9)
"""Year and month of the first NVIDIA containers with a training recipe in nvfp4 (Transformer Engine 2.7 and later)."""


def _has_units_of_its_own(precision: str) -> bool:
    """Whether a device may lack the matrix units of a precision."""
    return MATRIX_FORMAT[precision] in UNITS_OF_THEIR_OWN


def _multiplied(ctx: Context, named: str, text: str, device: str) -> str:
    """The narrowest format of a phrase that the device multiplies, or the next wider one where it multiplies none.

    A phrase that names several leaves open which one ran: nvfp4 counts only where a release that trains in it is
    stated.
    """
    spec = catalog.device(device)
    stated = [value for pattern, value in table("precision")["format"] if matches(pattern, text)]
    several = len({MATRIX_FORMAT[value] for value in stated}) > 1
    for value in [named, *stated]:
        if value == "nvfp4" and several and _release(ctx) < _FIRST_NVFP4:
            continue
        if not _has_units_of_its_own(value) or MATRIX_FORMAT[value] in spec.peak_flop_per_s:
            if value != named or several:
                others = ", ".join(dict.fromkeys(x for x in stated if x != value)) or named
                ctx.assume("training.precision", value, f"`{text}` names several or lacks units; it could be {others}")
            return str(value)
    wider = "fp8" if named in ("nvfp4", "mxfp8") and "fp8" in spec.peak_flop_per_s else "bf16"
    ctx.assume("training.precision", wider, f"{spec.id} has no matrix units for {named}")
    return wider


def _release(ctx: Context) -> tuple[int, int]:
    """Year (two digits) and month of the newest container that the framework's words name; zeros without one."""
    found = re.findall(r"\b(2\d)\.(0[1-9]|1[0-2])\b", ctx.framework)
    return max(((int(year), int(month)) for year, month in found), default=(0, 0))


def read_precision(ctx: Context) -> dict[str, Any]:
    """Fields of `TrainingSpec`: precision, gradient reduction, what the all-gather carries."""
    raw = ctx.fields.get("precision")
    text = words(raw)
    fields: dict[str, Any] = {}
    outside = re.sub(r"\([^)]*\)", " ", text).strip()
    chosen = meaning("precision", "format", text) if text.startswith("bf16 (int8") else None
    chosen = chosen or meaning("precision", "format", outside) or meaning("precision", "format", text)
    device = canonical_device(ctx.hardware.get("device"), ctx.hardware.get("device_canonical"))
    if chosen is not None and device is not None and _has_units_of_its_own(chosen):
        chosen = _multiplied(ctx, chosen, text, device)
    if chosen is None:
        value, why = default("precision", ctx) or ("bf16", "precision not stated")
        ctx.assume("training.precision", value, why if unstated(raw) else f"precision {raw!r} not understood")
        chosen = value
    elif " or " in outside:
        ctx.assume("training.precision", chosen, f"the source leaves it open: {outside}")
    fields["precision"] = chosen
    mode = f"{text}; {words(ctx.extra.get('mp_mode'))}; {words(ctx.fields.get('optimizer'))}"
    reduced = meaning("precision", "grad_reduce", mode)
    if reduced is not None:
        fields["grad_reduce_precision"] = reduced
    gathered = meaning("precision", "float8_all_gather", text)
    if gathered is not None:
        fields["float8_all_gather"] = gathered
    return fields
