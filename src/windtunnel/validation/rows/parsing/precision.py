"""Number formats of a row."""

from __future__ import annotations

import re
from typing import Any

from windtunnel.validation.rows.parsing.context import Context
from windtunnel.validation.rows.parsing.loose_values import unstated, words
from windtunnel.validation.rows.parsing.pattern_tables import default, meaning


def read_precision(ctx: Context) -> dict[str, Any]:
    """Fields of `TrainingSpec`: precision, gradient reduction, what the all-gather carries."""
    raw = ctx.fields.get("precision")
    text = words(raw)
    fields: dict[str, Any] = {}
    outside = re.sub(r"\([^)]*\)", " ", text).strip()
    chosen = meaning("precision", "format", text) if text.startswith("bf16 (int8") else None
    chosen = chosen or meaning("precision", "format", outside) or meaning("precision", "format", text)
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
