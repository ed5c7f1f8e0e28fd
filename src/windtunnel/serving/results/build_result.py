"""A served run → its result: latencies, throughput, cache, power, intervals, and where each value comes from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.arrays import Mask
from windtunnel.serving.event_loop.requests import DONE, REJECTED, SHED, Requests
from windtunnel.serving.results.engine_log import engine_log
from windtunnel.serving.results.joint_draws import RunShape
from windtunnel.serving.results.measured_residuals import FULL_CACHE
from windtunnel.serving.results.metrics import (
    Measures,
    backlog_grows,
    distribution,
    from_histogram,
    measures,
    per_request,
)
from windtunnel.serving.results.notes import assumptions, pipelines, stage_wait_share, warnings
from windtunnel.serving.results.per_pool import PoolRun, figures, in_window, power_of_all, records, runs, transfers
from windtunnel.serving.results.per_task import by_task
from windtunnel.serving.results.per_tenant import by_tenant
from windtunnel.serving.results.power import for_held_share
from windtunnel.serving.results.run_intervals import intervals
from windtunnel.serving.results.run_record import Record
from windtunnel.serving.results.run_shape import drain_share, load_of, pool_loads
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.serving.results.speculation import speculation_report
from windtunnel.serving.results.steady_window import SteadyWindow, steady_window
from windtunnel.serving.results.time_breakdown import PREFILL
from windtunnel.specs.scenario import ModelFile

if TYPE_CHECKING:
    from windtunnel.serving.deployment import Deployment, Pool
    from windtunnel.serving.event_loop.run import Outcome
    from windtunnel.serving.kv_tiers.twin_memory import Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRun:
    """A run of the request loop, with everything that its result is computed from."""

    deployment: Deployment
    requests: Requests
    """Requests with their times, prompts as they were sent."""
    outcome: Outcome
    every: int
    """One event in this many was kept."""
    assumed: tuple[tuple[str, Any, str], ...]
    """(field, value, why) of the traffic and of the autoscaler."""
    notes: tuple[str, ...]
    """Warnings of requests that were cut at `max_model_len`."""
    scaling: dict[str, Any] | None
    """Figures of the autoscaler; None without one."""
    held_share: float
    """Device time that was held, as a share of all devices all the time."""
    memory: Memory | None
    """KV tiers after the run; None where no pool has any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sums:
    """Quantities that several parts of a result are computed from."""

    measured: Measures
    done: Mask
    """(R,) whether a request was completed."""
    duration_s: float
    output_tokens: float
    """Tokens of completed answers."""
    input_tokens: float
    """Tokens of the prompts of completed requests."""
    shed: int
    saturated: bool
    pools: list[PoolRun]
    record: Record
    window: SteadyWindow | None
    """Part of an open loop that rates are measured in; None: the whole run."""
    step: float = 1.0
    """Times that steps are as long as predicted, of a drawn server."""
    rate: float = 1.0
    """The same of tokens and requests a second."""

    @property
    def output_tokens_per_s(self) -> float:
        """Of the window, else of the whole run."""
        own = self.window.output_tokens_per_s if self.window else self.output_tokens / self.duration_s
        return own * self.rate

    @property
    def requests_per_s(self) -> float:
        """Completed in the window, else in the whole run."""
        own = self.window.requests_per_s if self.window else float(self.done.sum()) / self.duration_s
        return own * self.rate


Drawn = Callable[[RunShape, bool], Mapping[str, float]]
"""Shape of a run and whether its cache was full → measured over predicted value of each measure."""


def run_span_s(requests: Requests) -> tuple[float, float]:
    """Return the seconds of the first arrival and of the end of the last completed answer; 0 where there is none."""
    first = float(np.nanmin(requests.arrival_s)) if len(requests) else 0.0
    finish = float(np.nanmax(requests.finish_s)) if (requests.state == DONE).any() else 0.0
    return first, finish


def drawn_result(run: ServedRun, drawn: Drawn) -> ServingResult:
    """The result of the same run on a server that is as far off its prediction as drawn; the loop does not run again.

    First tokens and steps are so many times as long, answers as both say, and tokens a second follow (ADR 30). Watts
    stay, so that energy and cost of a token go with the inverse of tokens a second. A drawn server has no interval.

    Args:
        run: What the loop did.
        drawn: From the shape of the run and whether the cache was full, measured over predicted values by measure.
    """
    sums = _sums(run)
    factors = drawn(_shape(run, sums), _fullest(run) >= FULL_CACHE)
    return build_result(run, factors)


def build_result(run: ServedRun, factors: Mapping[str, float] | None = None) -> ServingResult:
    """Compute the result of a run.

    Args:
        run: What the loop did.
        factors: Measured over predicted first tokens, steps and tokens a second of one drawn server
            (`joint_draws.MEASURES`); absent: the prediction with its intervals.
    """
    d = run.deployment
    sums = _sums(run)
    if factors is not None:
        sums = replace(
            sums,
            measured=sums.measured.times(factors["ttft"], factors["tpot"]),
            step=factors["tpot"],
            rate=factors["throughput"],
        )
    tenants, fairness = by_tenant(run.requests, sums.measured, d.serving)
    return ServingResult(
        **_throughput(run, sums),
        **_latencies(run, sums),
        **_objectives(run, sums),
        **_cache_and_load(run, sums),
        **_costs(run, sums),
        **_pools(run, sums),
        **(_intervals(run, sums) if factors is None else {"intervals": {}, "grades": {}}),
        **_sources(run, sums),
        scaling=run.scaling or {},
        tenants=tenants,
        fairness=fairness,
        tasks=by_task(run.requests, d.serving.traffic, d.iteration.request_s) if factors is None else {},
        table=per_request(run.requests, sums.measured),
        record=sums.record,
    )


def _sums(run: ServedRun) -> _Sums:
    d, requests = run.deployment, run.requests
    traffic = d.serving.traffic
    first_s, finish_s = run_span_s(requests)
    duration_s = max(finish_s - first_s, 1e-12)
    done = requests.state == DONE
    output_tokens = float(requests.work_tokens.sum())
    record = records(d, requests, run.outcome, run.every)
    open_loop = not d.limits.concurrency and not traffic.offline
    window = steady_window(requests, traffic.warmup_requests) if open_loop and run.scaling is None else None
    pools = runs(d, requests, run.outcome, record, duration_s)
    if window is not None:
        pools = [replace(one, power=in_window(one, window, record.every, output_tokens / duration_s)) for one in pools]
    if run.scaling is not None:
        pools = [replace(one, power=for_held_share(one.power, run.held_share, finish_s)) for one in pools]
    return _Sums(
        measured=measures(requests, d.iteration.request_s, traffic.warmup_requests),
        done=done,
        duration_s=duration_s,
        output_tokens=output_tokens,
        input_tokens=float(requests.input_tokens[done].sum()),
        shed=int((requests.state == SHED).sum()),
        saturated=open_loop and backlog_grows(requests),
        pools=pools,
        record=record,
        window=window,
    )


def _throughput(run: ServedRun, x: _Sums) -> dict[str, Any]:
    d, requests = run.deployment, run.requests
    return {
        "requests": len(requests),
        "completed": int(x.done.sum()),
        "rejected": int((requests.state == REJECTED).sum()),
        "shed": x.shed,
        "duration_s": x.duration_s,
        "measured_in_s": (x.window.begin_s, x.window.end_s) if x.window else None,
        "drain_s": max(run_span_s(requests)[1] - float(np.nanmax(requests.arrival_s)), 0.0) if x.done.any() else 0.0,
        "whole_run_output_tokens_per_s": x.output_tokens / x.duration_s * x.rate,
        "throughput_requests_per_s": x.requests_per_s,
        "output_tokens_per_s": x.output_tokens_per_s,
        "output_tokens_per_s_per_device": x.output_tokens_per_s / (d.num_devices * run.held_share),
        "total_tokens_per_s": x.output_tokens_per_s
        + (x.window.input_tokens_per_s if x.window else x.input_tokens / x.duration_s) * x.rate,
        "num_devices": d.num_devices,
        "instances": d.instances,
    }


def _latencies(run: ServedRun, x: _Sums) -> dict[str, Any]:
    tpot = distribution(x.measured.tpot_s)
    return {
        "ttft_s": distribution(x.measured.ttft_s),
        "tpot_s": tpot,
        "itl_s": from_histogram(run.outcome.between_tokens).times(x.step),
        "e2e_s": distribution(x.measured.e2e_s),
        "queue_s": distribution(x.measured.queue_s),
        "output_tokens_per_s_per_user": 1.0 / tpot.p50 if tpot.p50 > 0 else 0.0,
    }


def _objectives(run: ServedRun, x: _Sums) -> dict[str, Any]:
    slo = run.deployment.serving.slo
    measured = max(int(x.measured.done.sum()) + x.shed, 1)
    share = float(x.measured.good(slo).sum()) / measured
    return {
        "slo_attainment": share,
        "slo_met": share >= slo.percentile,
        "goodput_requests_per_s": share * x.requests_per_s * (1.0 + x.shed / max(float(x.done.sum()), 1.0)),
    }


def _cache_and_load(run: ServedRun, x: _Sums) -> dict[str, Any]:
    d, requests, totals = run.deployment, run.requests, run.outcome.totals
    blocks = sum(p.limits.blocks * p.lanes for p in d.pools)
    iterations = float(totals["iterations"].sum())
    return {
        "kv_cache_usage_max": float(_fullest(run)),
        "kv_cache_usage_mean": float(totals["used_s"].sum()) / (blocks * x.duration_s),
        "prefix_hit_rate": float(requests.cached_tokens[x.done].sum()) / max(x.input_tokens, 1.0),
        "preemptions": int(totals["preemptions"].sum()),
        "running_mean": float(totals["running_s"].sum()) / x.duration_s,
        "waiting_mean": float(np.nansum(x.measured.queue_s)) / x.duration_s,
        "saturated": x.saturated,
        "capacity": asdict(d.instance.capacity),
        "limits": _limits_of(d.pools[0]),
        "engine_log": engine_log(d.pools[0]).to_dict(),
        "iterations": {
            "count": iterations,
            "mean_s": float(totals["busy_s"].sum()) / max(iterations, 1.0),
            "with_prompts": float(totals["prompt_iterations"].sum()),
            "busy_share": float((totals["busy_s"] - totals["stage_wait_s"]).sum()) / (d.lanes * x.duration_s),
            **({"stage_wait_share": stage_wait_share(totals)} if totals["stage_wait_s"].any() else {}),
        },
        "kv_tiers": run.memory.report(x.input_tokens, x.duration_s) if run.memory else {},
    }


_PER_TOKEN = ("energy_per_output_token_j", "energy_per_million_tokens_kwh", "cost_per_million_output_tokens")


def _costs(run: ServedRun, x: _Sums) -> dict[str, Any]:
    drawn, last = power_of_all(x.pools, x.duration_s), x.pools[-1]
    drawn |= {name: drawn[name] / x.rate for name in _PER_TOKEN if drawn.get(name) is not None}
    return {
        "power": drawn,
        "cost_per_million_output_tokens": drawn["cost_per_million_output_tokens"],
        "bound_by": _bound_by(x.pools),
        "composition": _composition(x.pools),
        "mean_batch": {kind: _batch_of(one) for kind, one in _longest(x.pools).items()},
        "speculation": speculation_report(
            run.deployment.instance.drafting, last.pool.iteration, last.mean, run.outcome, run.requests
        ),
    }


def _pools(run: ServedRun, x: _Sums) -> dict[str, Any]:
    several = x.pools if len(x.pools) > 1 else []
    return {
        "pools": tuple(asdict(figures(one, x.duration_s, _limits_of(one.pool))) for one in several),
        "transfer": transfers(run.requests),
    }


def _intervals(run: ServedRun, x: _Sums) -> dict[str, Any]:
    ends = intervals(
        run.deployment,
        {
            "ttft_s": distribution(x.measured.ttft_s).mean,
            "tpot_s": distribution(x.measured.tpot_s).mean,
            "itl_s": from_histogram(run.outcome.between_tokens).mean,
            "e2e_s": distribution(x.measured.e2e_s).mean,
            "output_tokens_per_s": x.output_tokens_per_s,
        },
        _shape(run, x),
        cache_full=_fullest(run) >= FULL_CACHE,
    )
    grades = {name: band["grade"] for name, band in ends.items()} | {"capacity": "analytic"}
    return {"intervals": ends, "grades": grades}


def _shape(run: ServedRun, x: _Sums) -> RunShape:
    """How whole answers and tokens a second of the run follow from first tokens and steps."""
    traffic, requests = run.deployment.serving.traffic, run.requests
    load = "closed" if run.deployment.concurrency else load_of(traffic, requests)
    first_s, answer_s = (distribution(own).mean for own in (x.measured.ttft_s, x.measured.e2e_s))
    share = first_s / answer_s if answer_s > 0.0 else 0.0
    if load in ("closed", "offline"):
        return RunShape(load=load, first_token_share=share)
    span_s = float(np.ptp(requests.arrival_s[np.isfinite(requests.arrival_s)])) if len(requests) else 0.0
    known = span_s > 0.0 and x.output_tokens_per_s > 0.0
    arrived = float(requests.output_tokens.sum()) / span_s / x.output_tokens_per_s if known else 1.0
    drain = drain_share(requests) if x.window is None else 0.0
    return RunShape(
        load=load,
        first_token_share=share,
        rate_share=1.0 if load == "saturated" else drain,
        offered=max(arrived, 1.0),
        pool_loads=pool_loads(x.pools, x.duration_s),
    )


def _sources(run: ServedRun, x: _Sums) -> dict[str, Any]:
    """What the result was computed from: scenario, techniques, assumptions, warnings, and a hash of the input."""
    from windtunnel import __version__

    d = run.deployment
    plain = d.scenario.model_dump(mode="json", exclude_unset=True)
    if isinstance(d.scenario.model, ModelFile):
        plain["model"] = d.model.model_dump(mode="json", exclude_defaults=True)
    return {
        "scenario_name": d.scenario.name or d.model.name,
        "assumed": assumptions(d, run.assumed),
        "warnings": (*warnings(d, run.requests, saturated=x.saturated), *pipelines(_by_pool(run)), *run.notes),
        "scenario": plain,
        "citations": tuple(one.technique.paper.line() for one in d.techniques),
        "techniques": tuple(one.technique.id for one in d.techniques),
        "input_hash": hashlib.sha256(json.dumps([plain, __version__], sort_keys=True).encode()).hexdigest()[:16],
        "version": __version__,
    }


def _fullest(run: ServedRun) -> Any:
    """Largest share of a lane's cache that was ever in use."""
    return max(t["kv_max"].max() / p.limits.blocks for p, t in _by_pool(run))


def _by_pool(run: ServedRun) -> list[tuple[Pool, Any]]:
    """Each pool with the records `records.TOTAL` of its lanes."""
    pools, totals = run.deployment.pools, run.outcome.totals
    ends = np.cumsum([p.lanes for p in pools])
    return [(p, totals[end - p.lanes : end]) for p, end in zip(pools, ends, strict=True)]


def _bound_by(pools: Sequence[PoolRun]) -> str:
    if len(pools) == 1:
        return pools[0].bound_by
    return ". ".join(f"{one.pool.name}: {one.bound_by}" for one in pools if one.bound_by)


def _composition(pools: Sequence[PoolRun]) -> dict[str, dict[str, float]]:
    """Each kind of iteration, from the pool that spends most time on it."""
    return {kind: one.parts[kind] for kind, one in _longest(pools).items()}


def _longest(pools: Sequence[PoolRun]) -> dict[str, PoolRun]:
    """Kind of iteration → the pool that spends most time on it."""
    out: dict[str, PoolRun] = {}
    spent: dict[str, float] = {}
    for one in pools:
        for kind, parts in one.parts.items():
            count = one.mean.prompt_iterations if kind == PREFILL else float(one.totals["iterations"].sum())
            if (seconds := count * sum(parts.values())) > spent.get(kind, 0.0):
                out[kind], spent[kind] = one, seconds
    return out


def _batch_of(one: PoolRun) -> dict[str, float]:
    """The mean batch of a pool, and the pool's place in `serving.pools`."""
    return {"pool": one.pool.index, **asdict(one.mean)}


def _limits_of(pool: Pool) -> dict[str, Any]:
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
