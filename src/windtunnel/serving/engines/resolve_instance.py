"""A pool of a scenario → one instance with nothing left open: shape, limits, cache, policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from windtunnel.errors import BadInput, Infeasible, ProblemList
from windtunnel.serving.admission import ADMISSION
from windtunnel.serving.batching import POLICIES, BatchPolicy, limits_of
from windtunnel.serving.engines.base import ENGINES, Defaults, Engine, version_of
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.twin.admission import Admission
from windtunnel.serving.iteration.instance_shape import Shape, shape_of
from windtunnel.serving.kv_capacity import RULES, KvCapacity, capacity
from windtunnel.serving.kv_capacity.attention_devices import remote_blocks
from windtunnel.serving.kv_tiers.checks import check_lending, check_similar, check_tiers
from windtunnel.serving.queues import QUEUES, Queue
from windtunnel.serving.registry_choice import Chosen, choose
from windtunnel.serving.routers import ROUTERS, RouterEntry
from windtunnel.serving.speculation.base import Drafting
from windtunnel.serving.speculation.resolve import drafting_of
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import PoolSpec, ServingSpec

KNOBS = ("gpu_memory_utilization", "mem_fraction_static", "free_gpu_memory_fraction")


@dataclass(frozen=True, slots=True)
class Assumed:
    """A value that the scenario does not state."""

    field: str
    value: Any
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instance, decided. Costs in `limits` are zero until an iteration model fills them in."""

    shape: Shape
    limits: Limits
    capacity: KvCapacity
    policy: type[BatchPolicy]
    router: Chosen[RouterEntry]
    engine: Engine
    defaults: Defaults
    prefix_caching: bool
    cuda_graphs: bool
    max_model_len: int
    """Longest prompt and answer together; 0: unbounded."""
    queue: Chosen[type[Queue]]
    admission: Chosen[type[Admission]] | None
    stream_interval: int
    assumed: tuple[Assumed, ...]
    drafting: Drafting | None = None
    """What drafts tokens, several of which a step verifies."""


def resolve(
    serving: ServingSpec,
    pool: PoolSpec,
    model: ModelSpec,
    cluster: ClusterSpec,
    problems: ProblemList,
    where: str = "serving.pools[0]",
) -> Instance:
    """Decide everything about a pool's instances.

    Problems of the scenario are added to `problems`; the instance is then not to be used.

    Raises:
        Infeasible: weights do not fit, or the cache cannot hold the longest request of an engine that insists on it.
    """
    engine = ENGINES.get(serving.engine, "serving.engine")
    version = version_of(serving.engine_version)
    shape = shape_of(
        model,
        cluster,
        pool.plan,
        serving.precision,
        f"{where}.plan",
        problems,
        serving.expert_load,
        serving.expert_storage,
        serving.sparse_reads,
    )
    drafting = drafting_of(serving.speculation, model, cluster, shape, problems)
    told = pool.limits
    own = engine.defaults(version, model, cluster.device, shape, told)
    shape = replace(
        shape,
        vector_attention=own.vector_attention,
        gathered=own.gathered,
        fused_casts=own.fused_casts,
        host_ahead=told.host_ahead,
    )
    policy = _policy(pool.policy or own.policy, f"{where}.policy", problems)
    fraction = _knob(pool, own, where, problems)
    queue = choose(QUEUES, pool.queue, f"{where}.queue", "fcfs", problems)
    admission = None
    if pool.admission is not None:
        admission = choose(ADMISSION, pool.admission, f"{where}.admission", "all", problems)
    router = choose(ROUTERS, serving.router, "serving.router", "round_robin", problems)
    seqs = told.max_num_seqs or own.max_num_seqs
    batched = told.max_num_batched_tokens or own.max_num_batched_tokens
    block = pool.kv.block_size or own.block_size
    graphs = own.cuda_graph_max_batch > 0 if told.cuda_graphs is None else told.cuda_graphs
    ranks = shape.dp if own.per_rank else 1
    share = 1 if own.per_rank else shape.dp
    caching = own.prefix_caching if pool.kv.prefix_caching is None else pool.kv.prefix_caching
    check_tiers(pool.kv, f"{where}.kv", caching=caching, problems=problems)
    check_similar(pool.kv, f"{where}.kv", caching=caching, problems=problems)
    check_lending(serving, pool, where, problems)
    if problems:
        cache = KvCapacity(
            blocks=0,
            block_size=block,
            tokens=0,
            cache_bytes=0.0,
            weights_bytes=0.0,
            activations_bytes=0.0,
            other_bytes=0.0,
            bytes_per_token=0.0,
        )
    else:
        blocks = pool.kv.num_blocks
        if pool.attention_pool is not None:
            blocks = remote_blocks(model, shape, pool.attention_pool, block)
        cache = capacity(
            model,
            cluster,
            shape,
            rule=own.memory_rule,
            version=version,
            fraction=fraction,
            max_num_seqs=-(-seqs // share),
            max_num_batched_tokens=-(-batched // share),
            block_size=block,
            sampler_bytes=own.sampler_bytes,
            cuda_graphs=graphs,
            num_blocks=blocks,
            drafts=drafting.memory if drafting else (0.0, 0.0),
        )
        if pool.attention_pool is not None and cache.cache_bytes <= 0.0:
            raise Infeasible(
                f"{model.name} does not fit {cluster.device.name}: weights leave {cache.cache_bytes / 2**30:.2f} GiB",
                "a larger tp or pp, or fewer bits of weights",
            )
    longest = told.max_model_len or model.max_position_embeddings
    alone = own.fits_longest and not pool.kv.lending
    if alone and told.max_model_len and 0 < cache.tokens // shape.dp < told.max_model_len:
        raise Infeasible(
            f"{engine.name} does not start: its cache holds {cache.tokens // shape.dp} tokens, fewer than "
            f"{where}.limits.max_model_len {told.max_model_len}",
            f"max_model_len {cache.tokens // shape.dp}",
        )
    limits = Limits(
        budget=batched * ranks,
        max_seqs=seqs * ranks,
        block=block,
        blocks=cache.blocks,
        captured=own.captured_tokens if told.max_cudagraph_capture_size is None else told.max_cudagraph_capture_size,
        window=model.attended_window,
        poll=told.scheduler_interval or own.scheduler_interval,
        router=int(router.entry.rule or 0),
    )
    limits = limits_of(policy, limits)
    size = cache.bytes_per_token * block
    limits = replace(
        limits,
        chunked=limits.chunked if told.chunked_prefill is None else told.chunked_prefill,
        caching=caching,
        sequence_blocks=cache.sequence_blocks,
        window_share=cache.window_share,
        reserve_length=min(longest, (cache.blocks - cache.sequence_blocks) * block) if policy.reserves_longest else 0,
        swap_blocks=int(pool.kv.swap_space_bytes // size) * ranks if size else 0,
        swap_block=size / cluster.device.pcie_bytes_per_s,
        tokens_per_step=round(drafting.tokens_per_step * 1e6) if drafting else 1_000_000,
        step_tokens=drafting.verified if drafting else 1,
        lookahead=drafting.slots if drafting else 0,
    )
    stated = {
        "max_num_seqs": told.max_num_seqs,
        "max_num_batched_tokens": told.max_num_batched_tokens,
        "chunked_prefill": told.chunked_prefill,
        "block_size": pool.kv.block_size,
        "policy": pool.policy,
        "prefix_caching": pool.kv.prefix_caching,
        "memory_fraction": getattr(told, RULES.get(own.memory_rule).knob),
    }
    found = {
        "max_num_seqs": seqs,
        "max_num_batched_tokens": batched,
        "chunked_prefill": limits.chunked,
        "block_size": block,
        "policy": policy.id,
        "prefix_caching": caching,
        "memory_fraction": fraction,
    }
    fields = {
        "max_num_seqs": "limits.max_num_seqs",
        "max_num_batched_tokens": "limits.max_num_batched_tokens",
        "chunked_prefill": "limits.chunked_prefill",
        "block_size": "kv.block_size",
        "policy": "policy",
        "prefix_caching": "kv.prefix_caching",
        "memory_fraction": f"limits.{RULES.get(own.memory_rule).knob}",
    }
    assumed = [
        Assumed(f"{where}.{fields[name]}", found[name], own.sources.get(name, "engine default"))
        for name, given in stated.items()
        if given is None
    ]
    if not version and serving.engine != "generic":
        assumed.insert(0, Assumed("serving.engine_version", "newest known", "not stated"))
    assumed += [Assumed(*each) for each in (drafting.assumed if drafting else ())]
    plain = [("serving.router", router.id)] if router.entry.rule is None else []
    plain += [] if policy.jitted() else [(f"{where}.policy", policy.id)]
    plain += [] if queue.entry.jitted else [(f"{where}.queue", queue.id)]
    plain += [(f"{where}.admission", admission.id)] if admission else []
    if drafting and drafting.variation != "none":
        plain.append(("serving.speculation.variation", drafting.variation))
    if plain:
        assumed.append(Assumed(*plain[0], "has hooks in Python: the plain loop runs it, which is slower"))
    return Instance(
        shape=shape,
        limits=limits,
        capacity=cache,
        policy=policy,
        router=router,
        engine=engine,
        defaults=own,
        prefix_caching=caching,
        cuda_graphs=graphs,
        max_model_len=longest,
        queue=queue,
        admission=admission,
        stream_interval=told.stream_interval or own.stream_interval,
        assumed=tuple(assumed),
        drafting=drafting,
    )


def _policy(name: str, where: str, problems: ProblemList) -> type[BatchPolicy]:
    try:
        return POLICIES.get(name, where)
    except BadInput as error:
        problems.extend(error.problems)
        return POLICIES.get("vllm_v1")


def _knob(pool: PoolSpec, own: Defaults, where: str, problems: ProblemList) -> float:
    """The share of memory: the engine's own knob, or its default; another engine's knob is a mistake."""
    knob = RULES.get(own.memory_rule).knob
    for other in KNOBS:
        if other != knob and getattr(pool.limits, other) is not None:
            value = getattr(pool.limits, other)
            problems.add(f"{where}.limits.{other}", value, f"is another engine's; this one reads {knob}", nearest=knob)
    given = getattr(pool.limits, knob)
    return float(given if given is not None else own.memory_fraction)
