"""All candidates of a search, each with what it could be at best and where it is estimated to settle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.machine_memory import require_bytes
from windtunnel.planner.deadline import GRACE_S, Deadline
from windtunnel.planner.serving.bounds import Sums, busy_s, closed_s, latest_s, light, step_limit_s, work
from windtunnel.planner.serving.candidate_table import NOTHING, REFUSED, TOO_MUCH, TOO_SLOW, CandidateTable, idle_w_of
from windtunnel.planner.serving.disaggregated import disaggregated_candidates
from windtunnel.planner.serving.instance_types import InstanceType
from windtunnel.planner.serving.question import Question, loads_of
from windtunnel.planner.serving.simulate_candidate import Runs
from windtunnel.planner.serving.steady_state import settled
from windtunnel.specs.serving import SloSpec


def screen(
    question: Question,
    kinds: list[InstanceType],
    runs: Runs,
    *,
    upper: bool = False,
    each: tuple[float, ...] | None = None,
    until: Deadline | None = None,
) -> Iterator[CandidateTable]:
    """All candidates with their bounds: first one table of whole instances, then one of split pools.

    Args:
        question: what is asked.
        kinds: of instances.
        runs: whose requests are counted.
        upper: whether the objective has to hold at the upper end of the prediction's interval.
        each: loads instead of the question's: rates of all instances, or requests in flight on a device.
        until: when no further split pools get their bounds, and `GRACE_S` later no further whole instances, once
            there are some; the caller sees by the clock that it passed.
    """
    _check_size(question, kinds)
    wanted = question.wanted.space.deployment or ("aggregated",)
    group = 0

    def joined(parts: Iterator[CandidateTable], more_s: float) -> Iterator[CandidateTable]:
        nonlocal group
        some: list[CandidateTable] = []
        for made in parts:
            some.append(made)
            group = int(made.group.max()) + 1
            if until is not None and until.left_s < -more_s:
                break
        if some:
            yield CandidateTable.joined(some)

    def whole() -> Iterator[CandidateTable]:
        for index, kind in enumerate(kinds):
            slo = runs.tightened(kind) if upper else question.goals.slo
            made = _of_kind(question, index, kind, runs, group, slo, each)
            if made is not None and len(made):
                yield made

    if "aggregated" in wanted:
        yield from joined(whole(), GRACE_S)
    if "disaggregated" in wanted and not (group and until is not None and until.passed):  # bounds of both pools
        yield from joined(disaggregated_candidates(question, kinds, runs, group, upper=upper, each=each), 0.0)


_BYTES_A_CANDIDATE = 400.0
"""All columns of a table of candidates, twice: by kind and joined."""


def _check_size(question: Question, kinds: list[InstanceType]) -> None:
    """Refuse a space whose candidates do not fit in memory.

    Raises:
        BadInput: they do not.
    """
    count = 0.0
    for kind in kinds:
        most = _most_replicas(question, kind) if _is_free_to_choose(question) else 1
        limits = len(kind.lane_sequences()) * len(kind.lane_tokens())
        count += float(most) * limits * len(loads_of(question, kind.devices))
    what = f"the {count:.3g} deployments of this search"
    require_bytes(count * _BYTES_A_CANDIDATE, "search.limits.devices", f"{what} (replicas, batch limits, loads)")


def _is_free_to_choose(question: Question) -> bool:
    """Whether every number of instances is a candidate."""
    return not (question.wanted.space.replicas or "replicas" in question.pinned or question.free)


def _most_replicas(question: Question, kind: InstanceType) -> int:
    """Instances that the devices suffice for."""
    return min(question.wanted.limits.devices or 10**9, kind.place.cluster.num_devices) // kind.devices


def _replicas(question: Question, kind: InstanceType) -> Ints:
    """Numbers of instances to choose from."""
    most = _most_replicas(question, kind)
    if question.wanted.space.replicas:
        return np.array([r for r in sorted({*question.wanted.space.replicas}) if r <= most], np.int64)
    if "replicas" in question.pinned:
        return np.array([question.pool.replicas] if question.pool.replicas <= most else [], np.int64)
    if question.free:
        return np.array([most] if most else [], np.int64)
    return np.arange(1, most + 1)


@dataclass(frozen=True, slots=True)
class _Cells:
    """Numbers of instances and loads of one instance type, C cells."""

    count: Ints
    """(C,) instances."""
    loads: Floats
    """(C,) loads of all instances together."""
    replicas: Ints
    """Numbers of instances to choose from, rising."""


def _cells(question: Question, kind: InstanceType, each: tuple[float, ...] | None) -> _Cells | None:
    """Every number of instances at every load; None where there is none."""
    replicas = _replicas(question, kind)
    if not len(replicas):
        return None
    if each is None:
        own = np.array(loads_of(question, kind.devices))
    else:
        whole = [round(c * kind.devices) for c in each]
        own = np.array(sorted({max(w, 1) for w in whole}), float) if question.load == "concurrency" else np.array(each)
    count, loads = np.repeat(replicas, len(own)), np.tile(own, len(replicas))
    if question.free and question.load == "concurrency":
        loads = loads * count
        able = loads <= (question.serving.traffic.num_requests or 10**9)
        count, loads = count[able], loads[able]
    return _Cells(count, loads, replicas) if len(count) else None


def _of_kind(
    question: Question,
    index: int,
    kind: InstanceType,
    runs: Runs,
    group: int,
    slo: SloSpec,
    each: tuple[float, ...] | None,
) -> CandidateTable | None:
    """Candidates of one instance type whose instances prefill and decode.

    Args:
        question: what is asked.
        index: number of the instance type.
        kind: the instance type.
        runs: whose requests are counted.
        group: first number of a group.
        slo: the objective.
        each: see `screen`.
    """
    cells = _cells(question, kind, each)
    if cells is None:
        return None
    count, limits = cells.count, kind.instance.limits
    sums = runs.sums(float(cells.loads[0]), limits.caching, limits.step_tokens)
    most, impossible, median = _kind_bounds(question, kind, runs, sums, slo, cells)
    s, t = most.shape[:2]
    i, j = np.meshgrid(np.arange(s), np.arange(t), indexing="ij")
    places = np.arange(s * t).reshape(s, t, 1) * len(cells.replicas)
    groups = group + (places + np.searchsorted(cells.replicas, count))
    one = np.ones(most.shape)
    return CandidateTable.of(
        kind=index * one,
        sequences=i[:, :, None] * one,
        tokens=j[:, :, None] * one,
        replicas=count * one,
        load=cells.loads * one,
        group=groups * one,
        tokens_per_s=most * (1 + 1e-9),
        user_tokens_per_s=(1.0 / median if median else np.inf) * one,
        impossible=impossible,
        estimate=_estimated(question, kind, runs, count, cells.loads),
        devices=count * kind.devices * one,
        price=(kind.place.price or np.nan) * one,
        least_w=idle_w_of(kind) * count * kind.devices * one,
        requests_per_token=sums.count / sums.output_tokens * one,
        answers=-one,
        answering=0 * one,
        answer_sequences=0 * one,
    )


def _kind_bounds(
    question: Question, kind: InstanceType, runs: Runs, sums: Sums, slo: SloSpec, cells: _Cells
) -> tuple[Floats, Ints, float]:
    """(S, T, C): tokens a second that no run exceeds, and why a candidate cannot keep the objective; least median TPOT.

    Args:
        question: what is asked.
        kind: the instance type.
        runs: whose requests are counted.
        sums: of the traffic.
        slo: the objective.
        cells: numbers of instances and loads.
    """
    seqs, tokens, loads = kind.lane_sequences(), kind.lane_tokens(), cells.loads
    able_count, median = light(kind, sums, slo, tokens)
    lanes = cells.count * kind.lanes
    weights = work(kind, sums, seqs, tokens)
    impossible = np.zeros((len(seqs), len(tokens), len(cells.count)), np.int64)
    impossible[:, able_count < sums.needed, :] = TOO_SLOW
    everything, some = busy_s(kind, sums, weights, step_limit_s(sums, slo))
    most = sums.output_tokens * lanes / everything[:, :, None]
    if question.load == "concurrency":
        closed = closed_s(kind, sums, weights, loads, lanes.astype(float), tokens)
        most = np.minimum(most, sums.output_tokens / closed)
    elif question.load == "rate_per_s":
        span = np.array([runs.span_s(float(x)) for x in loads])
        with np.errstate(divide="ignore"):
            most = np.minimum(most, sums.output_tokens / span)
        late = some[:, :, None] > lanes * (span + latest_s(sums, slo))
        impossible[late & (impossible == NOTHING)] = TOO_MUCH
    impossible[~kind.legal] = REFUSED
    return most, impossible, median


def _estimated(question: Question, kind: InstanceType, runs: Runs, replicas: Ints, loads: Floats) -> Floats:
    """(3, S, T, C): seconds of TTFT and TPOT, tokens a second."""
    limits = kind.instance.limits
    sums = runs.sums(float(loads[0]), limits.caching, limits.step_tokens)
    lanes = replicas * kind.lanes
    per = np.where(loads > 0, loads, float(sums.count)) / lanes
    open_loop = question.load == "rate_per_s"
    if question.load == "given" and sums.span_s > 0:
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
