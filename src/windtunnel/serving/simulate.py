"""From a scenario to a serving prediction: look up, resolve instances, make traffic, run, measure."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel import catalog
from windtunnel.cost.serving import release_of, serving_coefficients
from windtunnel.errors import BadInput, ProblemList
from windtunnel.importers.scenario import Source, attempt, load, resolve_model
from windtunnel.serving import loop
from windtunnel.serving.autoscale import paid, scaler, scaling
from windtunnel.serving.by_task import by_task
from windtunnel.serving.by_tenant import by_tenant
from windtunnel.serving.capped import Capped, capped
from windtunnel.serving.composition import bound_by, composition, mean_batch
from windtunnel.serving.context import check_context, with_context
from windtunnel.serving.coscheduled import overlapped
from windtunnel.serving.hooks import hooks_of
from windtunnel.serving.interval import FULL_CACHE, band
from windtunnel.serving.iteration import IterationModel
from windtunnel.serving.layers import Layers
from windtunnel.serving.limits import Limits
from windtunnel.serving.metrics import (
    backlog_grows,
    distribution,
    from_histogram,
    measures,
    per_request,
    sessions_outlast_arrivals,
    too_short_to_tell,
)
from windtunnel.serving.power import PowerReport, power
from windtunnel.serving.prefixes import chains_of
from windtunnel.serving.record import Record
from windtunnel.serving.requests import DONE, REJECTED, SHED, Ints, Requests
from windtunnel.serving.results import ServingResult
from windtunnel.serving.speculation import with_drafts
from windtunnel.serving.speculation.report import speculation_report
from windtunnel.specs.scenario import ModelFile, Scenario
from windtunnel.specs.serving import PoolSpec, ServingPlan, ServingSpec
from windtunnel.techniques import applied, remarks
from windtunnel.techniques.base import Applied

if TYPE_CHECKING:
    from windtunnel.serving.engines import Instance
    from windtunnel.serving.traffic import Traffic
    from windtunnel.specs.cluster import ClusterSpec
    from windtunnel.specs.loader import SourceMap
    from windtunnel.specs.model import ModelSpec

KEEP_EVENTS_BELOW = 200_000
"""Requests up to which every event is kept for charts; beyond it one in several."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A scenario resolved: what serves, and how fast."""

    scenario: Scenario
    serving: ServingSpec
    folder: Path
    model: ModelSpec
    cluster: ClusterSpec
    pool: PoolSpec
    instance: Instance
    iteration: IterationModel
    limits: Limits
    """Of one instance of the loop; a pipeline of pp stages is pp of them, each with its share of cache and batch."""
    lanes: int
    """Instances of the loop: replicas · pp."""
    capped: Capped
    """What its devices do in an iteration, and at which clock under a power cap."""
    lines: SourceMap
    """Where each field was written, for problems that are found later."""
    techniques: tuple[Applied, ...] = ()


def prepare(source: Source, *, overrides: Sequence[str] = ()) -> Deployment:
    """Resolve a scenario into a deployment.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: weights alone leave no room for a cache.
    """
    from windtunnel.serving import engines

    scenario, lines, folder = load(source, overrides)
    problems = ProblemList(lines)
    model = attempt("model", lambda: resolve_model(scenario, folder), problems)
    cluster = attempt("cluster", lambda: catalog.resolve_cluster(scenario.cluster), problems)
    serving = scenario.serving
    if serving is None:
        problems.add("serving", None, "is required for `serve`: traffic at least")
    techniques = applied(scenario.techniques, problems)
    problems.raise_if_any()
    assert serving is not None
    if not serving.pools:
        serving = serving.model_copy(update={"pools": (_default_pool(scenario),)})
    for technique in techniques:
        serving = technique.on_serving(serving)
    pool = _pool(serving, problems)
    if serving.autoscale is not None:
        pool = _widest(serving, pool, problems)
    _check(serving, pool, model, problems)
    if pool.replicas * pool.plan.num_devices > cluster.num_devices:
        need = pool.replicas * pool.plan.num_devices
        rule = f"replicas · tp · pp · dp · cp = {need} must not exceed the {cluster.num_devices} devices of the cluster"
        problems.add("serving.pools", pool.replicas, rule)
    instance = engines.resolve(serving, pool, model, cluster, problems)
    problems.raise_if_any()
    coefficients = serving_coefficients(serving.engine, serving.engine_version, cluster.device)
    most = instance.limits.most_tokens
    own = capped(
        model, cluster, instance.shape, coefficients, most_tokens=most, expert_skew=serving.expert_skew,
        cuda_graphs=instance.cuda_graphs,
    )  # fmt: skip
    layers = Layers(model, cluster, instance.shape, own.iteration.coefficients, serving.expert_skew)
    iteration = overlapped(layers, own.iteration, techniques, most_tokens=most, cuda_graphs=instance.cuda_graphs)
    iteration = with_context(
        iteration, model, cluster, instance.shape, own.iteration.coefficients, instance.limits.budget
    )
    iteration = with_drafts(
        iteration, instance.drafting, model, cluster, instance.shape, own.iteration.coefficients,
        skew=serving.expert_skew,
    )  # fmt: skip
    own = replace(own, iteration=iteration)
    limits = lane_limits(
        own.iteration, instance, concurrency=serving.traffic.concurrency or 0, seed=serving.traffic.seed
    )
    lanes = pool.replicas * pool.plan.pp
    return Deployment(
        scenario, serving, folder, model, cluster, pool, instance, own.iteration, limits, lanes, own, lines, techniques
    )


def _widest(serving: ServingSpec, pool: PoolSpec, problems: ProblemList) -> PoolSpec:
    """The pool with as many instances as there may ever be."""
    assert serving.autoscale is not None
    own = serving.autoscale
    if not own.min <= pool.replicas <= own.max:
        rule = f"instances at the start must be from autoscale.min {own.min} to autoscale.max {own.max}"
        problems.add("serving.pools[0].replicas", pool.replicas, rule)
    return pool.model_copy(update={"replicas": own.max})


def _check(
    serving: ServingSpec, pool: PoolSpec, model: ModelSpec, problems: ProblemList
) -> None:  # fmt: skip
    """What no engine here can serve."""
    from windtunnel.serving.engines import version_of

    if model.family in ("encoder", "vit"):
        problems.add("model", model.name, "generates no tokens: serving needs a decoder")
    elif model.family == "encoder_decoder":
        problems.add("model", model.name, "encoder-decoders are not served yet: a decoder-only model is needed")
    if model.family not in ("encoder", "vit", "encoder_decoder"):
        check_context(model, pool.plan, "serving.pools[0].plan", problems)
    if serving.engine_version and not version_of(serving.engine_version):
        rule = "must begin with a release number, such as 0.10.0"
        problems.add("serving.engine_version", serving.engine_version, rule)


def _default_pool(scenario: Scenario) -> PoolSpec:
    """One mixed pool with the scenario's own axes."""
    plan = scenario.plan
    dp = plan.dp if isinstance(plan.dp, int) else 1
    return PoolSpec(plan=ServingPlan(tp=plan.tp, pp=plan.pp, ep=plan.ep, dp=dp, cp=plan.cp))


def _pool(serving: ServingSpec, problems: ProblemList) -> PoolSpec:
    """The one pool of alike instances; several, or split roles, are not simulated yet."""
    if len(serving.pools) > 1:
        problems.add("serving.pools", f"{len(serving.pools)} pools", "one pool is simulated yet")
    for i, pool in enumerate(serving.pools):
        if pool.role != "mixed":
            problems.add(f"serving.pools[{i}].role", pool.role, "only mixed pools are simulated yet")
    return serving.pools[0]


def lane_limits(iteration: IterationModel, instance: Instance, *, concurrency: int = 0, seed: int = 0) -> Limits:
    """What the loop reads, of one lane: the instance's limits with the iteration's costs.

    A pipeline of pp stages is pp lanes, each with its share of cache and batch.
    """
    own, lanes = instance.limits, instance.shape.pp
    return replace(
        own, pair=iteration.prefill_pair_s, kv=iteration.decode_kv_s, window_kv=iteration.window_kv_s,
        per_sequence=iteration.per_sequence_s, prompt_extra=iteration.prefill_extra_s,
        prompt_token=iteration.prefill_token_s, reach=iteration.attention.reach,
        index_share=iteration.attention.index_share, ranks=instance.shape.dp, cp=iteration.cp,
        max_seqs=max(own.max_seqs // lanes, 1), blocks=own.blocks // lanes, watermark=own.watermark // lanes,
        swap_blocks=own.swap_blocks // lanes,
        reserve_length=min(own.reserve_length, own.blocks // lanes * own.block),
        concurrency=concurrency, seed=seed,
    )  # fmt: skip


def simulate_serving(source: Source, *, overrides: Sequence[str] = ()) -> ServingResult:
    """Simulate serving request by request.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: `key=value` settings as `--set` takes them.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: the model does not fit.

    Example:
        >>> import windtunnel as wt
        >>> r = wt.simulate_serving("examples/serving/llama3-70b-4xh100.yaml")  # doctest: +SKIP
    """
    begun = time.perf_counter()
    d, traffic = sending(prepare(source, overrides=overrides))
    result = run(d, traffic.requests, assumed=traffic.assumed)
    return replace(result, simulated_in_s=time.perf_counter() - begun)


def sending(d: Deployment) -> tuple[Deployment, Traffic]:
    """A deployment's traffic, and the deployment with what a recorded benchmark says of how it sent its requests.

    Raises:
        BadInput: everything wrong with a trace or the settings beside it, with its place in the scenario.
    """
    from windtunnel.serving.traffic import generate

    try:
        traffic = generate(d.serving.traffic, folder=d.folder)
    except BadInput as error:
        raise error.located(d.lines) from None
    if traffic.spec != d.serving.traffic:
        serving = d.serving.model_copy(update={"traffic": traffic.spec})
        d = replace(d, serving=serving, limits=replace(d.limits, concurrency=traffic.concurrency))
    return d, traffic


def run(d: Deployment, requests: Requests, *, assumed: tuple[tuple[str, Any, str], ...] = ()) -> ServingResult:
    """Serve given requests on a resolved deployment.

    Args:
        d: what serves.
        requests: what is sent; times are written into it.
        assumed: (field, value, why) of the traffic.
    """
    count = len(requests)
    every = 1 if count <= KEEP_EVENTS_BELOW else -(-count // KEEP_EVENTS_BELOW)
    limits = replace(d.limits, every=every)
    most = limits.most_tokens
    shared = d.serving.traffic.shared_prefix_tokens
    chains = chains_of(requests, limits.block, shared) if limits.caching else None
    table = d.iteration.tables(most, d.pool.limits.cuda_graph_sizes, limits.max_seqs, limits.ranks)
    sent, cut = _within(d, requests)
    overlap = d.iteration.overlap
    control, begun = scaler(d)
    plainly = overlap is not None or requests.after is not None or control is not None
    hooks = hooks_of(d.instance, d.serving, limits, count, plainly=plainly)
    if d.instance.queue.id == "fcfs" and requests.priority.any():
        requests.priority = np.zeros(count, np.int32)
    if hooks is None:
        outcome = loop.serve(requests, table, limits, d.lanes, chains)
    else:
        outcome = loop.serve_plainly(
            requests, table, limits, d.lanes, chains, policy=hooks.policy, router=hooks.router, queue=hooks.queue,
            admission=hooks.admission, overlap=overlap, pace=hooks.pace, control=control,
        )  # fmt: skip
    requests.input_tokens = sent
    found = measures(requests, d.iteration.request_s, d.serving.traffic.warmup_requests)
    done = requests.state == DONE
    finish = float(np.nanmax(requests.finish_s)) if done.any() else 0.0
    first = float(np.nanmin(requests.arrival_s)) if count else 0.0
    duration = max(finish - first, 1e-12)
    totals = outcome.totals
    generated = float(requests.output_tokens[done].sum())
    prompts = float(requests.input_tokens[done].sum())
    good = found.good(d.serving.slo)
    shed = int((requests.state == SHED).sum())
    measured = max(int(found.done.sum()) + shed, 1)
    share = float(good.sum()) / measured
    devices = d.pool.replicas * d.pool.plan.num_devices
    tpot = distribution(found.tpot_s)
    iterations = float(totals["iterations"].sum())
    drawn = _power(d, totals, duration, generated)
    scaled: dict[str, Any] = {}
    held = 1.0
    if control is not None and begun is not None:
        scaled = scaling(control, begun, d.pool.plan.num_devices, first, finish)
        held = control.instance_seconds(finish) / max(d.pool.replicas * finish, 1e-12)
        drawn = paid(drawn, held, finish)
        assumed += begun.assumed
    tasks = by_task(requests, d.serving.traffic, d.iteration.request_s)
    each, shares = by_tenant(requests, found, d.serving)
    saturated = not limits.concurrency and not d.serving.traffic.offline and backlog_grows(requests)
    cached = float(requests.cached_tokens[done].sum()) / max(prompts, 1.0)
    capacity = d.instance.capacity
    mean = mean_batch(totals, int(done.sum()) + int(totals["preemptions"].sum()), mixed=limits.mixed)
    parts = composition(d.iteration, mean, mixed=limits.mixed)
    record = Record(requests, outcome.series, every, d.lanes, d.pool.plan.pp, limits.blocks)
    from windtunnel import __version__

    plain = d.scenario.model_dump(mode="json", exclude_unset=True)
    if isinstance(d.scenario.model, ModelFile):
        plain["model"] = d.model.model_dump(mode="json", exclude_defaults=True)
    digest = hashlib.sha256(json.dumps([plain, __version__], sort_keys=True).encode()).hexdigest()[:16]
    ttft, itl, e2e = distribution(found.ttft_s), from_histogram(outcome.between_tokens), distribution(found.e2e_s)
    intervals = _intervals(
        d, {"ttft_s": ttft.mean, "tpot_s": tpot.mean, "itl_s": itl.mean, "e2e_s": e2e.mean,
            "output_tokens_per_s": generated / duration},
        cache_full=float(totals["kv_max"].max()) >= FULL_CACHE * limits.blocks,
    )  # fmt: skip
    grades = {name: band["grade"] for name, band in intervals.items()} | {"capacity": "analytic"}
    return ServingResult(
        scenario_name=d.scenario.name or d.model.name, requests=count, completed=int(done.sum()),
        rejected=int((requests.state == REJECTED).sum()), shed=shed, duration_s=duration,
        throughput_requests_per_s=float(done.sum()) / duration, output_tokens_per_s=generated / duration,
        output_tokens_per_s_per_device=generated / duration / (devices * held),
        total_tokens_per_s=(generated + prompts) / duration,
        output_tokens_per_s_per_user=1.0 / tpot.p50 if tpot.p50 > 0 else 0.0, ttft_s=ttft,
        tpot_s=tpot, itl_s=itl, e2e_s=e2e,
        queue_s=distribution(found.queue_s), slo_attainment=share, slo_met=share >= d.serving.slo.percentile,
        goodput_requests_per_s=share * float(done.sum() + shed) / duration,
        kv_cache_usage_max=float(totals["kv_max"].max()) / limits.blocks,
        kv_cache_usage_mean=float(totals["used_s"].sum()) / (limits.blocks * d.lanes * duration),
        prefix_hit_rate=cached, preemptions=int(totals["preemptions"].sum()),
        running_mean=float(totals["running_s"].sum()) / duration,
        waiting_mean=float(np.nansum(found.queue_s)) / duration, saturated=saturated, num_devices=devices,
        instances=d.pool.replicas, capacity=asdict(capacity), limits=_described(d),
        iterations={
            "count": iterations, "mean_s": float(totals["busy_s"].sum()) / max(iterations, 1.0),
            "with_prompts": float(totals["prompt_iterations"].sum()),
            "busy_share": float(totals["busy_s"].sum()) / (d.lanes * duration),
        },
        power=drawn.to_dict(), cost_per_million_output_tokens=drawn.cost_per_million_output_tokens,
        bound_by=bound_by(parts, mean, float(totals["busy_s"].sum()), record, limits), composition=parts,
        speculation=speculation_report(d.instance.drafting, d.iteration, mean, outcome, requests),
        intervals=intervals, grades=grades, assumed=_assumed(d, assumed),
        warnings=(*_warnings(d, requests, saturated), *cut), scenario=plain,
        citations=tuple(x.technique.paper.line() for x in d.techniques),
        techniques=tuple(x.technique.id for x in d.techniques), scaling=scaled, tenants=each,
        fairness=shares, tasks=tasks, input_hash=digest, version=__version__, table=per_request(requests, found),
        record=record,
    )  # fmt: skip


def _within(d: Deployment, requests: Requests) -> tuple[Ints, list[str]]:
    """Hold requests to `max_model_len` as engines do: longer prompts are refused, longer answers end there.

    Returns:
        Prompts as they were sent (those to be refused are made too long for the cache), and what to say.
    """
    sent, longest = requests.input_tokens, d.instance.max_model_len
    if not longest:
        return sent, []
    said = []
    over = sent >= longest
    if over.any():
        beyond = min(d.limits.blocks * d.limits.block + 1, 2**31 - 2)
        requests.input_tokens = np.where(over, beyond, sent).astype(np.int32)
        said.append(f"{int(over.sum()):,} prompts are longer than max_model_len {longest:,}: they were refused")
    room = np.where(over, requests.output_tokens, np.maximum(longest - sent, 1))
    late = requests.output_tokens > room
    if late.any():
        requests.output_tokens = np.minimum(requests.output_tokens, room).astype(np.int32)
        said.append(f"{int(late.sum()):,} answers end at max_model_len {longest:,}")
    return sent, said


def _intervals(d: Deployment, predicted: dict[str, float], *, cache_full: bool) -> dict[str, dict[str, Any]]:
    """Bands of the means, from residuals of measured rows of the same engine line, architecture and kind of model.

    No token takes less than what one sequence needs to read its weights at the memory's peak.
    """
    release, device = release_of(d.serving.engine, d.serving.engine_version), d.cluster.device
    least_s = d.capped.work.at(1.0)[2] / device.memory_bytes_per_s * 1e6 / d.limits.tokens_per_step
    out = {}
    for name, value in predicted.items():
        found = band(release, device.generation, d.model, name, cache_full=cache_full)
        if found is not None and np.isfinite(value):
            out[name] = found.around(value, least_s if name in ("tpot_s", "itl_s") else 0.0)
    return out


def _power(d: Deployment, totals: Any, duration_s: float, output_tokens: float) -> PowerReport:
    return power(
        d.model, d.cluster, d.instance.shape, d.iteration, totals, duration_s, output_tokens=output_tokens,
        mixed=d.limits.mixed, clock=d.capped.clock, work=d.capped.work,
    )  # fmt: skip


def _assumed(d: Deployment, traffic: tuple[tuple[str, Any, str], ...]) -> tuple[dict[str, str], ...]:
    rows = [(a.field, a.value, a.why) for a in d.instance.assumed]
    if d.iteration.overlap is not None:
        ids = ", ".join(x.technique.id for x in d.techniques)
        rows.append(("techniques", ids, "change iterations: the plain loop runs them, which is slower"))
    rows += [*traffic, *d.cluster.assumed]
    return tuple({"field": name, "value": str(value), "why": why} for name, value, why in rows)


def _described(d: Deployment) -> dict[str, Any]:
    """Limits and switches of one instance, in vLLM's words."""
    own, instance = d.instance.limits, d.instance
    return {
        "policy": instance.policy.id, "max_num_seqs": own.max_seqs, "max_num_batched_tokens": own.budget,
        "max_model_len": instance.max_model_len, "block_size": own.block, "chunked_prefill": own.chunked,
        "mixed_batches": own.mixed, "prefix_caching": instance.prefix_caching, "cuda_graphs": instance.cuda_graphs,
    }  # fmt: skip


def _warnings(d: Deployment, requests: Requests, saturated: bool) -> tuple[str, ...]:
    out = list(remarks(d.techniques, d.scenario, serving=True))
    if not d.capped.within:
        out.append(f"power_cap_w {d.cluster.power_cap_w:g} is below what some iterations draw at the least clock")
    if saturated and d.serving.traffic.num_requests:
        out.append("no steady state: ask for a lower rate, or for more instances")
    open_loop = not d.limits.concurrency and not d.serving.traffic.offline
    if not saturated and open_loop and too_short_to_tell(requests):
        out.append("batches still fill when the last request comes: ask for more requests to tell a steady state")
    if d.serving.traffic.rate_per_s and (spans := sessions_outlast_arrivals(requests)):
        out.append(
            f"conversations last {spans[0]:,.0f} s and new ones come for {spans[1]:,.0f} s: load rises and falls, and "
            "is the stated rate briefly or never; ask for more requests (num_requests)"
        )
    coefficients = d.iteration.coefficients
    if "fitted" not in coefficients.grades.values():
        generation = d.cluster.device.generation
        out.append(
            f"no measured rows set the coefficients of {d.serving.engine} on {generation}: data-sheet peaks, scaled"
        )
    longest = d.instance.max_model_len or 2**31
    if ((requests.state == REJECTED) & (requests.input_tokens < longest)).any():
        out.append("some requests need more cache than an instance has: they were refused")
    return tuple(out)
