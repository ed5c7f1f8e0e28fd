"""The part of a run that each pool did: a record and figures of the pool's own instances."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.serving.event_loop.requests import DONE, Requests
from windtunnel.serving.results.metrics import distribution
from windtunnel.serving.results.power import J_PER_KWH, PowerModel, PowerReport, power_report
from windtunnel.serving.results.run_record import Record
from windtunnel.serving.results.steady_window import SteadyWindow, joules_per_token
from windtunnel.serving.results.time_breakdown import Mean, bound_by, composition, mean_batch

if TYPE_CHECKING:
    from windtunnel.serving.deployment import Deployment, Pool
    from windtunnel.serving.event_loop.run import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRun:
    """One pool of a run."""

    pool: Pool
    totals: Any
    """(N,) records `records.TOTAL` of its lanes."""
    record: Record
    mean: Mean
    parts: dict[str, dict[str, float]]
    """Kind of iteration → class → seconds."""
    power: PowerReport
    bound_by: str


def records(d: Deployment, requests: Requests, outcome: Outcome, every: int) -> Record:
    """The run as one record, with one of each pool where there are several."""
    first = d.pools[0]
    whole = Record(
        requests=requests,
        events=outcome.series,
        every=every,
        lanes=d.lanes,
        lanes_of_instance=first.spec.plan.pp,
        blocks=first.limits.blocks,
        name=first.name,
    )
    if len(d.pools) == 1:
        return whole
    parts, at = [], 0
    for pool in d.pools:
        own = outcome.series[(outcome.series["instance"] >= at) & (outcome.series["instance"] < at + pool.lanes)].copy()
        own["instance"] -= at
        decode = pool.spec.role == "decode"
        mine = (_decode_part if decode else _prefill_part)(requests, at, at + pool.lanes)
        parts.append(
            Record(
                requests=mine,
                events=own,
                every=every,
                lanes=pool.lanes,
                lanes_of_instance=pool.spec.plan.pp,
                blocks=pool.limits.blocks,
                name=pool.name,
                decode=decode,
            )
        )
        at += pool.lanes
    return replace(whole, parts=tuple(parts))


def _cut(q: Requests, rows: Any) -> Requests:
    names = (
        "arrival_s",
        "input_tokens",
        "output_tokens",
        "cached_tokens",
        "priority",
        "group",
        "follow",
        "delay_s",
        "scheduled_s",
        "first_token_s",
        "finish_s",
        "preemptions",
        "instance",
        "state",
        "generated_tokens",
    )
    return Requests(**{name: getattr(q, name)[rows].copy() for name in names})


def _prefill_part(q: Requests, begin: int, end: int) -> Requests:
    """Cut a run to what mixed and prefill instances did: a request that moves to a decode pool ends with its prompt."""
    rows = np.flatnonzero((q.instance >= begin) & (q.instance < end))
    out = _cut(q, rows)
    handed = q.answered_by[rows] >= 0
    for name in ("first_token_s", "finish_s"):
        setattr(out, name, np.where(handed, q.prompt_end_s[rows], getattr(out, name)))
    out.output_tokens = np.where(handed, 1, out.output_tokens).astype(np.int32)
    out.instance = out.instance - np.int32(begin)
    return out


def _decode_part(q: Requests, begin: int, end: int) -> Requests:
    """Cut a run to what decode instances did: requests arrive when their prompts end, with one token made."""
    rows = np.flatnonzero((q.answered_by >= begin) & (q.answered_by < end))
    out = _cut(q, rows)
    out.arrival_s = np.minimum(q.prompt_end_s[rows], q.answer_scheduled_s[rows])
    out.scheduled_s, out.first_token_s = q.answer_scheduled_s[rows], q.moved_s[rows]
    out.output_tokens = np.maximum(out.output_tokens - 1, 1).astype(np.int32)
    out.instance = (q.answered_by[rows] - begin).astype(np.int32)
    out.cached_tokens = np.zeros(len(rows), np.int32)
    return out


def runs(d: Deployment, requests: Requests, outcome: Outcome, record: Record, duration_s: float) -> list[PoolRun]:
    """Each pool's part of a run. Watts and money are per token that all pools together put out."""
    generated = float(requests.work_tokens.sum())
    out, at = [], 0
    for pool, own in zip(d.pools, record.pools, strict=True):
        totals = outcome.totals[at : at + pool.lanes]
        at += pool.lanes
        finished = 0 if own.decode else int((own.requests.state == DONE).sum())
        limits = replace(pool.limits, concurrency=d.concurrency)
        mean = mean_batch(totals, finished + int(totals["preemptions"].sum()), mixed=limits.mixed)
        parts = composition(pool.iteration, mean, mixed=limits.mixed)
        instance = PowerModel(
            model=d.model,
            cluster=pool.cluster,
            shape=pool.instance.shape,
            iteration=pool.iteration,
            work=pool.power_cap.work,
            clock=pool.power_cap.clock,
        )
        computed = totals.copy()  # devices draw what idle ones do while micro-batches wait for each other
        computed["busy_s"] -= computed["stage_wait_s"]
        drawn = power_report(instance, computed, duration_s, output_tokens=generated, mixed=limits.mixed)
        words = bound_by(parts, mean, float(computed["busy_s"].sum()), own, limits)
        out.append(PoolRun(pool=pool, totals=totals, record=own, mean=mean, parts=parts, power=drawn, bound_by=words))
    return out


def in_window(run: PoolRun, window: SteadyWindow, every: int, whole_run_rate: float) -> PowerReport:
    """A pool's power with energy and money for each token of the window, in place of the whole run's.

    Args:
        run: the pool's part of the run.
        window: of the run.
        every: one event in this many was kept.
        whole_run_rate: tokens a second of the whole run.
    """
    report = run.power
    each = joules_per_token(report, window, run.record.events, every, run.pool.lanes)
    was, money, band = report.energy_per_output_token_j, report.cost_per_million_output_tokens, report.energy_interval
    if money is not None and window.output_tokens_per_s:
        money *= whole_run_rate / window.output_tokens_per_s
    if each is None or not was:
        return replace(report, cost_per_million_output_tokens=money)
    ends = None if band is None else {**band, "low": band["low"] * each / was, "high": band["high"] * each / was}
    return replace(
        report,
        cost_per_million_output_tokens=money,
        energy_per_output_token_j=each,
        energy_per_million_tokens_kwh=each * 1e6 / J_PER_KWH,
        energy_interval=ends,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """One pool in a result. Units are in the names."""

    name: str
    role: str
    device: str
    num_devices: int
    instances: int
    plan: dict[str, int]
    requests: int
    """Requests that the pool computed a part of."""
    busy_share: float
    """Share of its instances' time that they compute."""
    running_mean: float
    queue_s: dict[str, float]
    """Queue time: until a batch admitted the request or, in a decode pool, until it got blocks."""
    kv_cache_usage_max: float
    kv_cache_usage_mean: float
    preemptions: int
    prompt_tokens_per_s: float
    decode_tokens_per_s: float
    iterations: float
    iteration_mean_s: float
    capacity: dict[str, Any]
    limits: dict[str, Any]
    power: dict[str, Any]
    cost_per_million_output_tokens: float | None
    bound_by: str
    composition: dict[str, dict[str, float]] = field(default_factory=dict)


def figures(run: PoolRun, duration_s: float, limits: dict[str, Any]) -> PoolFigures:
    """A pool's figures.

    Args:
        run: its part.
        duration_s: of the whole run.
        limits: batch limits and switches as shown.
    """
    pool, t = run.pool, run.totals
    q, span = run.record.requests, duration_s * pool.lanes
    iterations, busy = float(t["iterations"].sum()), float(t["busy_s"].sum())
    plan = {name: value for name, value in pool.spec.plan.model_dump().items() if value != 1} or {"tp": 1}
    return PoolFigures(
        name=pool.name,
        role=pool.spec.role,
        device=pool.cluster.device.id,
        num_devices=pool.num_devices,
        instances=pool.spec.replicas,
        plan=plan,
        requests=len(q),
        busy_share=(busy - float(t["stage_wait_s"].sum())) / span,
        running_mean=float(t["running_s"].sum()) / duration_s,
        queue_s=distribution(q.scheduled_s - q.arrival_s).to_dict(),
        kv_cache_usage_max=float(t["kv_max"].max()) / pool.limits.blocks,
        kv_cache_usage_mean=float(t["used_s"].sum()) / (pool.limits.blocks * span),
        preemptions=int(t["preemptions"].sum()),
        prompt_tokens_per_s=float(t["prompt_tokens"].sum()) / duration_s,
        decode_tokens_per_s=float(t["decode_tokens"].sum()) / duration_s,
        iterations=iterations,
        iteration_mean_s=busy / max(iterations, 1.0),
        capacity=asdict(pool.instance.capacity),
        limits=limits,
        power=run.power.to_dict(),
        cost_per_million_output_tokens=run.power.cost_per_million_output_tokens,
        bound_by=run.bound_by,
        composition=run.parts,
    )


def transfers(requests: Requests) -> dict[str, Any]:
    """Figures of moved caches; empty where none was."""
    q = requests
    moved = np.isfinite(q.moved_s)
    if not moved.any():
        return {}
    after = q.moved_s - q.prompt_end_s
    waited = np.maximum(q.answer_scheduled_s - q.prompt_end_s, 0.0)
    return {
        "requests": int(moved.sum()),
        "tokens": int(q.input_tokens[moved].sum()),
        "after_prompt_s": distribution(np.where(moved, after, np.nan)).to_dict(),
        "waiting_for_blocks_s": distribution(np.where(moved, waited, np.nan)).to_dict(),
        "moving_s": distribution(np.where(moved, after - waited, np.nan)).to_dict(),
    }


def power_of_all(runs: list[PoolRun], duration_s: float) -> dict[str, Any]:
    """Power, energy and money of all pools; of one, its own report."""
    first = runs[0].power.to_dict()
    if len(runs) == 1:
        return first
    reports = [run.power for run in runs]
    devices = sum(r.num_devices for r in reports)

    def total(name: str) -> float | None:
        values = [getattr(r, name) for r in reports]
        return None if any(v is None for v in values) else float(sum(values))

    joules = total("energy_j")
    shares = {
        name: sum(getattr(r, name) * r.num_devices for r in reports) / devices
        for name in ("prompt_share", "decode_share", "idle_share")
    }
    summed = (
        "energy_j",
        "energy_per_output_token_j",
        "energy_per_million_tokens_kwh",
        "cost_per_million_output_tokens",
    )
    return (
        {name: None for name in first}
        | {name: total(name) for name in summed}
        | shares
        | {"num_devices": devices, "grades": first["grades"]}
        | {"mean_w_per_device": None if joules is None else joules / (duration_s * devices)}
    )
