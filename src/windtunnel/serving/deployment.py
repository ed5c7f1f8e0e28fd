"""A scenario resolved: which pools serve, how fast their instances are, how caches move between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from windtunnel import catalog
from windtunnel.catalog.load import load
from windtunnel.cost.serving import serving_coefficients
from windtunnel.errors import UNSET, ProblemList, attempt
from windtunnel.importers.model import resolve_model
from windtunnel.scenarios.source import Source
from windtunnel.serving import engine_defaults
from windtunnel.serving.deployment_checks import check, check_agreement, check_room, group_of, widest
from windtunnel.serving.engine_defaults.kv_transfer_defaults import kv_transfer_defaults
from windtunnel.serving.event_loop.fleet import Fleet, KvTransfer, stack_tables
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.iteration import pricing_cache
from windtunnel.serving.iteration.co_scheduled_layers import with_overlap
from windtunnel.serving.iteration.context_parallel import with_context
from windtunnel.serving.iteration.iteration_model import IterationModel
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.serving.iteration.pipeline_stages import pipeline_stages
from windtunnel.serving.iteration.power_cap import PowerCap, with_power_cap
from windtunnel.serving.kv_tiers.checks import check_host_room
from windtunnel.serving.kv_transfer import lane_transfers, transfer_settings
from windtunnel.serving.released_formats import Released, with_released_formats
from windtunnel.serving.speculation import with_drafts
from windtunnel.specs.cluster import ClusterSpec, groups_of
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import PoolSpec, ServingPlan, ServingSpec
from windtunnel.techniques import applied, on_cluster
from windtunnel.techniques.base import Applied

if TYPE_CHECKING:
    from windtunnel.scenarios.fields import SourceMap
    from windtunnel.serving.engine_defaults import Instance
    from windtunnel.specs.model import ModelSpec


_NO_BOUND = 1 << 40
"""Blocks of host memory where nothing bounds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Equal instances with everything decided."""

    index: int
    """Place in `serving.pools`."""
    name: str
    """Role of the pool, numbered where several pools have it."""
    spec: PoolSpec
    group: int
    """Number of the cluster's group that the pool is on."""
    cluster: ClusterSpec
    """The group that the pool is on."""
    model: ModelSpec
    instance: Instance
    iteration: IterationModel
    limits: Limits
    """Limits of one lane; a pipeline of pp stages is pp lanes, each with its share of cache and batch."""
    power_cap: PowerCap
    """Work of its devices in an iteration, and the clock under a power cap."""

    @property
    def lanes(self) -> int:
        """Instances of the request loop: replicas · pp."""
        return self.spec.replicas * self.spec.plan.pp

    @property
    def table_tokens(self) -> int:
        """Tokens up to which the loop needs seconds of iterations: a budget may be far beyond what the cache holds."""
        own, elsewhere = self.limits, self.spec.kv.lending or self.spec.attention_pool is not None
        most = own.most_tokens if elsewhere else own.most_held_tokens
        if own.chunked:
            return most
        whole = int(self.iteration.linear.tokens[-1])  # priced up to the longest prompt, which is not cut
        return max(most, whole if elsewhere else min(whole, replace(own, budget=whole).most_held_tokens))

    @property
    def num_devices(self) -> int:
        """Devices of all instances of the pool, verifiers included."""
        own, drafting = self.spec.plan.num_devices, self.instance.drafting
        return self.spec.replicas * (drafting.devices(own) if drafting else own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A resolved deployment: pools of instances, how fast they are, and how KV caches move between them."""

    scenario: Scenario
    serving: ServingSpec
    folder: Path
    model: ModelSpec
    cluster: ClusterSpec
    pools: tuple[Pool, ...]
    """Mixed and prefill pools first, decode pools last."""
    concurrency: int
    """Requests in flight at most; 0 without a limit."""
    lines: SourceMap
    """Place where each field was written, for problems that are found later."""
    techniques: tuple[Applied, ...] = ()
    kv_transfer: KvTransfer | None = None
    """Seconds of moving KV caches between lanes; None without decode pools."""
    assumed: tuple[tuple[str, object, str], ...] = ()
    """(field, value, why) of formats that the checkpoint decides, and of the KV transfer."""

    @property
    def pool(self) -> PoolSpec:
        """Section of the first pool."""
        return self.pools[0].spec

    @property
    def instance(self) -> Instance:
        """Instance of the first pool."""
        return self.pools[0].instance

    @property
    def iteration(self) -> IterationModel:
        """Iteration model of the first pool."""
        return self.pools[0].iteration

    @property
    def limits(self) -> Limits:
        """Limits of one lane of the first pool, with the concurrency and seed of the traffic."""
        return replace(self.pools[0].limits, concurrency=self.concurrency, seed=self.serving.traffic.seed)

    @property
    def power_cap(self) -> PowerCap:
        """Power cap of the first pool."""
        return self.pools[0].power_cap

    @property
    def lanes(self) -> int:
        """Instances of the request loop, of all pools."""
        return sum(pool.lanes for pool in self.pools)

    @property
    def num_devices(self) -> int:
        """Devices of all pools."""
        return sum(pool.num_devices for pool in self.pools)

    @property
    def instances(self) -> int:
        """Instances of all pools."""
        return sum(pool.spec.replicas for pool in self.pools)

    def fleet(self, every: int = 0) -> Fleet:
        """Build the fleet that the request loop runs.

        Args:
            every: one event in this many is kept; 0 keeps none.
        """
        own = [
            replace(p.limits, concurrency=self.concurrency, seed=self.serving.traffic.seed, every=every)
            for p in self.pools
        ]
        if self.serving.mesh is not None:  # answers are reserved; every model would have prompts of its own to find
            own = [replace(x, reserve=True, caching=False) for x in own]
        own = [x if p.spec.sm_split is None else replace(x, mixed=False) for p, x in zip(self.pools, own, strict=True)]
        tables = [
            p.iteration.tables(
                p.table_tokens,
                p.spec.limits.cuda_graph_sizes,
                x.max_seqs,
                x.ranks,
            )
            for p, x in zip(self.pools, own, strict=True)
        ]
        counts = [p.lanes for p in self.pools]
        roles = np.repeat([p.spec.role for p in self.pools], counts)
        return Fleet(
            limits=tuple(own),
            tables=stack_tables([t if t.ndim == 2 else np.stack([t, 0 * t]) for t in tables]),
            pool=np.repeat(np.arange(len(own)), counts),
            prefill_only=roles == "prefill",
            entries=int((roles != "decode").sum()),
            kv_transfer=self.kv_transfer,
            overlaps=tuple(p.iteration.overlap for p in self.pools),
            stages=tuple(pipeline_stages(p.iteration) for p in self.pools),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDeployment:
    """A scenario's serving section with model, cluster and techniques looked up."""

    scenario: Scenario
    lines: SourceMap
    folder: Path
    problems: ProblemList
    """Collects further problems."""
    model: ModelSpec
    cluster: ClusterSpec
    serving: ServingSpec
    """Serving section with at least one pool, before techniques change it."""
    techniques: tuple[Applied, ...]

    def released(self, serving: ServingSpec) -> Released:
        """The formats of weights that a serving section leaves open, as the checkpoint is released."""
        return with_released_formats(serving, self.scenario, self.model, self.folder)


def load_deployment(source: Source, overrides: Sequence[str], required: str) -> LoadedDeployment:
    """Read a scenario and look up model, cluster and techniques.

    Args:
        source: path, mapping or scenario.
        overrides: `key=value` settings.
        required: rule that a scenario without a serving section breaks.

    Raises:
        BadInput: everything wrong so far, at once.
    """
    scenario, lines, folder = load(source, overrides)
    problems = ProblemList(lines)
    serving = scenario.serving
    if serving is None and scenario.own_verb:
        problems.add("serving", UNSET, f"{required}{scenario.own_verb}")
        problems.raise_if_any()
    model = attempt("model", lambda: resolve_model(scenario, folder), problems)
    cluster = attempt("cluster", lambda: catalog.resolve_cluster(scenario.cluster), problems)
    if serving is None:
        problems.add("serving", UNSET, required)
    techniques = applied(scenario.techniques, problems)
    cluster = cluster and on_cluster(techniques, cluster, problems)
    problems.raise_if_any()
    assert serving is not None
    if not serving.pools:
        serving = serving.model_copy(update={"pools": (_default_pool(scenario),)})
    return LoadedDeployment(
        scenario=scenario,
        lines=lines,
        folder=folder,
        problems=problems,
        model=model,
        cluster=cluster,
        serving=serving,
        techniques=tuple(techniques),
    )


def prepare(source: Source, *, overrides: Sequence[str] = ()) -> Deployment:
    """Resolve a scenario into a deployment.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: weights alone leave no room for a cache.
    """
    o = load_deployment(source, overrides, "is required for `serve`: traffic at least")
    scenario, lines, folder, problems = o.scenario, o.lines, o.folder, o.problems
    model, cluster, serving, techniques = o.model, o.cluster, o.serving, o.techniques
    for technique in techniques:
        serving = technique.on_serving(serving)
    serving, assumed = o.released(serving)
    check(serving, model, techniques, problems)
    wide = serving if serving.autoscale is None else widest(serving, problems)
    groups = [group_of(pool, cluster, f"serving.pools[{i}]", problems) for i, pool in enumerate(serving.pools)]
    problems.raise_if_any()
    check_room(wide, groups, cluster, problems)
    parts = groups_of(cluster)
    check_host_room(wide, groups, parts, problems)
    instances = [
        engine_defaults.resolve(serving, pool, model, parts[group], problems, f"serving.pools[{i}]")
        for i, (pool, group) in enumerate(zip(wide.pools, groups, strict=True))
    ]
    check_agreement(instances, problems)
    problems.raise_if_any()
    pools = [
        priced_pool(wide, i, groups[i], parts[groups[i]], model, instance, techniques)
        for i, instance in enumerate(instances)
    ]
    pools.sort(key=lambda pool: (pool.spec.role == "decode", pool.index))
    out = Deployment(
        scenario=scenario,
        serving=serving,
        folder=folder,
        model=model,
        cluster=cluster,
        pools=tuple(pools),
        concurrency=serving.traffic.concurrency or 0,
        lines=lines,
        techniques=techniques,
        assumed=assumed,
    )
    return with_kv_transfer(out, problems) if pools[-1].spec.role == "decode" else out


def _default_pool(scenario: Scenario) -> PoolSpec:
    """Make one mixed pool with the scenario's own axes."""
    plan = scenario.plan
    dp = plan.dp if isinstance(plan.dp, int) else 1
    return PoolSpec(plan=ServingPlan(tp=plan.tp, pp=plan.pp, ep=plan.ep, dp=dp, cp=plan.cp))


def priced_pool(
    serving: ServingSpec,
    index: int,
    group: int,
    cluster: ClusterSpec,
    model: ModelSpec,
    instance: Instance,
    techniques: tuple[Applied, ...],
    most: int = 0,
) -> Pool:
    """Price one pool's iterations, up to `most` tokens or the largest batch, and set its limits."""
    spec = serving.pools[index]
    most = max(most, instance.limits.most_tokens)
    coefficients = serving_coefficients(
        serving.engine, serving.engine_version, cluster.device, streamed=serving.streams
    )
    skew, graphs = serving.expert_skew, instance.cuda_graphs
    own = pricing_cache.price_once(
        lambda: with_power_cap(
            Layers(model, cluster, instance.shape, coefficients, skew), most_tokens=most, cuda_graphs=graphs
        ),
        ("capped", model, cluster, instance.shape, coefficients, most, skew, graphs),
    )
    layers = Layers(model, cluster, instance.shape, own.iteration.coefficients, serving.expert_skew)
    iteration = with_overlap(layers, own.iteration, techniques, most_tokens=most, cuda_graphs=instance.cuda_graphs)
    iteration = with_context(
        iteration, model, cluster, instance.shape, own.iteration.coefficients, instance.limits.budget
    )
    iteration = with_drafts(
        iteration,
        instance.drafting,
        model,
        cluster,
        instance.shape,
        own.iteration.coefficients,
        skew=serving.expert_skew,
    )
    iteration = replace(iteration, captured=instance.limits.captured)
    same_role = [i for i, pool in enumerate(serving.pools) if pool.role == spec.role]
    name = spec.role if len(same_role) == 1 else f"{spec.role} {same_role.index(index)}"
    limits = pool_limits(serving, spec, iteration, instance)
    own = replace(own, iteration=iteration)
    return Pool(
        index=index,
        name=name,
        spec=spec,
        group=group,
        cluster=cluster,
        model=model,
        instance=instance,
        iteration=iteration,
        limits=limits,
        power_cap=own,
    )


def with_longer_tables(d: Deployment, longest: int) -> Deployment:
    """Price iterations up to whole prompts of `longest` tokens, where a policy does not cut prompts."""
    pools = []
    for p in d.pools:
        own = p.instance.limits
        if own.chunked or p.spec.role == "decode" or longest <= int(p.iteration.linear.tokens[-1]):
            pools.append(p)
            continue
        most = longest + own.max_seqs * own.step_tokens
        more = priced_pool(d.serving, p.index, p.group, p.cluster, p.model, p.instance, d.techniques, most)
        pools.append(replace(more, spec=p.spec))
    return replace(d, pools=tuple(pools))


def pool_limits(serving: ServingSpec, spec: PoolSpec, iteration: IterationModel, instance: Instance) -> Limits:
    """Compute the limits of one lane of a pool: `lane_limits`, and what the pool's role changes."""
    limits = lane_limits(iteration, instance, seed=serving.traffic.seed)
    if to_host(serving, spec):
        limits = replace(limits, swap_blocks=_NO_BOUND)
    if spec.role == "decode":
        limits = replace(limits, taken_last=False)  # SGLang disaggregation/decode.py: resume_retracted_reqs comes first
    return limits


def to_host(serving: ServingSpec, pool: PoolSpec) -> bool:
    """Tell whether preempted answers go to host memory because the engine's decode servers work that way."""
    return pool.role == "decode" and not pool.kv.swap_space_bytes and kv_transfer_defaults(serving.engine).to_host


def lane_limits(iteration: IterationModel, instance: Instance, *, concurrency: int = 0, seed: int = 0) -> Limits:
    """Compute the limits of one lane: the instance's limits with the iteration's costs.

    A pipeline of pp stages is pp lanes, each with its share of cache and batch.
    """
    own, lanes = instance.limits, instance.shape.pp
    return replace(
        own,
        pair_s=iteration.prefill_pair_s,
        kv_s=iteration.decode_kv_s,
        window_kv_s=iteration.window_kv_s,
        per_sequence_s=iteration.per_sequence_s,
        prompt_floor_s=iteration.prefill_floor_s,
        prompt_token_s=iteration.prefill_token_s,
        reach=iteration.attention.reach,
        index_share=iteration.attention.index_share,
        ranks=instance.shape.dp,
        cp=iteration.cp,
        max_seqs=max(own.max_seqs // lanes, 1),
        blocks=own.blocks // lanes,
        watermark=own.watermark // lanes,
        swap_blocks=own.swap_blocks // lanes,
        reserve_length=min(own.reserve_length, own.blocks // lanes * own.block),
        concurrency=concurrency,
        seed=seed,
    )


def with_kv_transfer(d: Deployment, problems: ProblemList) -> Deployment:
    """Add how a deployment's KV caches move: as the scenario says, else as the engine does."""
    from windtunnel.serving.registry_choice import choose
    from windtunnel.serving.routers import ROUTERS

    own, usual = d.serving.transfer, kv_transfer_defaults(d.serving.engine)
    way = transfer_settings(d.serving, d.iteration.coefficients.request_s)
    asked = own.router if own.router is not None else d.serving.router
    where = "serving.transfer.router" if own.router is not None else "serving.router"
    router = choose(ROUTERS, asked, where, "round_robin", problems)
    if router.entry.rule is None and own.router is not None:
        problems.add(where, own.router, "is written in Python; decode instances are chosen by built-in rules alone")
    problems.raise_if_any()
    rule = router.entry.rule
    moved = lane_transfers(d.pools, d.cluster, way, router=int(rule) if rule is not None else 0)
    said = [
        (f"serving.transfer.{name}", getattr(way, name), usual.sources.get(name, "engine default"))
        for name in ("mode", "reserve_first", "first_token", "control_s")
        if getattr(own, name) is None
    ]
    said += [
        (f"serving.pools[{p.index}].kv.swap_space_bytes", "unbounded", usual.sources["kv.swap_space_bytes"])
        for p in d.pools
        if to_host(d.serving, p.spec)
    ]
    if rule is None:
        said.append(("serving.transfer.router", "round_robin", "serving.router is written in Python"))
    return replace(d, kv_transfer=moved, assumed=(*d.assumed, *said))
