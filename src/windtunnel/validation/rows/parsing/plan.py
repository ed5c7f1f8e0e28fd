"""Axis sizes and policies of a row, made consistent with each other: the `PlanSpec`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from windtunnel.parallel.plan_sizes import model_copies
from windtunnel.parallel.precision import OPERAND_BYTES
from windtunnel.specs.cluster import ClusterRef
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.number_formats import MATRIX_FORMAT
from windtunnel.validation.rows.parsing.context import Context
from windtunnel.validation.rows.parsing.loose_values import count, first, number, switch, unstated, words
from windtunnel.validation.rows.parsing.mapping import Unmapped, infer_mapping
from windtunnel.validation.rows.parsing.pattern_tables import default, meaning
from windtunnel.validation.rows.parsing.stages import stages

COMPILED = ("jax", "pax", "t5x")
"""Frameworks whose step is one compiled program over the whole batch."""


@dataclass(kw_only=True)
class Axes:
    """Sizes that agree: tp · pp · cp · dp devices, global batch = mbs · dp · m."""

    tp: int
    pp: int
    cp: int
    dp: int
    ep: int
    etp: int
    vpp: int
    mbs: int
    global_batch: int
    seq_len: int


def read_axes(
    ctx: Context, model: ModelSpec, cluster: ClusterRef, devices: int, framework: str, precision: str = "bf16"
) -> Axes | str:
    """Axis sizes, micro-batch and batch, or why they cannot be determined.

    Args:
        ctx: the row.
        model: its model.
        cluster: its devices.
        devices: how many of them the run used.
        framework: software, as scenarios name it.
        precision: of the training step; frozen weights may stay in its bytes.
    """
    parallel, fields = ctx.parallel, ctx.fields
    seq = count(first(fields, "seq_len"))
    if seq is None:
        if model.family != "vit":
            return "the sequence length is not stated"
        seq = (model.image_size // max(model.patch_size, 1)) ** 2 + 1
    tp, pp, cp = _mapping(ctx, model, cluster, framework, seq, precision)
    if devices % (tp * pp * cp):
        return f"tp {tp} x pp {pp} x cp {cp} does not divide {devices} devices"
    dp = devices // (tp * pp * cp)
    stated_dp = count(parallel.get("dp"))
    if stated_dp is not None and stated_dp != dp:
        ctx.assume("plan.dp", dp, f"the row says {stated_dp}, which does not multiply to {devices} devices")
    if framework in COMPILED and model.num_attention_heads % tp and tp > 1:
        return f"tp {tp} does not divide {model.num_attention_heads} heads"
    batch = _batch(ctx, dp, seq)
    if batch is None:
        return "the global batch is not stated"
    mbs = _micro_batch(ctx, batch, dp, pp, framework)
    if batch % (mbs * dp):
        fitted = max(1, round(batch / (mbs * dp))) * mbs * dp
        if batch >= dp and batch % dp == 0:
            per_rank = batch // dp
            new = max(d for d in range(1, per_rank + 1) if per_rank % d == 0 and d <= mbs)
            ctx.assume("plan.mbs", new, f"{mbs} does not divide the {per_rank} sequences of a replica")
            mbs = new
        else:
            ctx.assume("training.global_batch", fitted, f"{batch} is not a multiple of mbs {mbs} x dp {dp}")
            batch = fitted
    ep, etp = _experts(ctx, model, dp * cp * tp, tp if framework in COMPILED else 1)
    vpp = _chunks(ctx, model, pp, batch // (mbs * dp))
    return Axes(tp=tp, pp=pp, cp=cp, dp=dp, ep=ep, etp=etp, vpp=vpp, mbs=mbs, global_batch=batch, seq_len=seq)


def _mapping(
    ctx: Context, model: ModelSpec, cluster: ClusterRef, framework: str, seq_len: int, precision: str
) -> tuple[int, int, int]:
    """Tensor, pipeline and context axis: stated, or inferred from what trains."""
    tp, pp, cp = (count(ctx.parallel.get(axis)) for axis in ("tp", "pp", "cp"))
    if tp and pp and cp:
        return tp, pp, cp
    found = infer_mapping(
        Unmapped(
            model=model,
            cluster=cluster,
            framework=framework,
            seq_len=seq_len,
            tp=tp,
            pp=pp,
            cp=cp,
            batch=count(ctx.fields.get("global_batch")),
            micro_batch=count(ctx.fields.get("micro_batch")),
            accumulation=count(ctx.fields.get("grad_accum")),
            frozen_bytes=_frozen_bytes(ctx, precision),
        )
    )
    unknown = [f"{name} {size}" for name, size, stated in (("tp", found.tp, tp), ("pp", found.pp, pp)) if not stated]
    if unknown:
        why = "the mapping is not stated; what trains in the memory at the least estimated time"
        ctx.assume("plan", ", ".join(unknown), why, leaves_open="plan")
    if not cp and found.cp > 1:
        ctx.assume("plan.cp", found.cp, "not stated; fewer sequences than replicas of the mesh", leaves_open="plan")
    return found.tp, found.pp, found.cp


def _frozen_bytes(ctx: Context, precision: str) -> float:
    """Bytes of a weight that a run of adapters keeps frozen; 0 where all weights are trained.

    Frozen weights may stay in the bytes of the format that multiplies them: nothing updates them in a wider one.
    """
    return OPERAND_BYTES[MATRIX_FORMAT[precision]] if "lora" in ctx.text("phase") else 0.0


def _batch(ctx: Context, dp: int, seq: int) -> int | None:
    batch = count(ctx.fields.get("global_batch"))
    if batch is not None:
        return batch
    tokens = number(first(ctx.extra, "global_batch_tokens", "batch_tokens"))
    if tokens:
        return max(dp, round(tokens / seq / dp) * dp)
    mbs, accumulation = count(ctx.fields.get("micro_batch")), count(ctx.fields.get("grad_accum"))
    if mbs is None:
        return None
    if accumulation is None:
        ctx.assume("training.global_batch", mbs * dp, "not stated; one micro-batch a step", leaves_open="plan")
    return mbs * dp * (accumulation or 1)


def _micro_batch(ctx: Context, batch: int, dp: int, pp: int, framework: str) -> int:
    """Sequences of one micro-batch on one replica.

    JAX counts a per-device batch, a fraction of a replica's when the tensor axis is larger than one; torchtitan's local
    batch is cut into as many micro-batches as there are stages.
    """
    stated = number(ctx.fields.get("micro_batch"))
    accumulation = count(ctx.fields.get("grad_accum"))
    per_rank = batch / dp
    if accumulation and per_rank >= accumulation and framework in COMPILED:
        return max(1, int(per_rank // accumulation))
    if framework == "torchtitan" and pp > 1 and (accumulation or 1) == 1:
        local = int(stated or per_rank)
        return max(1, local // pp)
    if stated is not None and stated >= 1:
        return int(stated)
    if accumulation:
        return max(1, int(per_rank // accumulation))
    guess = max(1, math.floor(per_rank)) if pp == 1 and framework in COMPILED else 1
    if framework in ("ddp", "generic", "fsdp1", "torchtitan") and pp == 1:
        guess = max((d for d in (1, 2, 4, 8, 16) if d <= per_rank and per_rank % d == 0), default=1)
    if per_rank > 1:
        ctx.assume("plan.mbs", guess, "micro-batch not stated", leaves_open="plan")
    return guess


def _experts(ctx: Context, model: ModelSpec, ranks: int, usual_etp: int) -> tuple[int, int]:
    if not model.num_experts:
        return 1, 1
    ep = count(ctx.parallel.get("ep"))
    etp = count(first(ctx.parallel, "etp")) or count(ctx.extra.get("expert_tensor_parallel_size"))
    if ep is None:
        ep = 1
        if ranks > 1:
            ctx.assume("plan.ep", 1, "expert parallelism not stated", leaves_open="plan")
    sizes = range(1, min(ep, model.num_experts) + 1)
    fitted = max((d for d in sizes if model.num_experts % d == 0 and ranks % d == 0), default=1)
    if fitted != ep:
        ctx.assume("plan.ep", fitted, f"ep {ep} does not divide {ranks} ranks and {model.num_experts} experts")
        ep = fitted
    if not etp and usual_etp > 1:
        ctx.assume("plan.etp", usual_etp, "not stated; the framework cuts expert matrices over its tensor axis")
    etp = etp or usual_etp
    if ranks % (ep * etp):
        ctx.assume("plan.etp", 1, f"etp {etp} x ep {ep} does not divide {ranks} ranks")
        etp = 1
    return ep, etp


def _chunks(ctx: Context, model: ModelSpec, pp: int, micro_batches: int) -> int:
    if pp == 1:
        return 1
    raw = ctx.parallel.get("vpp")
    vpp = count(raw)
    schedule = words(ctx.parallel.get("schedule"))
    named = meaning("plan", "schedule", schedule) if schedule else None
    if (copies := model_copies(str(named), pp)) > 1:
        return copies  # a chunk of each copy
    if vpp is None:
        looped = named == "interleaved_1f1b" or "loop" in words(raw)
        if not looped:
            return 1
        value, why = default("vpp", ctx) or (2, "chunks not stated")
        vpp = int(value)
        ctx.assume("plan.vpp", vpp, why, leaves_open="plan")
    depth = len(model.layer_kinds())
    if pp * vpp > depth + 2:  # embedding and head may be stages of their own
        fitted = max(1, depth // pp)
        whole = [v for v in range(1, fitted + 1) if depth % (pp * v) == 0 or (depth + 2) % (pp * v) == 0]
        fitted = max(whole, default=fitted)
        ctx.assume("plan.vpp", fitted, f"pp {pp} x vpp {vpp} is more than {depth} layers")
        vpp = fitted
    if vpp > 1 and micro_batches % pp:
        ctx.assume("plan.vpp", 1, f"{micro_batches} micro-batches cannot be interleaved over pp {pp}")
        vpp = 1
    return vpp


def read_policies(ctx: Context, axes: Axes, model: ModelSpec, framework: str, per_node: int) -> dict[str, Any]:
    """ZeRO stage, shard group, sequence parallelism, schedule, stage split."""
    fields: dict[str, Any] = {}
    replicas = axes.dp * axes.cp
    stage, group = _zero(ctx, replicas, per_node)
    if stage is not None:
        fields["zero"] = stage
    if stage != 0 and group and group < replicas and replicas % group == 0:
        fields["shard_group"] = group
    sp = switch(ctx.parallel.get("sp"))
    if axes.tp > 1:
        if sp is None and framework in ("megatron_2021", "megatron_2022", "megatron_deepspeed"):
            sp = False
        if sp is not None:
            fields["sp"] = sp
    if axes.pp > 1:
        fields |= _schedule(ctx, axes)
        copies = model_copies(fields.get("schedule", ""), axes.pp)
        fields |= stages(ctx, axes.pp * axes.vpp // copies, model)
    kind = words(first(ctx.extra, "cp_comm_type", "cp_kind", "context_parallel"))
    if axes.cp > 1:
        if re.search(r"a2a\+p2p|hybrid|hierarch", kind):
            fields["cp_kind"] = "all_to_all" if axes.cp <= per_node else "hybrid"
        elif re.search(r"a2a|all.?to.?all|ulysses", kind):
            fields["cp_kind"] = "all_to_all"
        elif re.search(r"all.?gather", kind) or ("torchtitan" in ctx.framework and "all" in kind):
            fields["cp_kind"] = "all_gather"
    return fields


def _zero(ctx: Context, replicas: int, per_node: int) -> tuple[int | None, int | None]:
    """The stage that a row states, None where it leaves it to the framework, and the ranks of its shards."""
    raw = ctx.parallel.get("zero_stage")
    text = words(raw).replace(":", "")
    group = count(ctx.parallel.get("fsdp_group"))
    stage: int | None = None
    plain = number(raw) if not isinstance(raw, str) or re.fullmatch(r"\s*\d(\.0)?\s*", raw) else None
    if plain is not None and 0 <= plain <= 3:
        stage = int(plain)
    elif text and not (unstated(raw) and not re.search(r"fsdp|zero|distributed opt", text)):
        stage = meaning("plan", "zero", text)
    sharding = words(first(ctx.extra, "sharding", "sharding_strategy", "data_parallel_sharding_strategy"))
    if sharding and (named := meaning("plan", "zero", sharding)) is not None:
        stage = named
    if switch(ctx.extra.get("use_megatron_fsdp")):
        stage = 3
    if stage is None:
        if replicas == 1:
            return None, None
        if re.search(r"\bddp\b|distributeddataparallel", ctx.framework):
            return 0, None
        ctx.assume("plan.zero", "as the framework", "ZeRO stage not stated")
    if group is None:
        group = _group_series(text, replicas)
    hybrid = r"hybrid_shard|hybrid shard|fsdp \(hybrid\)|\bhsdp\b(?! above)"
    if group is None and re.search(hybrid, f"{text} {sharding}"):
        group = per_node
        if replicas > per_node:
            ctx.assume("plan.shard_group", per_node, "hybrid sharding without its group; the ranks of a node")
    return stage, group


def _group_series(text: str, replicas: int) -> int | None:
    """`group 64,128,256,128 for 64..512 GPUs`: one size for each doubling of the cluster; `group 32`: one for all."""
    found = re.search(r"group\s+((?:\d+\s*,\s*)*\d+)\D*?(\d+)\s*\.\.", text)
    if not found:
        single = re.search(r"group(?:\s+of|\s+size)?\s*[:=]?\s*(\d+)\b(?!\s*,)", text)
        return int(single.group(1)) if single else None
    sizes = [int(n) for n in re.findall(r"\d+", found.group(1))]
    step = math.log2(replicas / int(found.group(2))) if replicas >= int(found.group(2)) else -1.0
    index = round(step)
    return sizes[index] if 0 <= index < len(sizes) else None


def _schedule(ctx: Context, axes: Axes) -> dict[str, Any]:
    text = words(ctx.parallel.get("schedule"))
    named = meaning("plan", "schedule", text) if text else None
    if named is None or named in ("1f1b", "interleaved_1f1b"):
        return {}
    return {"schedule": named}
