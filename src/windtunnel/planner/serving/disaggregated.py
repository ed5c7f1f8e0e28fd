"""Disaggregated candidates: every pair of a prefill and a decode pool, every number of instances of each.

Their bounds are those of both pools: prefill alone in one, decode steps alone in the other, each with the part of the
objective that concerns it. Limits are the engine's own, those that the scenario states, or those that the space lists:
of tokens for prompts, of sequences for answers. Pipelines are left out unless listed, or nothing fits without.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.planner.serving.bounds import (
    MU,
    Sums,
    attention_s,
    decode_weights,
    first_token_s,
    latest_s,
    least_prompt_s,
    light,
    step_limit_s,
)
from windtunnel.planner.serving.candidate_table import NOTHING, TOO_MUCH, TOO_SLOW, CandidateTable, idle_w_of
from windtunnel.planner.serving.instance_types import InstanceType
from windtunnel.planner.serving.question import Question, loads_of
from windtunnel.planner.serving.simulate_candidate import Runs
from windtunnel.planner.serving.steady_state import decoding, prompting
from windtunnel.specs.serving import SloSpec


@dataclass(frozen=True, slots=True)
class PrefillPool:
    """Least seconds of one instance type as a prefill pool."""

    able: bool
    """Whether enough first tokens come in time, each request alone."""
    busy_s: float
    """Least busy time of all prompts."""
    needed_s: float
    """The same of those that must keep the objective."""
    first_s: float
    """Sum over requests of what a first token takes at least: time in which they do not decode."""


@dataclass(frozen=True, slots=True)
class DecodePool:
    """Least seconds of one instance type as a decode pool."""

    able: bool
    weights: Floats
    """(M,) least seconds a step at each multiplier."""
    rest_s: float
    """Attention of decode steps that no batch shares."""
    rest_needed_s: float
    user_s: float
    """Least median TPOT."""


def _prompts(kind: InstanceType, place: int, sums: Sums, slo: SloSpec) -> PrefillPool:
    limit = float(kind.lane_tokens()[place])
    able, _ = light(kind, sums, SloSpec(ttft_s=slo.ttft_s), np.array([limit]))
    own, _ = attention_s(kind, sums)
    each = least_prompt_s(kind, sums, limit)
    first = first_token_s(kind, sums, limit) - kind.iteration.request_s
    return PrefillPool(
        bool(able[0] >= sums.needed),
        each * float(sums.prompt.sum()) + float(own.sum()),
        each * sums.least(sums.prompt) + sums.least(own),
        float(first.sum()),
    )


def _answers(kind: InstanceType, place: int, sums: Sums, slo: SloSpec) -> DecodePool:
    sequences, limit = float(kind.lane_sequences()[place]), float(kind.lane_tokens()[kind.tokens_with(place)])
    able, median = light(kind, sums, SloSpec(tpot_s=slo.tpot_s), np.array([limit]))
    _, own = attention_s(kind, sums)
    weights = decode_weights(kind, sums, sequences)
    return DecodePool(bool(able[0] >= sums.needed), weights, float(own.sum()), sums.least(own), median)


def disaggregated_candidates(
    question: Question,
    kinds: list[InstanceType],
    runs: Runs,
    group: int,
    *,
    upper: bool,
    each: tuple[float, ...] | None,
) -> Iterator[CandidateTable]:
    """Candidates of all pairs of pools, family by family.

    Args:
        question: what is asked.
        kinds: of instances.
        runs: whose requests are counted.
        group: first number of a group.
        upper: whether the objective has to hold at the upper end of the prediction's interval.
        each: see `space.screen`.
    """
    families: dict[tuple[str, str, str], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i, kind in enumerate(kinds):
        precision = kind.serving.precision
        families[kind.serving.engine, precision.weights or "bf16", precision.kv_cache][id(kind.place)].append(i)
    for places in families.values():
        for every, others in product(places.values(), repeat=2):
            near = every is others
            if not near and kinds[every[0]].place.whole is None:
                continue  # device types to choose from, not groups of one cluster
            sides = every, others
            if (
                question.wanted.space.pp is None and "pp" not in question.pinned
            ):  # stages shorten neither a prompt nor a step
                sides = (
                    [i for i in every if kinds[i].plan.pp == 1] or every,
                    [i for i in others if kinds[i].plan.pp == 1] or others,
                )
            for columns in _Family(question, kinds, *sides, runs, upper=upper).columns(each):
                columns.group += group
                group = int(columns.group.max()) + 1
                yield columns


_Place = tuple[int, int]
"""A kind of instance, and the place of its limit among those of the kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """p pairs of a prefill and a decode pool, each with n numbers of instances of both."""

    pools: list[tuple[_Place, _Place]]
    """(p,)."""
    kinds: Ints
    """(p, 2) kinds of instances."""
    prefill: list[PrefillPool]
    decode: list[DecodePool]
    prefill_count: Ints
    decode_count: Ints
    """(n,) instances."""
    prefill_lanes: Ints
    decode_lanes: Ints
    """(p, n) instances of the loop."""


class _Family:
    """Instance types with one engine and precision, for prefill on one cluster and for decode on that or another."""

    def __init__(
        self,
        question: Question,
        kinds: list[InstanceType],
        left: list[int],
        right: list[int],
        runs: Runs,
        *,
        upper: bool,
    ) -> None:
        self.question, self.kinds, self.runs = question, kinds, runs
        first, other = kinds[left[0]], kinds[right[0]]
        limits = first.instance.limits
        self.slo = runs.tightened(first, form="split", other=other) if upper else question.goals.slo
        self.sums = runs.sums(loads_of(question, 1)[0], limits.caching, limits.step_tokens)
        chunks, batches = question.wanted.space.max_num_batched_tokens, question.wanted.space.max_num_seqs
        self.prompts: dict[tuple[int, int], PrefillPool] = {}
        self.answers: dict[tuple[int, int], DecodePool] = {}
        for i in left:
            for place in range(len(kinds[i].tokens)) if chunks else (kinds[i].usual_places()[1],):
                self.prompts[i, place] = _prompts(kinds[i], place, self.sums, self.slo)
        for i in right:
            for place in range(len(kinds[i].sequences)) if batches else (kinds[i].usual_places()[0],):
                self.answers[i, place] = _answers(kinds[i], place, self.sums, self.slo)
        limit = question.wanted.limits.devices or 10**9
        self.each = [min(limit, kind.place.cluster.num_devices) for kind in (first, other)]
        self.most = self.each[0] if first.place is other.place else min(limit, sum(self.each))
        self.price = [kind.place.price or np.nan for kind in (first, other)]
        self.idle_w = [idle_w_of(kind) for kind in (first, other)]

    def columns(self, each: tuple[float, ...] | None) -> Iterator[CandidateTable]:
        """Candidates, by the devices of an instance of either pool."""
        left: dict[int, list[tuple[int, int]]] = defaultdict(list)
        right: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for side, of in ((left, [*self.prompts]), (right, [*self.answers])):
            for key in of:
                side[self.kinds[key[0]].devices].append(key)
        load = loads_of(self.question, self.most) if each is None else each
        if each is not None and self.question.load == "concurrency":
            load = tuple(sorted({float(max(round(c * self.most), 1)) for c in each}))
        if self.question.load == "concurrency":
            load = tuple(c for c in load if c <= (self.question.serving.traffic.num_requests or 10**9))
        for a, prompts in left.items():
            for b, answers in right.items():
                if a <= self.each[0] and b <= self.each[1] and a + b <= self.most and load:
                    yield self._pairs_of_pools((a, b), prompts, answers, np.array(load))

    def _pairs_of_pools(
        self, sizes: tuple[int, int], left: list[_Place], right: list[_Place], loads: Floats
    ) -> CandidateTable:
        """All pairs of pools whose instances have these sizes.

        Args:
            sizes: devices of a prefill instance and of a decode instance.
            left: kinds of prefill instances, each with the place of its limit.
            right: kinds of decode instances, likewise.
            loads: (m,) loads.
        """
        sums, pairs = self.sums, self._pairs(sizes, left, right)
        p, n, m = len(pairs.pools), len(pairs.prefill_count), len(loads)
        usual = np.array([(self.kinds[i].sequences_with(place), place) for (i, place), _ in pairs.pools])
        batch = np.array([place for _, (_, place) in pairs.pools])
        users = np.array([1.0 / pool.user_s if pool.user_s else np.inf for pool in pairs.decode])
        x, y, (a, b) = pairs.prefill_count, pairs.decode_count, sizes
        devices = x * a + y * b
        most, impossible = self._bounds(pairs, loads)
        price, idle = ((x * a * each[0] + y * b * each[1]) for each in (self.price, self.idle_w))
        one = np.ones((p, n, m))
        return CandidateTable.of(
            kind=pairs.kinds[:, 0, None, None] * one,
            sequences=usual[:, 0, None, None] * one,
            tokens=usual[:, 1, None, None] * one,
            replicas=x[None, :, None] * one,
            load=loads * one,
            group=np.arange(p * n).reshape(p, n, 1) * one,
            tokens_per_s=most * (1 + 1e-9),
            user_tokens_per_s=users[:, None, None] * one,
            impossible=impossible,
            estimate=self._estimates(pairs.pools, pairs.prefill_lanes, pairs.decode_lanes, loads),
            devices=devices[None, :, None] * one,
            price=(price / devices)[None, :, None] * one,
            least_w=idle[None, :, None] * one,
            answers=pairs.kinds[:, 1, None, None] * one,
            answering=y[None, :, None] * one,
            answer_sequences=batch[:, None, None] * one,
            requests_per_token=sums.count / sums.output_tokens * one,
        )

    def _pairs(self, sizes: tuple[int, int], left: list[_Place], right: list[_Place]) -> _Pairs:
        """Every pair of pools, and every number of instances of both that the devices allow."""
        a, b = sizes
        pools = [(x, y) for x in left for y in right]
        kinds = np.array([(x[0], y[0]) for x, y in pools])
        xs, ys = np.meshgrid(np.arange(1, self.each[0] // a + 1), np.arange(1, self.each[1] // b + 1), indexing="ij")
        fit = xs * a + ys * b <= self.most
        x, y = xs[fit], ys[fit]
        return _Pairs(
            pools=pools,
            kinds=kinds,
            prefill=[self.prompts[x] for x, _ in pools],
            decode=[self.answers[y] for _, y in pools],
            prefill_count=x,
            decode_count=y,
            prefill_lanes=x[None, :] * np.array([self.kinds[i].lanes for i in kinds[:, 0]])[:, None],
            decode_lanes=y[None, :] * np.array([self.kinds[j].lanes for j in kinds[:, 1]])[:, None],
        )

    def _bounds(self, pairs: _Pairs, loads: Floats) -> tuple[Floats, Ints]:
        """(p, n, m) each: no run puts out more tokens a second; why a pair cannot keep the objective."""
        question, sums, slo = self.question, self.sums, self.slo
        weights = np.stack([pool.weights for pool in pairs.decode])
        rest = np.array([pool.rest_s for pool in pairs.decode])
        tau = step_limit_s(sums, slo)
        bent = np.maximum(weights - MU * tau, 0.0).max(axis=1) if np.isfinite(tau) else weights[:, 0]
        most = np.repeat(self._rate(pairs, bent, weights, rest)[:, :, None], len(loads), axis=2)
        impossible = np.zeros(most.shape, np.int64)
        able = np.array([pool.able for pool in pairs.prefill]) & np.array([pool.able for pool in pairs.decode])
        impossible[~able] = TOO_SLOW
        if question.load == "concurrency":
            most = self._within_concurrency(pairs, weights, rest, loads, most)
        elif question.load == "rate_per_s":
            span = np.array([self.runs.span_s(float(load)) for load in loads])
            with np.errstate(divide="ignore"):
                most = np.minimum(most, sums.output_tokens / span)
            late = self._late(pairs, bent, span + latest_s(sums, slo))
            impossible[late & (impossible == NOTHING)] = TOO_MUCH
        return most, impossible

    def _within_concurrency(self, pairs: _Pairs, weights: Floats, rest: Floats, loads: Floats, most: Floats) -> Floats:
        """(p, n, m): tokens a second that requests in flight alone allow.

        Args:
            pairs: of pools.
            weights: (p, M) least seconds of a step at each multiplier.
            rest: (p,) seconds of attention that no batch shares.
            loads: (m,) requests in flight.
            most: (p, n, m) tokens a second that are possible otherwise.
        """
        sums = self.sums
        first = np.array([pool.first_s for pool in pairs.prefill])
        work = weights * float(sums.decode.sum()) + rest[:, None] + MU * first[:, None]  # (p, M)
        for k, mu in enumerate(MU):
            least = work[:, k, None, None] / (pairs.decode_lanes[:, :, None] + mu * loads)
            most = np.minimum(most, sums.output_tokens / np.maximum(least, 1e-12))
        return most

    def _late(self, pairs: _Pairs, bent: Floats, until_s: Floats) -> Mask:
        """(p, n, m): where a pool has more work than time for the requests that must keep the objective.

        Args:
            pairs: of pools.
            bent: (p,) least seconds of a step that must keep the objective.
            until_s: (m,) when the last of these requests has ended.
        """
        prefill = np.array([pool.needed_s for pool in pairs.prefill])
        late = (prefill[:, None] / pairs.prefill_lanes)[:, :, None] > until_s
        needed = self.sums.least(self.sums.decode)
        decode = bent * needed + np.array([pool.rest_needed_s for pool in pairs.decode])
        late |= (decode[:, None] / pairs.decode_lanes)[:, :, None] > until_s
        return np.asarray(late)

    def _rate(self, pairs: _Pairs, bent: Floats, weights: Floats, rest: Floats) -> Floats:
        """(p, n): tokens a second that both pools have time for.

        Args:
            pairs: of pools.
            bent: (p,) least seconds of a step that must keep the objective.
            weights: (p, M) least seconds of a step at each multiplier.
            rest: (p,) seconds of attention that no batch shares.
        """
        sums = self.sums
        decode, needed, output = float(sums.decode.sum()), sums.least(sums.decode), sums.output_tokens
        busy = np.array([pool.busy_s for pool in pairs.prefill])
        work = bent * needed + weights[:, 0] * (decode - needed) + rest
        rate = np.minimum(
            output * pairs.prefill_lanes / busy[:, None], output * pairs.decode_lanes / np.maximum(work, 1e-12)[:, None]
        )
        return np.asarray(rate)

    def _estimates(self, pools: list[tuple[_Place, _Place]], lanes_x: Ints, lanes_y: Ints, loads: Floats) -> Floats:
        """(3, p, n, m): seconds of TTFT and TPOT, tokens a second."""
        question, sums = self.question, self.sums
        out = np.empty((3, *lanes_x.shape, len(loads)))
        answer = sums.output_tokens / sums.count
        for k, ((i, t), (j, s)) in enumerate(pools):
            x, y = lanes_x[k][:, None], lanes_y[k][:, None]
            left, right = self.kinds[i], self.kinds[j]
            most = float(right.lane_sequences()[s])
            if question.load == "concurrency":
                token, made = decoding(right, sums, most, in_flight=loads / y)
                rate = np.minimum(made * y, answer * x * sums.count / self.prompts[i, t].busy_s)
            else:
                open_s = (
                    loads if question.load == "rate_per_s" else np.full(len(loads), sums.count / max(sums.span_s, 1e-9))
                )
                token, made = decoding(right, sums, most, rate=open_s / y)
                rate = np.minimum(made * y, answer * open_s)
            out[0, k] = prompting(left, sums, rate / answer / x)
            out[1, k], out[2, k] = token, rate
        return out
