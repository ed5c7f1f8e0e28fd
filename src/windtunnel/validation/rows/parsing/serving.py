"""The only place where a serving row becomes a scenario.

A scenario depends on the row's configuration and on the form and day of its record (which load generator wrote it,
which public launch scripts ran), never on its identity or on anything measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from windtunnel.specs.cluster import ClusterRef
from windtunnel.specs.lengths import Lengths
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import (
    KvSpec,
    PoolSpec,
    ServingLimits,
    ServingPlan,
    ServingPrecision,
    ServingSpec,
)
from windtunnel.specs.speculation import SpeculationSpec
from windtunnel.specs.traffic import TrafficSpec
from windtunnel.validation.rows.parsing.loose_values import count, first, number
from windtunnel.validation.rows.parsing.serving_bench import BenchLoad, bench_limits
from windtunnel.validation.rows.parsing.serving_launch import (
    Facts,
    Protocol,
    day_of,
    offline_requests,
    protocol_of,
    settings,
    speculation,
)
from windtunnel.validation.rows.parsing.serving_layout import layout_of
from windtunnel.validation.rows.parsing.serving_options import stated_options, with_options
from windtunnel.validation.rows.parsing.serving_words import (
    ServingContext,
    device_of,
    engine_of,
    formats_of,
    model_of,
    power_cap_of,
)

SPLIT_ROUTER = "round_robin"
"""Default of NVIDIA Dynamo's front end (`--router-mode`, docs.nvidia.com/dynamo), which the sweeps with pools run."""
OLD_CONTEXT = 8192
"""vLLM 0.6 computes whole prompts, up to max_model_len tokens an iteration; above 32,768 it would cut them."""


SESSION_BLOCK = 64
"""Tokens in a block of TensorRT-LLM's sessions, which run one batch."""


@dataclass(frozen=True, slots=True)
class ReadServing:
    """A serving row, read."""

    scenario: Scenario | None
    reason: str = ""
    assumed: tuple[tuple[str, str, str], ...] = ()


def read_serving(row: dict[str, Any]) -> ReadServing:
    """A scenario, or a reason why there is none."""
    ctx = ServingContext(row)
    found = _scenario(ctx)
    if isinstance(found, str):
        return ReadServing(None, found, tuple(ctx.assumed))
    return ReadServing(found, "", tuple(ctx.assumed))


def _scenario(ctx: ServingContext) -> Scenario | str:
    model = model_of(ctx)
    if isinstance(model, str):
        return model
    device = device_of(ctx)
    if device is None:
        return f"device {ctx.row.get('hardware')!r} is not in the catalogue"
    formats = formats_of(ctx, model)
    if isinstance(formats, str):
        return formats
    engine, version = engine_of(ctx)
    mode = _mode(ctx)
    if mode is None:
        return "the row does not say how requests were sent"
    options = stated_options(ctx, engine, model, device)
    if isinstance(options, str):
        return options
    if options is not None:
        ctx.options, formats = options.pool, formats | options.precision
    facts = Facts(
        engine=engine,
        version=version,
        model=model.name.lower(),
        device=device,
        form="",
        weights=formats["weights"],
        mode=mode,
    )
    try:
        return _MODES[mode](ctx, model, facts, formats)
    except ValidationError as error:
        return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())


def _mode(ctx: ServingContext) -> str | None:
    load = ctx.load
    if load.get("per_request_trace"):
        return "trace"
    if _slots(ctx):
        return "closed"
    if load.get("offline_max_throughput"):
        return "offline"
    if count(first(load, "batch", "max_batch")):
        return "static"
    if number(first(load, "rate", "rate_per_s", "request_rate")):
        return "open"
    return None


def _slots(ctx: ServingContext) -> int | None:
    """Requests in flight, or the slots of all decoding workers where only those are stated."""
    stated = count(ctx.load.get("concurrency"))
    if stated is not None or "concurrency" not in ctx.load:
        return stated
    config = ctx.config
    head = "decode_" if config.get("mode") == "disagg" else ""
    batch = count(config.get(f"{head}batch_size"))
    if batch is None:
        return None
    workers = count(config.get(f"{head}num_workers")) or 1
    slots = batch * workers * (count(config.get(f"{head}attention_dp_size")) or 1)
    ctx.assume("serving.traffic.concurrency", slots, "not stated; the slots of the decoding workers")
    return slots


def _lengths(ctx: ServingContext) -> tuple[int, int] | None:
    isl, osl = count(ctx.row.get("isl")), count(ctx.row.get("osl"))
    return (isl, osl) if isl and osl else None


def _build(
    ctx: ServingContext,
    model: ModelSpec,
    facts: Facts,
    formats: dict[str, str],
    pools: list[PoolSpec] | PoolSpec,
    traffic: TrafficSpec,
    cache: str | None = None,
    drafts: SpeculationSpec | None = None,
) -> Scenario:
    """Cluster, pools and traffic into one scenario."""
    every = pools if isinstance(pools, list) else [with_options(ctx, pools)]
    devices = sum(pool.replicas * pool.plan.num_devices for pool in every)
    node = 4 if facts.device.startswith(("gb", "gh")) else 8
    nodes = -(-devices // node)
    precision = dict(formats)
    if cache and "kv_cache" not in precision:
        precision["kv_cache"] = cache
    elif "kv_cache" not in precision:
        ctx.assume("serving.precision.kv_cache", "bf16", "not stated; the format of activations")
    if nodes > 1:
        ctx.assume("cluster.scale_out", "the device's usual node", "network between nodes not stated by the source")
    cluster = ClusterRef(device=facts.device, nodes=nodes, devices_per_node=node)
    split = any(pool.role != "mixed" for pool in every)
    serving = ServingSpec(
        engine=facts.engine,
        engine_version=facts.version,
        precision=ServingPrecision.model_validate(precision),
        pools=tuple(every),
        traffic=traffic,
        speculation=drafts,
        router=SPLIT_ROUTER if split else "round_robin",
    )
    return Scenario(name=f"{facts.engine} {model.name}", model=model, cluster=cluster, serving=serving)


def _limits(fields: dict[str, Any]) -> ServingLimits:
    return ServingLimits.model_validate({k: v for k, v in fields.items() if k in ServingLimits.model_fields})


def _trace(ctx: ServingContext, model: ModelSpec, facts: Facts, formats: dict[str, str]) -> Scenario | str:
    """Arrivals and lengths of every request are known."""
    plan = layout_of(ctx, model)
    if isinstance(plan, str):
        return plan
    trace = ctx.config.get("trace")
    if not isinstance(trace, str):
        return "the row names no trace"
    limits = ServingLimits()
    if facts.engine == "vllm" and _old(facts.version) and not ctx.options:
        why = "whole prompts first, as this release does below 32,768 tokens of context; the limit is not stated"
        ctx.assume("serving.limits.max_num_batched_tokens", OLD_CONTEXT, why)
        ctx.assume("serving.limits.max_num_seqs", 256, "not stated; the release's default")
        limits = ServingLimits(
            max_num_batched_tokens=OLD_CONTEXT, max_num_seqs=256, max_model_len=OLD_CONTEXT, chunked_prefill=False
        )
    return _build(ctx, model, facts, formats, PoolSpec(plan=plan, limits=limits), TrafficSpec(trace=trace))


def _old(version: str, since: tuple[int, int] = (0, 8)) -> bool:
    parts = [int(p) for p in version.split(".")[:2] if p.isdigit()]
    return len(parts) == 2 and tuple(parts) < since


def _drawn(nominal: int, share: float) -> int | Lengths:
    if share >= 1.0:
        return nominal
    return Lengths(distribution="uniform", min=max(int(nominal * share), 1), max=nominal)


def _closed(ctx: ServingContext, model: ModelSpec, facts: Facts, formats: dict[str, str]) -> Scenario | str:
    """A fixed number of requests is in flight."""
    size = _lengths(ctx)
    slots = _slots(ctx)
    if size is None or slots is None:
        return "prompt and answer lengths are not stated"
    protocol = _load_generator(ctx, facts)
    mode = "split" if ctx.config.get("mode") == "disagg" else "closed"
    one = layout_of(ctx, model, "decode" if mode == "split" else "")
    if isinstance(one, str):
        return one
    prompts = layout_of(ctx, model, "prefill") if mode == "split" else None
    if isinstance(prompts, str):
        return prompts
    facts = Facts(
        engine=facts.engine,
        version=facts.version,
        model=facts.model,
        device=facts.device,
        form=protocol.name,
        weights=facts.weights,
        mode=mode,
        isl=size[0],
        osl=size[1],
        slots=slots,
        tp=one.tp,
        dp=one.dp,
        prefill_dp=prompts.dp if prompts else 0,
        prefill_workers=(count(ctx.config.get("prefill_num_workers")) or 1) if prompts else 0,
        measured=day_of(str(ctx.row.get("provenance") or "")),
    )
    drafts = speculation(ctx, facts)
    facts = replace(facts, mtp=drafts.tokens if drafts else 0)
    fields = settings(ctx, facts)
    traffic = TrafficSpec(
        concurrency=slots,
        num_requests=fields.get("num_requests", protocol.requests * slots),
        input_tokens=_drawn(size[0], protocol.lengths),
        output_tokens=_drawn(size[1], protocol.lengths),
    )
    pools: PoolSpec | list[PoolSpec] | str
    if mode == "split":
        pools = _split_pools(ctx, model, fields)
    else:
        copies = _replicas(ctx, model, facts, one)
        kv = KvSpec(prefix_caching=False)
        pools = PoolSpec(plan=one, limits=_limits(fields), kv=kv, replicas=copies, policy=fields.get("policy"))
    if isinstance(pools, str):
        return pools
    return _build(ctx, model, facts, formats, pools, traffic, fields.get("kv_cache"), drafts)


def _load_generator(ctx: ServingContext, facts: Facts) -> Protocol:
    """How a row's load generator draws lengths and how many requests it sends; notes it as assumed."""
    protocol = protocol_of(str(ctx.row.get("provenance") or ""), facts.engine)
    if protocol is None:
        protocol = Protocol("", 1.0, 10, "not stated; the usual load generators' defaults")
    shown = f"{protocol.requests} requests a slot, lengths from {protocol.lengths:g}"
    ctx.assume("serving.traffic", shown, protocol.why)
    return protocol


def _split_pools(ctx: ServingContext, model: ModelSpec, fields: dict[str, Any]) -> list[PoolSpec] | str:
    """The prefill pool and the decode pool of a row, or the reason why a layout cannot be read."""
    pools = []
    for role in ("prefill", "decode"):
        plan = layout_of(ctx, model, role)
        if isinstance(plan, str):
            return plan
        replicas = count(ctx.config.get(f"{role}_num_workers")) or 1
        own = {n.removeprefix("prefill_"): v for n, v in fields.items() if n.startswith("prefill_")}
        limits = _limits({**fields, **own} if role == "prefill" else fields)
        pools.append(PoolSpec(role=role, replicas=replicas, plan=plan, limits=limits, kv=KvSpec(prefix_caching=False)))
    ctx.assume("serving.router", SPLIT_ROUTER, "not stated; the default of Dynamo's front end")
    return pools


def _replicas(ctx: ServingContext, model: ModelSpec, facts: Facts, plan: ServingPlan) -> int:
    """Number of instances that share the requests in flight."""
    whole = facts.engine == "vllm" and facts.form == "path" and facts.weights == "fp8" and not model.num_experts
    if not whole or plan.num_devices >= 8:
        return 1
    replicas = 8 // plan.num_devices
    ctx.assume("serving.pools[0].replicas", replicas, "records of this kind count the requests of a node of eight")
    return replicas


def _static(ctx: ServingContext, model: ModelSpec, facts: Facts, formats: dict[str, str]) -> Scenario | str:
    """One batch: prefill of all prompts, then decode of all sequences together."""
    size, batch = _lengths(ctx), count(ctx.load.get("batch"))
    if size is None or batch is None:
        return "prompt and answer lengths are not stated"
    plan = layout_of(ctx, model)
    if isinstance(plan, str):
        return plan
    fields = settings(ctx, facts)
    limits = _limits({**fields, "max_num_seqs": batch, "max_num_batched_tokens": max(batch * size[0], 1)})
    ctx.assume("serving.limits.max_num_batched_tokens", batch * size[0], "one batch: all prompts in one pass")
    if facts.engine == "generic":
        limits = limits.model_copy(update={"cuda_graphs": False})
        ctx.assume("serving.limits.cuda_graphs", False, "engines of autumn 2023 launched every kernel")
    if power_cap_of(ctx):
        ctx.assume("cluster.power_cap_w", "none", "a cap is named, its watts are not")
    kv = KvSpec(prefix_caching=False)
    if facts.engine == "trtllm":
        blocks = batch * -(-(size[0] + size[1]) // SESSION_BLOCK)
        ctx.assume("serving.pools[0].kv.num_blocks", blocks, "a session allocates the cache of its one batch")
        kv = KvSpec(prefix_caching=False, block_size=SESSION_BLOCK, num_blocks=blocks)
    pool = PoolSpec(plan=plan, limits=limits, kv=kv, policy=None if facts.engine == "lmdeploy" else "static")
    traffic = TrafficSpec(offline=True, num_requests=batch, input_tokens=size[0], output_tokens=size[1])
    return _build(ctx, model, facts, formats, pool, traffic, fields.get("kv_cache"))


def _offline(ctx: ServingContext, model: ModelSpec, facts: Facts, formats: dict[str, str]) -> Scenario | str:
    """All requests arrive at once; batches are as large as the KV cache allows."""
    size = _lengths(ctx)
    if size is None:
        return "prompt and answer lengths are not stated"
    plan = layout_of(ctx, model)
    if isinstance(plan, str):
        return plan
    if facts.engine == "trtllm" and plan.tp > 1 and model.num_experts and not _old(facts.version, (1, 0)):
        plan = ServingPlan(dp=plan.tp, ep=plan.tp, pp=plan.pp)
        why = "options of the document that holds the table: enable_attention_dp for models with experts"
        ctx.assume("serving.plan", f"dp {plan.dp}, ep {plan.ep}", why)
    fields = settings(ctx, facts)
    if facts.engine == "trtllm" and not {"max_num_seqs", "max_num_batched_tokens"} & set(fields):
        cache = formats.get("kv_cache") or fields.get("kv_cache") or "bf16"
        seqs, tokens, why = bench_limits(model, formats, plan, BenchLoad(*size, cache, facts.device, facts.version))
        fields |= {"max_num_seqs": seqs, "max_num_batched_tokens": tokens}
        ctx.assume("serving.limits.max_num_seqs", seqs, why)
        ctx.assume("serving.limits.max_num_batched_tokens", tokens, why)
    pool = PoolSpec(plan=plan, limits=_limits(fields), kv=KvSpec(prefix_caching=False))
    requests = count(first(ctx.load, "requests", "num_requests", "num_prompts")) or offline_requests(ctx, *size)
    traffic = TrafficSpec(
        offline=True,
        num_requests=requests,
        input_tokens=_spread(ctx, "input_quantiles", size[0]),
        output_tokens=_spread(ctx, "output_quantiles", size[1]),
    )
    return _build(ctx, model, facts, formats, pool, traffic, fields.get("kv_cache"))


def _open(ctx: ServingContext, model: ModelSpec, facts: Facts, formats: dict[str, str]) -> Scenario | str:
    """Requests arrive at a stated rate."""
    size = _lengths(ctx)
    rate = number(first(ctx.load, "rate", "rate_per_s", "request_rate"))
    if size is None or rate is None:
        return "prompt and answer lengths are not stated"
    plan = layout_of(ctx, model)
    if isinstance(plan, str):
        return plan
    requests = count(first(ctx.load, "requests", "num_requests", "num_prompts")) or 1000
    ctx.assume("serving.traffic.process", "poisson", "not stated; the usual load generators' default")
    traffic = TrafficSpec(
        rate_per_s=rate,
        num_requests=requests,
        input_tokens=_spread(ctx, "input_quantiles", size[0]),
        output_tokens=_spread(ctx, "output_quantiles", size[1]),
    )
    limits = _limits(settings(ctx, facts))
    return _build(ctx, model, facts, formats, PoolSpec(plan=plan, limits=limits), traffic)


def _spread(ctx: ServingContext, name: str, mean: int) -> int | Lengths:
    """Lengths drawn from the quantiles that a row states, else all alike."""
    values = ctx.config.get(name)
    return Lengths(distribution="empirical", values=tuple(values)) if values else mean


_MODES: dict[str, Callable[[ServingContext, ModelSpec, Facts, dict[str, str]], Scenario | str]] = {
    "trace": _trace,
    "closed": _closed,
    "static": _static,
    "offline": _offline,
    "open": _open,
}
