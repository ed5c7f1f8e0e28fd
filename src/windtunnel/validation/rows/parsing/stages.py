"""Layers of each virtual stage: layout strings, lists, and the usual split where layers do not divide."""

from __future__ import annotations

import re
from typing import Any

from windtunnel.specs.model import ModelSpec
from windtunnel.validation.rows.parsing.context import Context
from windtunnel.validation.rows.parsing.loose_values import first


def stages(ctx: Context, parts: int, model: ModelSpec) -> dict[str, Any]:
    """`stage_layers` or the ends-count-as-layers switches; nothing when layers divide evenly."""
    depth = len(model.layer_kinds())
    layout = first(ctx.extra, "pp_layout", "pipeline_model_parallel_layout", "pipeline_layout", "stage_layers")
    listed = parse_layout(layout)
    if listed is not None:
        if len(listed) == parts and sum(listed) == depth:
            return {"stage_layers": tuple(listed)}
        why = f"layout {str(layout)[:40]!r} does not fit {parts} stages of {depth} layers"
        ctx.assume("plan.stage_layers", "even", why)
    if depth % parts == 0:
        return {}
    if (depth + 2) % parts == 0:
        why = f"{depth} layers do not divide by {parts}, {depth + 2} do"
        ctx.assume("plan.stage_layers", "ends count as layers", why)
        return {"embedding_as_layer": True, "loss_as_layer": True}
    each = -(-depth // parts)
    last = depth - each * (parts - 1)
    if last >= 0 and (model.num_nextn_predict_layers or model.num_experts) and model.is_mla:
        ctx.assume("plan.stage_layers", f"{each} each, {last} last", f"{depth} layers do not divide by {parts}")
        return {"stage_layers": tuple([each] * (parts - 1) + [last])}
    ctx.assume("plan.stage_layers", "even", f"{depth} layers do not divide by {parts}; the split is not stated")
    return {}


def parse_layout(layout: object) -> list[int] | None:
    """Decoder layers of each stage, from `Et*4|(t*4|)*14tmL`, `[[...], ...]` or a list of numbers."""
    if isinstance(layout, (list, tuple)) and layout:
        counts = []
        for stage in layout:
            if isinstance(stage, bool):
                return None
            if isinstance(stage, (int, float)):
                counts.append(int(stage))
            elif isinstance(stage, (list, tuple)):
                counts.append(sum(1 for part in stage if re.match(r"(decoder|transformer|t$|layer)", str(part))))
            else:
                counts.append(_letters(str(stage)))
        return counts
    if not isinstance(layout, str) or not layout.strip():
        return None
    text = layout.replace(" ", "")
    if re.fullmatch(r"\d+(,\d+)+", text):
        return [int(n) for n in text.split(",")]
    if "|" not in text or not re.fullmatch(r"[A-Za-z0-9*|(),]+", text) or len(text) > 4000:
        return None
    for _ in range(20):
        expanded = re.sub(r"\(([^()]*)\)\*(\d+)", lambda m: m.group(1) * min(int(m.group(2)), 512), text)
        expanded = re.sub(r"([A-Za-z])\*(\d+)", lambda m: m.group(1) * min(int(m.group(2)), 512), expanded)
        if expanded == text:
            break
        text = expanded
        if len(text) > 100_000:
            return None
    return [_letters(stage) for stage in text.replace(",", "").split("|")]


def _letters(stage: str) -> int:
    return stage.count("t")
