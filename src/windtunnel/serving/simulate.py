"""From a scenario to a serving prediction: look up, resolve instances, make traffic, run, measure."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.arrays import Int32s
from windtunnel.errors import BadInput
from windtunnel.serving.autoscale import Elastic, Replicas, paid, scaler, scaling, sizes
from windtunnel.serving.deployment import Deployment, Pool, prepare, with_longer_tables
from windtunnel.serving.event_loop import run as loop
from windtunnel.serving.event_loop import sm_split
from windtunnel.serving.event_loop.instance_limits import Router as Rule
from windtunnel.serving.event_loop.prefix_chains import chains_of
from windtunnel.serving.event_loop.requests import DONE, REJECTED, SHED, Requests
from windtunnel.serving.event_loop.swapping import swaps_of
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.serving.iteration.sm_share import on_sm_share
from windtunnel.serving.kv_tiers import memory_of
from windtunnel.serving.multi_model.deployment import mesh
from windtunnel.serving.results.metrics import (
    backlog_grows,
    distribution,
    from_histogram,
    measures,
    per_request,
    sessions_outlast_arrivals,
    too_short_to_tell,
)
from windtunnel.serving.results.per_pool import PoolRun, figures, power_of_all, records, runs, transfers
from windtunnel.serving.results.per_task import by_task
from windtunnel.serving.results.per_tenant import by_tenant
from windtunnel.serving.results.residual_bands import FULL_CACHE
from windtunnel.serving.results.run_intervals import fullness, intervals
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.serving.results.speculation import speculation_report
from windtunnel.serving.results.time_breakdown import PROMPTS
from windtunnel.serving.run_setup.python_hooks import hooks_of
from windtunnel.specs.scenario import ModelFile
from windtunnel.specs.source import Source
from windtunnel.techniques import remarks

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.fleet import Fleet
    from windtunnel.serving.event_loop.twin.batch_policy import Policy
    from windtunnel.serving.traffic import Traffic

KEEP_EVENTS_BELOW = 200_000
"""Requests up to which every event is kept for charts; beyond it one in several."""


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
        d = replace(d, serving=serving, concurrency=traffic.concurrency)
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
    if count:
        longest = int((requests.input_tokens + requests.output_tokens).max())
        d = with_longer_tables(d, min(longest, d.instance.max_model_len or longest))
    limits, fleet = d.limits, d.fleet(every)
    shared = d.serving.traffic.shared_prefix_tokens
    chains = chains_of(requests, fleet.block, shared) if fleet.caching else None
    sent, cut = _within(d, requests)
    control: Replicas | Elastic | None
    control, begun = scaler(d)
    if (own := sizes(d, every)) is not None:
        fleet, control, begun = own
    memory = memory_of(d, fleet.pool.tolist())
    plainly = requests.after is not None or control is not None or memory is not None or _plainly(d)
    hooks = [hooks_of(p.instance, d.serving, limits, count, plainly=plainly) for p in d.pools]
    if hooks[0] is not None:
        layers = d.model.num_hidden_layers // d.pool.plan.pp
        hooks[0].queue.swaps = swaps_of(d.serving.pools[0].kv.swap, limits, layers)
    if d.instance.queue.id == "fcfs" and requests.priority.any():
        requests.priority = np.zeros(count, np.int32)
    hook = hooks[0]
    if d.pool.sm_split is not None:
        outcome = _split(d, requests)
    elif d.serving.mesh is not None:
        outcome = mesh(d, requests)
    elif hook is None:
        outcome = loop.serve_fleet(requests, fleet, chains)
    else:
        outcome = loop.serve_fleet_plainly(
            requests,
            fleet,
            chains,
            policies=_policies([h.policy for h in hooks if h], fleet),
            router=hook.router,
            queue=hook.queue,
            admission=hook.admission,
            pace=hook.pace,
            control=control,
            memory=memory,
        )
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
    devices = d.num_devices
    tpot = distribution(found.tpot_s)
    iterations = float(totals["iterations"].sum())
    scaled: dict[str, Any] = {}
    held = 1.0
    if control is not None and begun is not None:
        scaled = scaling(control, begun, d.pool.plan.num_devices, first, finish)
        held = control.instance_seconds(finish) / max(d.pool.replicas * finish, 1e-12)
        assumed += begun.assumed
    tasks = by_task(requests, d.serving.traffic, d.iteration.request_s)
    each, shares = by_tenant(requests, found, d.serving)
    saturated = not limits.concurrency and not d.serving.traffic.offline and backlog_grows(requests)
    cached = float(requests.cached_tokens[done].sum()) / max(prompts, 1.0)
    record = records(d, requests, outcome, every)
    pools = runs(d, requests, outcome, record, duration)
    if control is not None:
        pools = [replace(one, power=paid(one.power, held, finish)) for one in pools]
    drawn = power_of_all(pools, duration)
    most = [t["kv_max"].max() / p.limits.blocks for p, t in _by_pool(d, totals)]
    room = sum(p.limits.blocks * p.lanes for p in d.pools)
    from windtunnel import __version__

    plain = d.scenario.model_dump(mode="json", exclude_unset=True)
    if isinstance(d.scenario.model, ModelFile):
        plain["model"] = d.model.model_dump(mode="json", exclude_defaults=True)
    digest = hashlib.sha256(json.dumps([plain, __version__], sort_keys=True).encode()).hexdigest()[:16]
    ttft, itl, e2e = distribution(found.ttft_s), from_histogram(outcome.between_tokens), distribution(found.e2e_s)
    ends = intervals(
        d,
        {
            "ttft_s": ttft.mean,
            "tpot_s": tpot.mean,
            "itl_s": itl.mean,
            "e2e_s": e2e.mean,
            "output_tokens_per_s": generated / duration,
        },
        cache_full=max(most) >= FULL_CACHE,
        duration_s=duration,
        span_s=float(np.ptp(requests.arrival_s)) if count else 0.0,
        full=fullness(_by_pool(d, totals), duration),
    )
    grades = {name: band["grade"] for name, band in ends.items()} | {"capacity": "analytic"}
    return ServingResult(
        scenario_name=d.scenario.name or d.model.name,
        requests=count,
        completed=int(done.sum()),
        rejected=int((requests.state == REJECTED).sum()),
        shed=shed,
        duration_s=duration,
        throughput_requests_per_s=float(done.sum()) / duration,
        output_tokens_per_s=generated / duration,
        output_tokens_per_s_per_device=generated / duration / (devices * held),
        total_tokens_per_s=(generated + prompts) / duration,
        output_tokens_per_s_per_user=1.0 / tpot.p50 if tpot.p50 > 0 else 0.0,
        ttft_s=ttft,
        tpot_s=tpot,
        itl_s=itl,
        e2e_s=e2e,
        queue_s=distribution(found.queue_s),
        slo_attainment=share,
        slo_met=share >= d.serving.slo.percentile,
        goodput_requests_per_s=share * float(done.sum() + shed) / duration,
        kv_cache_usage_max=float(max(most)),
        kv_cache_usage_mean=float(totals["used_s"].sum()) / (room * duration),
        prefix_hit_rate=cached,
        preemptions=int(totals["preemptions"].sum()),
        running_mean=float(totals["running_s"].sum()) / duration,
        waiting_mean=float(np.nansum(found.queue_s)) / duration,
        saturated=saturated,
        num_devices=devices,
        instances=d.instances,
        capacity=asdict(d.instance.capacity),
        limits=_described(d.pools[0]),
        iterations={
            "count": iterations,
            "mean_s": float(totals["busy_s"].sum()) / max(iterations, 1.0),
            "with_prompts": float(totals["prompt_iterations"].sum()),
            "busy_share": float(totals["busy_s"].sum()) / (d.lanes * duration),
        },
        power=drawn,
        cost_per_million_output_tokens=drawn["cost_per_million_output_tokens"],
        bound_by=_bound_by(pools),
        composition=_composition(pools),
        speculation=speculation_report(
            d.instance.drafting, pools[-1].pool.iteration, pools[-1].mean, outcome, requests
        ),
        pools=tuple(asdict(figures(one, duration, _described(one.pool))) for one in pools) if len(pools) > 1 else (),
        transfer=transfers(requests),
        kv_tiers=memory.report(prompts, duration) if memory else {},
        intervals=ends,
        grades=grades,
        assumed=_assumed(d, assumed),
        warnings=(*_warnings(d, requests, saturated), *cut),
        scenario=plain,
        citations=tuple(x.technique.paper.line() for x in d.techniques),
        techniques=tuple(x.technique.id for x in d.techniques),
        scaling=scaled,
        tenants=each,
        fairness=shares,
        tasks=tasks,
        input_hash=digest,
        version=__version__,
        table=per_request(requests, found),
        record=record,
    )


def _policies(own: list[Policy], fleet: Fleet) -> list[Policy]:
    """One for each pool of the fleet: sizes of one instance share theirs."""
    return own * len(fleet.limits) if len(own) == 1 else own


def _within(d: Deployment, requests: Requests) -> tuple[Int32s, list[str]]:
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
        lanes = d.lanes if any(p.spec.kv.lending for p in d.pools) else 1  # all may hold one prompt together
        beyond = min(d.limits.blocks * d.limits.block * lanes + 1, 2**31 - 2)
        requests.input_tokens = np.where(over, beyond, sent).astype(np.int32)
        said.append(f"{int(over.sum()):,} prompts are longer than max_model_len {longest:,}: they were refused")
    room = np.where(over, requests.output_tokens, np.maximum(longest - sent, 1))
    late = requests.output_tokens > room
    if late.any():
        requests.output_tokens = np.minimum(requests.output_tokens, room).astype(np.int32)
        said.append(f"{int(late.sum()):,} answers end at max_model_len {longest:,}")
    return sent, said


def _split(d: Deployment, requests: Requests) -> loop.Outcome:
    """Prompts and answers side by side on shares of the SMs."""
    spec, pool = d.pool.sm_split, d.pools[0]
    assert spec is not None
    layers = Layers(d.model, pool.cluster, pool.instance.shape, pool.iteration.coefficients, d.serving.expert_skew)
    limits = replace(d.limits, every=1)
    router = pool.instance.router.entry.twin(Rule(limits.router), limits.seed)
    objectives = d.serving.slo.ttft_s or float("inf"), d.serving.slo.tpot_s or float("inf")
    priced = cache(lambda share: on_sm_share(layers, pool.iteration, share))
    return sm_split.serve(requests, limits, pool.lanes, spec, priced, router, objectives)


def _plainly(d: Deployment) -> bool:
    """Whether something of any pool is written in Python."""
    return any(
        p.iteration.overlap is not None or hooks_of(p.instance, d.serving, p.limits, 0) is not None for p in d.pools
    )


def _by_pool(d: Deployment, totals: Any) -> list[tuple[Pool, Any]]:
    ends = np.cumsum([p.lanes for p in d.pools])
    return [(p, totals[end - p.lanes : end]) for p, end in zip(d.pools, ends, strict=True)]


def _bound_by(pools: Sequence[PoolRun]) -> str:
    if len(pools) == 1:
        return pools[0].bound_by
    return ". ".join(f"{one.pool.name}: {one.bound_by}" for one in pools if one.bound_by)


def _composition(pools: Sequence[PoolRun]) -> dict[str, dict[str, float]]:
    """Each kind of iteration, from the pool that spends most time on it."""
    out: dict[str, dict[str, float]] = {}
    spent: dict[str, float] = {}
    for one in pools:
        for kind, parts in one.parts.items():
            count = one.mean.prompt_iterations if kind == PROMPTS else float(one.totals["iterations"].sum())
            if (seconds := count * sum(parts.values())) > spent.get(kind, 0.0):
                out[kind], spent[kind] = parts, seconds
    return out


def _assumed(d: Deployment, traffic: tuple[tuple[str, Any, str], ...]) -> tuple[dict[str, str], ...]:
    rows = [(a.field, a.value, a.why) for pool in d.pools for a in pool.instance.assumed]
    rows += d.assumed
    if d.iteration.overlap is not None:
        ids = ", ".join(x.technique.id for x in d.techniques)
        rows.append(("techniques", ids, "change iterations: the plain loop runs them, which is slower"))
    if (split := d.pool.sm_split) is not None:
        why = "a loop of its own: prefix caching, queue disciplines and policies do not act"
        rows.append(("serving.pools[0].sm_split", split.prefill_share, why))
    rows += [*traffic, *d.cluster.assumed]
    once = dict.fromkeys((name, str(value), why) for name, value, why in rows)
    return tuple({"field": name, "value": value, "why": why} for name, value, why in once)


def _described(pool: Pool) -> dict[str, Any]:
    """Limits and switches of one instance, in vLLM's words."""
    own, instance = pool.instance.limits, pool.instance
    return {
        "policy": instance.policy.id,
        "max_num_seqs": own.max_seqs,
        "max_num_batched_tokens": own.budget,
        "max_model_len": instance.max_model_len,
        "block_size": own.block,
        "chunked_prefill": own.chunked,
        "mixed_batches": own.mixed,
        "prefix_caching": instance.prefix_caching,
        "cuda_graphs": instance.cuda_graphs,
    }


def _warnings(d: Deployment, requests: Requests, saturated: bool) -> tuple[str, ...]:
    out = list(remarks(d.techniques, d.scenario, serving=True))
    if not all(p.power_cap.within for p in d.pools):
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
