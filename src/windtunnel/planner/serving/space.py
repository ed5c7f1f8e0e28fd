"""All candidates of a search as arrays, each with what it could be at best and where it is estimated to settle."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from windtunnel.planner.serving.bounds import Sums, busy_s, closed_s, light, work
from windtunnel.planner.serving.estimate import settled
from windtunnel.planner.serving.kinds import Kind
from windtunnel.planner.serving.objectives import Best
from windtunnel.planner.serving.question import Question, loads_of
from windtunnel.planner.serving.trial import Runs
from windtunnel.specs.serving import SloSpec

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
NOTHING, TOO_SLOW, TOO_MUCH = 0, 1, 2
"""Why a candidate cannot keep the objective: it may; one request alone takes too long; more work than time."""


@dataclass(slots=True)
class Candidates:
    """C candidates. Everything that depends on the kind is filled in by `screen`."""

    kind: Ints
    sequences: Ints
    """Places in the kind's limits."""
    tokens: Ints
    replicas: Ints
    load: Floats
    """Of all replicas together; 0 where the traffic's is the only one."""
    group: Ints
    """Candidates that differ in load alone have the same."""
    tokens_per_s: Floats
    """No run puts out more."""
    user_tokens_per_s: Floats
    impossible: Ints
    estimate: Floats
    """(C, 3): seconds of TTFT and TPOT, tokens a second; where it settles, estimated."""
    devices: Floats
    price: Floats
    least_w: Floats
    requests_per_token: float

    def __len__(self) -> int:
        return len(self.kind)

    def at(self, kinds: list[Kind], i: int) -> tuple[Kind, int, int, int, float]:
        """A candidate's kind, max_num_seqs, max_num_batched_tokens, replicas and load."""
        kind = kinds[int(self.kind[i])]
        limits = kind.sequences[int(self.sequences[i])], kind.tokens[int(self.tokens[i])]
        return kind, *limits, int(self.replicas[i]), float(self.load[i])

    @property
    def best(self) -> Best:
        """The best that each could be."""
        rate = self.tokens_per_s * self.requests_per_token
        return Best(self.devices, self.price, self.tokens_per_s, rate, self.user_tokens_per_s, self.least_w)


    def joined(self, other: Candidates) -> Candidates:
        """With more candidates of the same kinds and groups behind these."""
        both: dict[str, Any] = {
            f.name: np.concatenate([getattr(self, f.name), getattr(other, f.name)])
            for f in fields(self)
            if f.name != "requests_per_token"
        }
        return Candidates(**both, requests_per_token=self.requests_per_token)


def screen(
    q: Question, kinds: list[Kind], runs: Runs, tell: Callable[[int], None], *, upper: bool = False,
    each: tuple[float, ...] | None = None,
) -> tuple[Candidates, float]:  # fmt: skip
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
    parts: list[tuple[np.ndarray, ...]] = []
    sums: dict[tuple[float, bool, int], Sums] = {}
    group, done = 0, 0
    for index, kind in enumerate(kinds):
        slo = runs.tightened(kind) if upper else q.goals.slo
        made = _of_kind(q, index, kind, runs, sums, group, slo, each)
        if made is None:
            continue
        parts.append(made)
        group = int(made[5].max()) + 1
        done += len(made[0])
        tell(done)
    columns = [np.concatenate([p[i] for p in parts]) for i in range(13)] if parts else [np.zeros(0)] * 13
    estimate = np.stack(columns[9:12], axis=1) if parts else np.zeros((0, 3))
    of = columns[0].astype(np.int64)
    devices = np.array([k.devices for k in kinds], float)[of] * columns[3] if parts else np.zeros(0)
    price = np.array([k.place.price or np.nan for k in kinds])[of] if parts else np.zeros(0)
    some = next(iter(sums.values()), None)
    per_token = some.count / some.output_tokens if some else 0.0
    of_kind, sequences, tokens, replicas = (c.astype(np.int64) for c in columns[:4])
    return Candidates(
        of_kind, sequences, tokens, replicas, columns[4], columns[5].astype(np.int64), columns[6], columns[7],
        columns[8].astype(np.int64), estimate,
        devices, price, columns[12], per_token,
    ), time.perf_counter() - begun  # fmt: skip


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
    q: Question,
    index: int,
    kind: Kind,
    runs: Runs,
    known: dict[tuple[float, bool, int], Sums],
    group: int,
    slo: SloSpec, each: tuple[float, ...] | None,
) -> tuple[np.ndarray, ...] | None:
    """Columns of one kind's candidates."""
    replicas = _replicas(q, kind)
    if not len(replicas):
        return None
    caching, step = kind.instance.limits.caching, kind.instance.limits.step_tokens

    def sums_at(load: float) -> Sums:
        key = load, caching, step
        if key not in known:
            requests, warmup = runs.traffic(load).requests, q.serving.traffic.warmup_requests
            known[key] = Sums.of(requests, slo, warmup, caching=caching, step=step)
        return known[key]

    seqs, tokens = kind.lane_sequences(), kind.lane_tokens()
    if each is None:
        loads = np.array(loads_of(q, kind.devices))
    else:
        whole = [round(c * kind.devices) for c in each]
        loads = np.array(sorted({max(w, 1) for w in whole}), float) if q.load == "concurrency" else np.array(each)
    pairs_r, pairs_l = np.repeat(replicas, len(loads)), np.tile(loads, len(replicas))
    if q.free and q.load == "concurrency":
        pairs_l = pairs_l * pairs_r
        most = q.serving.traffic.num_requests or 10**9
        pairs_r, pairs_l = pairs_r[pairs_l <= most], pairs_l[pairs_l <= most]
    if not len(pairs_r):
        return None
    first = sums_at(float(pairs_l[0]))
    able, median = light(kind, first, slo, tokens)
    s, t, c = len(seqs), len(tokens), len(pairs_r)
    lanes = pairs_r * kind.lanes
    w = work(kind, first, seqs, tokens)
    impossible = np.zeros((s, t, c), np.int64)
    impossible[:, able < first.needed, :] = TOO_SLOW
    most_tokens = np.full((s, t, c), np.inf)
    tpot = _tpot(first, slo)
    everything, some = busy_s(kind, first, w, tpot)
    most_tokens = np.minimum(most_tokens, first.output_tokens * lanes / everything[:, :, None])
    if q.load == "concurrency":
        duration = closed_s(kind, first, w, pairs_l, lanes.astype(float))
        most_tokens = np.minimum(most_tokens, first.output_tokens / duration)
    elif q.load == "rate_per_s":
        span = np.array([sums_at(float(x)).span_s for x in pairs_l])
        with np.errstate(divide="ignore"):
            most_tokens = np.minimum(most_tokens, first.output_tokens / span)
        until = span + _latest(first, slo)
        impossible[(some[:, :, None] > lanes * until) & (impossible == 0)] = TOO_MUCH
    est = _estimated(q, kind, first, pairs_r, pairs_l)
    shape = (s, t, c)
    i, j = np.meshgrid(np.arange(s), np.arange(t), indexing="ij")
    groups = group + (np.arange(s * t).reshape(s, t, 1) * len(replicas) + np.searchsorted(replicas, pairs_r))
    full = np.broadcast_to
    columns = (
        np.full(shape, index), full(i[:, :, None], shape), full(j[:, :, None], shape), full(pairs_r, shape),
        full(pairs_l, shape), full(groups, shape), most_tokens, np.full(shape, 1.0 / median if median else np.inf),
        impossible, *est, np.full(shape, _idle_w(kind)) * pairs_r * kind.devices,
    )  # fmt: skip
    return tuple(np.ascontiguousarray(x).reshape(-1) for x in columns)


def _tpot(sums: Sums, slo: SloSpec) -> float:
    """Most seconds a step that the objective allows, on the mean of those that keep it."""
    out = slo.tpot_s * sums.step if slo.tpot_s is not None else np.inf
    if slo.e2e_s is not None:
        out = min(out, slo.e2e_s * sums.needed / max(sums.least(sums.decode), 1.0))
    return float(out)


def _latest(sums: Sums, slo: SloSpec) -> float:
    """Seconds after its arrival by which a request that keeps the objective has ended."""
    out = slo.e2e_s if slo.e2e_s is not None else np.inf
    if slo.ttft_s is not None and slo.tpot_s is not None:
        out = min(out, slo.ttft_s + slo.tpot_s * sums.step * float(sums.decode.max()))
    return float(out)


def _idle_w(kind: Kind) -> float:
    from windtunnel.cost.clock import idle_w

    device = kind.place.cluster.device
    return float(idle_w(device)) if device.tdp_w else 0.0


def _estimated(q: Question, kind: Kind, sums: Sums, replicas: Ints, loads: Floats) -> tuple[Floats, Floats, Floats]:
    """Seconds of TTFT and TPOT and tokens a second, (S, T, C) each."""
    lanes = replicas * kind.lanes
    per = np.where(loads > 0, loads, float(sums.count)) / lanes
    open_loop = q.load == "rate_per_s"
    if q.load == "given" and sums.span_s > 0:
        per, open_loop = sums.count / sums.span_s / lanes, True
    found = settled(
        kind, sums, kind.lane_sequences(), kind.lane_tokens(), rate=per if open_loop else None,
        in_flight=None if open_loop else per,
    )  # fmt: skip
    return found.ttft_s, found.tpot_s, found.tokens_per_s * lanes
