"""How a serving row spreads one instance over devices."""

from __future__ import annotations

import re
from typing import Any

from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import ServingPlan
from windtunnel.validation.rows.parsing.loose_values import count, words
from windtunnel.validation.rows.parsing.serving_words import ServingContext


def layout_of(ctx: ServingContext, model: ModelSpec, part: str = "") -> ServingPlan | str:
    """The plan of one instance, or why it cannot be determined.

    Args:
        ctx: the row.
        model: what is served.
        part: `prefill` or `decode` for the workers of a split deployment.
    """
    if "plan" in ctx.options:
        return ServingPlan.model_validate(ctx.options["plan"])
    config = ctx.config
    head = f"{part}_" if part else ""
    if f"{head}tp_size" in config or f"{head}moe_tp_size" in config:
        return _sizes(ctx, model, {k.removeprefix(head): v for k, v in config.items() if k.startswith(head)})
    stated = words(config.get("parallel"))
    if re.match(r"dep ?\d", stated):
        ranks = int(re.sub(r"\D", "", stated))
        return ServingPlan(dp=ranks, ep=ranks if model.num_experts else 1)
    tp, pp = count(ctx.row.get("tp")), count(ctx.row.get("pp")) or 1
    found = re.search(r"tp ?(\d+)", stated)
    tp = tp or (int(found.group(1)) if found else None)
    if tp is None:
        return "the tensor-parallel size is not stated"
    if "attention dp" in words(config.get("note")) and model.num_experts:
        ctx.assume("serving.plan", f"dp {tp}, ep {tp}", "attention data parallelism over all devices")
        return ServingPlan(dp=tp, ep=tp, pp=pp)
    ep = count(ctx.row.get("ep")) or 1
    return ServingPlan(tp=tp, pp=pp, ep=ep if model.num_experts and tp % ep == 0 else 1)


def _sizes(ctx: ServingContext, model: ModelSpec, config: dict[str, Any]) -> ServingPlan | str:
    """Attention sizes (tp, data-parallel ranks) next to expert sizes (tp, ep); some records multiply tp and ep."""
    tp, dp = count(config.get("tp_size")) or 1, count(config.get("attention_dp_size")) or 1
    pp = count(config.get("pp_size")) or 1
    cut, ep = count(config.get("moe_tp_size")) or 1, count(config.get("moe_ep_size")) or 1
    left_open = "attention_dp_size" in config and config["attention_dp_size"] is None
    if model.num_experts and ep > 1 and left_open and _batch_of_a_rank(ctx, config, tp):
        ctx.assume("serving.plan.dp", tp, f"not stated; {tp} times the stated batch is in flight: a batch of each rank")
        tp, dp = 1, tp
    if not model.num_experts:
        cut, ep = tp * dp, 1
    elif cut == ep > 1 and cut * ep == tp * dp:
        ctx.assume("serving.plan", f"{ep} devices", f"tp {tp}, dp {dp} multiply tp and ep, both {ep}")
        tp, dp = (1, ep) if dp > 1 else (ep, 1)
        cut = 1
    elif tp == dp > 1 and ep == tp * dp:
        ctx.assume("serving.plan", f"dp {dp}, ep {dp}", f"tp {tp}, dp {dp} and ep {ep} count the same devices")
        tp, ep = 1, dp
    elif tp * dp < cut * ep:
        dp = cut * ep // tp
        ctx.assume("serving.plan.dp", dp, f"experts spread over {cut * ep} devices, attention over {tp}")
    elif tp * dp > cut * ep and (tp * dp) % ep:
        return f"tp {tp}, dp {dp} do not agree with experts over {cut} x {ep}"
    if model.num_attention_heads % tp:
        heads = model.num_attention_heads
        return f"tp {tp} does not divide {heads} heads: a sum over workers, the layout is not stated"
    return ServingPlan(tp=tp, dp=dp, pp=pp, ep=ep)


def _batch_of_a_rank(ctx: ServingContext, config: dict[str, Any], ranks: int) -> bool:
    """Whether the stated batch is that of one of several ranks, which share what is in flight evenly."""
    batch, slots = count(config.get("batch_size")), count(ctx.load.get("concurrency"))
    return ranks > 1 and batch is not None and slots == batch * ranks
