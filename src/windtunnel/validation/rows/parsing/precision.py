"""Number formats of a row."""

from __future__ import annotations

import re
from typing import Any

from windtunnel import catalog
from windtunnel.specs.number_formats import MATRIX_FORMAT, UNITS_OF_THEIR_OWN, multiplies, next_wider
from windtunnel.validation.rows.parsing.context import Context
from windtunnel.validation.rows.parsing.hardware import canonical_device
from windtunnel.validation.rows.parsing.loose_values import unstated, words
from windtunnel.validation.rows.parsing.pattern_tables import default, matches, meaning, table

_FIRST_NVFP4 = (25, 9)
"""Year and month of the first NVIDIA containers with a training recipe in nvfp4 (Transformer Engine 2.7 and later)."""


def _multiplied(ctx: Context, named: str, text: str, device: str) -> str:
    """The narrowest format of a phrase that the device multiplies, or the next wider one where it multiplies none.

    A phrase that names several leaves open which one ran: a format counts only if the software of its date trained in
    it, and where 8 bits of floating point gain nothing on the device, its 8-bit format is int8.
    """
    spec = catalog.device(device)
    rates = {str(name): rate for name, rate in spec.peak_flop_per_s.items()}
    stated = [value for pattern, value in table("precision")["format"] if matches(pattern, text)]
    several = len({MATRIX_FORMAT[value] for value in stated}) > 1
    if not several:
        if multiplies(named, rates):
            return named
        wider = next_wider(named, rates)
        why = f"{spec.id} has no matrix units for {named}"
        ctx.assume("training.precision", wider, why, leaves_open="precision")
        return wider
    offered = [_eight_bits(value, rates, ctx) for value in (named, *stated) if _trained_then(value, device, ctx)]
    taken = next((value for value in offered if multiplies(value, rates)), "bf16")
    others = ", ".join(value for value in dict.fromkeys(stated) if value != taken)
    why = f"`{text}` names several; it could be {others}"
    ctx.assume("training.precision", taken, why, leaves_open="precision")
    ctx.assumed_fields |= {f"precision={value}" for value in (*offered, *stated) if value != taken}
    return taken


def _eight_bits(value: str, rates: dict[str, float], ctx: Context) -> str:
    """int8 for fp8 on devices whose fp8 runs at the rate of 16 bits, under compilers that train in int8 (AQT)."""
    idle = MATRIX_FORMAT[value] == "fp8" and rates.get("fp8", 0.0) <= rates.get("bf16", 0.0)
    gains = rates.get("int8", 0.0) > rates.get("bf16", 0.0)
    return "int8" if idle and gains and matches(table("precision")["trains_int8"], ctx.framework) else value


def _trained_then(value: str, device: str, ctx: Context) -> bool:
    """Whether the software that a row names trained in a format; what names no date did."""
    if value == "nvfp4":
        return _release(ctx) >= _FIRST_NVFP4
    return not any(
        MATRIX_FORMAT[value] == rule["format"]
        and matches(rule["device"], device)
        and matches(rule["before"], ctx.framework)
        for rule in table("precision")["not_yet"]
    )


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
    if chosen is not None and device is not None and MATRIX_FORMAT[chosen] in UNITS_OF_THEIR_OWN:
        chosen = _multiplied(ctx, chosen, text, device)
    if chosen is None:
        value, why = default("precision", ctx) or ("bf16", "precision not stated")
        why = why if unstated(raw) else f"precision {raw!r} not understood"
        ctx.assume("training.precision", value, why, leaves_open="precision")
        chosen = value
    elif " or " in outside:
        ctx.assume("training.precision", chosen, f"the source leaves it open: {outside}", leaves_open="precision")
    fields["precision"] = chosen
    mode = f"{text}; {words(ctx.extra.get('mp_mode'))}; {words(ctx.fields.get('optimizer'))}"
    reduced = meaning("precision", "grad_reduce", mode)
    if reduced is not None:
        fields["grad_reduce_precision"] = reduced
    gathered = meaning("precision", "float8_all_gather", text)
    if gathered is not None:
        fields["float8_all_gather"] = gathered
    return fields
