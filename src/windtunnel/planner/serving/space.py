"""All candidates of a search, each with what it could be at best and where it is estimated to settle."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.planner.serving.bounds import busy_s, closed_s, latest_s, light, step_limit_s, work
from windtunnel.planner.serving.candidate_table import NOTHING, TOO_MUCH, TOO_SLOW, Columns, idle_w_of
from windtunnel.planner.serving.disaggregated import split_columns
from windtunnel.planner.serving.instance_types import Kind
from windtunnel.planner.serving.question import Question, loads_of
from windtunnel.planner.serving.simulate_candidate import Runs
from windtunnel.planner.serving.steady_state import settled
from windtunnel.specs.serving import SloSpec


def screen(
    q: Question,
    kinds: list[Kind],
    runs: Runs,
    tell: Callable[[int], None],
    *,
    upper: bool = False,
    each: tuple[float, ...] | None = None,
) -> tuple[Columns, float]:
    """All candidates with their bounds, and the seconds that bounds took.

    Args:
        q: the question.
        kinds: of instances.
        runs: whose requests are counted.
        tell: called with the number of candidates as they are screened.
        upper: whether the objective has to hold at the upper end of the prediction's interval.
        each: loads instead of the question's: rates of all instances, or requests in flight on a device.
    """
    begun = time.perf_counter()
    wanted = q.wanted.space.deployment or ("aggregated",)
    parts: list[Columns] = []
    group = done = 0

    def take(made: Columns) -> None:
        nonlocal group, done
        parts.append(made)
        group, done = int(made.group.max()) + 1, done + len(made)
        tell(done)

    if "aggregated" in wanted:
        for index, kind in enumerate(kinds):
            slo = runs.tightened(kind) if upper else q.goals.slo
            made = _of_kind(q, index, kind, runs, group, slo, each)
            if made is not None and len(made):
                take(made)
    if "disaggregated" in wanted:  # bounds of both pools
        for made in split_columns(q, kinds, runs, group, upper=upper, each=each):
            take(made)
    return Columns.joined(parts), time.perf_counter() - begun


def _replicas(q: Question, kind: Kind) -> Ints:
    """Numbers of instances to choose from."""
    most = min(q.wanted.limits.devices or 10**9, kind.place.cluster.num_devices) // kind.devices
    if q.wanted.space.replicas:
        return np.array([r for r in sorted({*q.wanted.space.replicas}) if r <= most], np.int64)
    if "replicas" in q.pinned:
        return np.array([q.pool.replicas] if q.pool.replicas <= most else [], np.int64)
    if q.free:
        return np.array([most] if most else [], np.int64)
    return np.arange(1, most + 1)


def _of_kind(
    q: Question, index: int, kind: Kind, runs: Runs, group: int, slo: SloSpec, each: tuple[float, ...] | None
) -> Columns | None:
    """One kind's candidates that compute prompts and answers."""
    replicas = _replicas(q, kind)
    if not len(replicas):
        return None
    if each is None:
        own = np.array(loads_of(q, kind.devices))
    else:
        whole = [round(c * kind.devices) for c in each]
        own = np.array(sorted({max(w, 1) for w in whole}), float) if q.load == "concurrency" else np.array(each)
    count, loads = np.repeat(replicas, len(own)), np.tile(own, len(replicas))
    if q.free and q.load == "concurrency":
        loads = loads * count
        able = loads <= (q.serving.traffic.num_requests or 10**9)
        count, loads = count[able], loads[able]
    if not len(count):
        return None
    limits = kind.instance.limits
    sums = runs.sums(float(loads[0]), limits.caching, limits.step_tokens)
    seqs, tokens = kind.lane_sequences(), kind.lane_tokens()
    able_count, median = light(kind, sums, slo, tokens)
    s, t = len(seqs), len(tokens)
    shape = s, t, len(count)
    lanes = count * kind.lanes
    w = work(kind, sums, seqs, tokens)
    impossible = np.zeros(shape, np.int64)
    impossible[:, able_count < sums.needed, :] = TOO_SLOW
    everything, some = busy_s(kind, sums, w, step_limit_s(sums, slo))
    most = sums.output_tokens * lanes / everything[:, :, None]
    if q.load == "concurrency":
        most = np.minimum(most, sums.output_tokens / closed_s(kind, sums, w, loads, lanes.astype(float), tokens))
    elif q.load == "rate_per_s":
        span = np.array([runs.span_s(float(x)) for x in loads])
        with np.errstate(divide="ignore"):
            most = np.minimum(most, sums.output_tokens / span)
        late = some[:, :, None] > lanes * (span + latest_s(sums, slo))
        impossible[late & (impossible == NOTHING)] = TOO_MUCH
    i, j = np.meshgrid(np.arange(s), np.arange(t), indexing="ij")
    groups = group + (np.arange(s * t).reshape(s, t, 1) * len(replicas) + np.searchsorted(replicas, count))
    one = np.ones(shape)
    return Columns.of(
        kind=index * one,
        sequences=i[:, :, None] * one,
        tokens=j[:, :, None] * one,
        replicas=count * one,
        load=loads * one,
        group=groups * one,
        tokens_per_s=most * (1 + 1e-9),
        user_tokens_per_s=(1.0 / median if median else np.inf) * one,
        impossible=impossible,
        estimate=_estimated(q, kind, runs, count, loads),
        devices=count * kind.devices * one,
        price=(kind.place.price or np.nan) * one,
        least_w=idle_w_of(kind) * count * kind.devices * one,
        requests_per_token=sums.count / sums.output_tokens * one,
        answers=-one,
        answering=0 * one,
        answer_sequences=0 * one,
    )


def _estimated(q: Question, kind: Kind, runs: Runs, replicas: Ints, loads: Floats) -> Floats:
    """(3, S, T, C): seconds of TTFT and TPOT, tokens a second."""
    limits = kind.instance.limits
    sums = runs.sums(float(loads[0]), limits.caching, limits.step_tokens)
    lanes = replicas * kind.lanes
    per = np.where(loads > 0, loads, float(sums.count)) / lanes
    open_loop = q.load == "rate_per_s"
    if q.load == "given" and sums.span_s > 0:
        per, open_loop = sums.count / sums.span_s / lanes, True
    found = settled(
        kind,
        sums,
        kind.lane_sequences(),
        kind.lane_tokens(),
        rate=per if open_loop else None,
        in_flight=None if open_loop else per,
    )
    return np.stack([found.ttft_s, found.tpot_s, found.tokens_per_s * lanes])
