"""A pool of a scenario → one instance with nothing left open: shape, limits, cache, policy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from windtunnel.errors import BadInput, Infeasible, ProblemList
from windtunnel.serving.admission import ADMISSION
from windtunnel.serving.batching import POLICIES, BatchPolicy, limits_of
from windtunnel.serving.engine_defaults import legal
from windtunnel.serving.engine_defaults.base import ENGINES, Defaults, Engine, version_of
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.twin.admission import Admission
from windtunnel.serving.iteration.instance_shape import Shape, WeightReads, shape_of
from windtunnel.serving.kv_capacity import RULES, CacheSettings, KvCapacity, capacity
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
    version: tuple[int, ...]
    """Numbers of the engine's release; empty for the newest."""
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
    facts: dict[str, Any] = field(default_factory=dict)
    """What rules of the engine's release are asked about (`legal`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """Batch and cache settings of an instance: what the scenario states, else the engine's defaults."""

    sequences: int
    tokens: int
    block_size: int
    """Tokens of a cache block."""
    memory_fraction: float
    """Knob of the engine's memory rule."""
    cuda_graphs: bool
    prefix_caching: bool
    per_rank: bool
    """Whether `sequences` and `tokens` hold for each rank of attention data parallelism, or for all together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choices:
    """Everything about a pool's instances that is decided before their cache is known."""

    serving: ServingSpec
    pool: PoolSpec
    where: str
    """Place of the pool in the scenario."""
    model: ModelSpec
    cluster: ClusterSpec
    engine: Engine
    version: tuple[int, ...]
    defaults: Defaults
    shape: Shape
    batch: _Batch
    policy: type[BatchPolicy]
    queue: Chosen[type[Queue]]
    admission: Chosen[type[Admission]] | None
    router: Chosen[RouterEntry]
    drafting: Drafting | None
    adjusted: tuple[legal.Breach, ...]
    """What the engine takes otherwise than it is stated."""
    facts: dict[str, Any]
    """What rules of the engine's release are asked about."""

    @property
    def ranks(self) -> int:
        """Ranks over which the limits of a batch are multiplied."""
        return self.shape.dp if self.batch.per_rank else 1

    @property
    def max_model_len(self) -> int:
        """Longest prompt and answer together, tokens."""
        return self.pool.limits.max_model_len or self.model.max_position_embeddings


def resolve(
    serving: ServingSpec,
    pool: PoolSpec,
    model: ModelSpec,
    cluster: ClusterSpec,
    problems: ProblemList,
    where: str = "serving.pools[0]",
) -> Instance:
    """Decide everything about a pool's instances.

    Args:
        serving: serving section of the scenario.
        pool: the pool.
        model: what is served.
        cluster: group of the cluster that the pool is on.
        problems: list that problems of the scenario are added to; with any, the instance is not to be used.
        where: place of the pool in the scenario.

    Raises:
        Infeasible: weights do not fit, or the cache cannot hold the longest request of an engine that insists on it.
    """
    x = _choices(serving, pool, model, cluster, problems, where)
    caching = x.batch.prefix_caching
    check_tiers(pool.kv, f"{where}.kv", caching=caching, problems=problems)
    check_similar(pool.kv, f"{where}.kv", caching=caching, problems=problems)
    check_lending(serving, pool, where, problems)
    cache = _no_cache(x.batch.block_size) if problems else _cache(x)
    _check_longest_fits(x, cache)
    limits = _limits(x, cache)
    return Instance(
        shape=x.shape,
        limits=limits,
        capacity=cache,
        policy=x.policy,
        router=x.router,
        engine=x.engine,
        version=x.version,
        defaults=x.defaults,
        prefix_caching=caching,
        cuda_graphs=x.batch.cuda_graphs,
        max_model_len=x.max_model_len,
        queue=x.queue,
        admission=x.admission,
        stream_interval=pool.limits.stream_interval or x.defaults.stream_interval,
        assumed=(*_assumed_values(x, limits), *_assumed_loop(x)),
        drafting=x.drafting,
        facts=x.facts,
    )


def _choices(
    serving: ServingSpec, pool: PoolSpec, model: ModelSpec, cluster: ClusterSpec, problems: ProblemList, where: str
) -> _Choices:
    engine = ENGINES.get(serving.engine, "serving.engine")
    version = version_of(serving.engine_version)
    reads = WeightReads(serving.expert_load, serving.expert_storage, serving.sparse_reads)
    shape = shape_of(model, cluster, pool.plan, serving.precision, f"{where}.plan", problems, reads)
    drafting = drafting_of(serving.speculation, model, cluster, shape, problems)
    defaults = engine.defaults(version, model, cluster.device, shape, pool.limits)
    shape = replace(
        shape,
        vector_attention=defaults.vector_attention,
        gathered=defaults.gathered,
        narrow_prompts=defaults.narrow_prompts,
        fused_casts=defaults.fused_casts,
        expert_layout=defaults.expert_layout if shape.expert.name == "mxfp4" else shape.expert_layout,
        host_ahead=pool.limits.host_ahead,
    )
    policy = _policy(pool.policy or defaults.policy, f"{where}.policy", problems)
    batch = _batch(pool, defaults, where, problems)
    queue = choose(QUEUES, pool.queue, f"{where}.queue", "fcfs", problems)
    admission = None
    if pool.admission is not None:
        admission = choose(ADMISSION, pool.admission, f"{where}.admission", "all", problems)
    facts = legal.facts_of(serving, pool, model, cluster, _counted(pool, batch, defaults, model))
    adjusted = legal.refuse(serving.engine, version, facts, where, problems)
    return _Choices(
        serving=serving,
        pool=pool,
        where=where,
        model=model,
        cluster=cluster,
        engine=engine,
        version=version,
        defaults=defaults,
        shape=shape,
        batch=batch,
        policy=policy,
        queue=queue,
        admission=admission,
        router=choose(ROUTERS, serving.router, "serving.router", "round_robin", problems),
        drafting=drafting,
        adjusted=adjusted,
        facts=facts,
    )


def _counted(pool: PoolSpec, batch: _Batch, defaults: Defaults, model: ModelSpec) -> legal.Batch:
    """Limits as the engine's rules count them; its own block size follows from its kernels and breaks no rule."""
    chunked = pool.limits.chunked_prefill
    return legal.Batch(
        sequences=batch.sequences,
        tokens=batch.tokens,
        chunked=defaults.chunked_prefill if chunked is None else chunked,
        block_size=pool.kv.block_size,
        max_model_len=pool.limits.max_model_len or model.max_position_embeddings,
    )


def _batch(pool: PoolSpec, defaults: Defaults, where: str, problems: ProblemList) -> _Batch:
    told, kv = pool.limits, pool.kv
    return _Batch(
        sequences=told.max_num_seqs or defaults.max_num_seqs,
        tokens=told.max_num_batched_tokens or defaults.max_num_batched_tokens,
        block_size=kv.block_size or defaults.block_size,
        memory_fraction=_knob(pool, defaults, where, problems),
        cuda_graphs=defaults.cuda_graph_max_batch > 0 if told.cuda_graphs is None else told.cuda_graphs,
        prefix_caching=defaults.prefix_caching if kv.prefix_caching is None else kv.prefix_caching,
        per_rank=defaults.per_rank,
    )


def _no_cache(block_size: int) -> KvCapacity:
    """Stand in for the cache of an instance that is not to be used."""
    return KvCapacity(
        blocks=0,
        block_size=block_size,
        tokens=0,
        cache_bytes=0.0,
        weights_bytes=0.0,
        activations_bytes=0.0,
        other_bytes=0.0,
        bytes_per_token=0.0,
    )


def _cache(x: _Choices) -> KvCapacity:
    """Compute the cache that the engine will allocate."""
    blocks, share = x.pool.kv.num_blocks, 1 if x.batch.per_rank else x.shape.dp
    if x.pool.attention_pool is not None:
        blocks = remote_blocks(x.model, x.shape, x.pool.attention_pool, x.batch.block_size)
    settings = CacheSettings(
        rule=x.defaults.memory_rule,
        version=x.version,
        fraction=x.batch.memory_fraction,
        max_num_seqs=-(-x.batch.sequences // share),
        max_num_batched_tokens=-(-x.batch.tokens // share),
        block_size=x.batch.block_size,
        sampler_bytes=x.defaults.sampler_bytes,
        cuda_graphs=x.batch.cuda_graphs,
        num_blocks=blocks,
        drafts=x.drafting.memory if x.drafting else (0.0, 0.0),
    )
    cache = capacity(x.model, x.cluster, x.shape, settings)
    if x.pool.attention_pool is not None and cache.cache_bytes <= 0.0:
        raise Infeasible(
            f"{x.model.name} does not fit {x.cluster.device.name}: weights leave {cache.cache_bytes / 2**30:.2f} GiB",
            "a larger tp or pp, or fewer bits of weights",
        )
    return cache


def _check_longest_fits(x: _Choices, cache: KvCapacity) -> None:
    """Refuse a cache that cannot hold one request of `max_model_len`, where the engine refuses to start with it."""
    insists = x.defaults.fits_longest and not x.pool.kv.lending
    told, tokens = x.pool.limits.max_model_len, cache.tokens // x.shape.dp
    if insists and told and 0 < tokens < told:
        raise Infeasible(
            f"{x.engine.name} does not start: its cache holds {tokens} tokens, fewer than "
            f"{x.where}.limits.max_model_len {told}",
            f"max_model_len {tokens}",
        )


def _limits(x: _Choices, cache: KvCapacity) -> Limits:
    """Compute what the request loop reads of an instance; costs stay zero."""
    told, block, drafting = x.pool.limits, cache.block_size, x.drafting
    captured = told.max_cudagraph_capture_size
    limits = Limits(
        budget=x.batch.tokens * x.ranks,
        max_seqs=x.batch.sequences * x.ranks,
        block=block,
        blocks=cache.blocks,
        captured=x.defaults.captured_tokens if captured is None else captured,
        window=x.model.attended_window,
        poll=told.scheduler_interval or x.defaults.scheduler_interval,
        router=int(x.router.entry.rule or 0),
    )
    limits = limits_of(x.policy, limits)
    block_bytes = cache.bytes_per_token * block
    reserved = min(x.max_model_len, (cache.blocks - cache.sequence_blocks) * block)
    return replace(
        limits,
        chunked=limits.chunked if told.chunked_prefill is None else told.chunked_prefill,
        caching=x.batch.prefix_caching,
        sequence_blocks=cache.sequence_blocks,
        window_share=cache.window_share,
        reserve_length=reserved if x.policy.reserves_longest else 0,
        swap_blocks=int(x.pool.kv.swap_space_bytes // block_bytes) * x.ranks if block_bytes else 0,
        swap_block_s=block_bytes / x.cluster.device.pcie_bytes_per_s,
        tokens_per_step=round(drafting.tokens_per_step * 1e6) if drafting else 1_000_000,
        step_tokens=drafting.verified if drafting else 1,
        lookahead=drafting.slots if drafting else 0,
    )


def _assumed_values(x: _Choices, limits: Limits) -> list[Assumed]:
    """List the engine's values that the scenario does not state."""
    told, kv, batch, knob = x.pool.limits, x.pool.kv, x.batch, RULES.get(x.defaults.memory_rule).knob
    rows: tuple[tuple[str, str, Any, Any], ...] = (
        ("max_num_seqs", "limits.max_num_seqs", told.max_num_seqs, batch.sequences),
        ("max_num_batched_tokens", "limits.max_num_batched_tokens", told.max_num_batched_tokens, batch.tokens),
        ("chunked_prefill", "limits.chunked_prefill", told.chunked_prefill, limits.chunked),
        ("block_size", "kv.block_size", kv.block_size, batch.block_size),
        ("policy", "policy", x.pool.policy, x.policy.id),
        ("prefix_caching", "kv.prefix_caching", kv.prefix_caching, batch.prefix_caching),
        ("memory_fraction", f"limits.{knob}", getattr(told, knob), batch.memory_fraction),
    )
    out = [
        Assumed(f"{x.where}.{field}", value, x.defaults.sources.get(name, "engine default"))
        for name, field, stated, value in rows
        if stated is None
    ]
    says = {
        "adjusts": "the engine takes another value: it",
        "lifted": "the engine is started with what lifts its rule:",
    }
    out += [Assumed(one.field, one.value, f"{says[one.effect]} {one.rule}") for one in x.adjusted]
    if not x.version and x.serving.engine != "generic":
        out.insert(0, Assumed("serving.engine_version", "newest known", "not stated"))
    return out


def _assumed_loop(x: _Choices) -> list[Assumed]:
    """List what drafting assumes, and the first rule that only the reference loop in Python runs."""
    out = [Assumed(*each) for each in (x.drafting.assumed if x.drafting else ())]
    in_python = [("serving.router", x.router.id)] if x.router.entry.rule is None else []
    in_python += [] if x.policy.jitted() else [(f"{x.where}.policy", x.policy.id)]
    in_python += [] if x.queue.entry.jitted else [(f"{x.where}.queue", x.queue.id)]
    in_python += [(f"{x.where}.admission", x.admission.id)] if x.admission else []
    if x.drafting and x.drafting.variation != "none":
        in_python.append(("serving.speculation.variation", x.drafting.variation))
    if in_python:
        out.append(Assumed(*in_python[0], "has hooks in Python: the reference loop runs it, which is slower"))
    return out


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
