"""Candidates with a pool for prompts and one for answers: every pair of kinds, every number of instances of each.

Their bounds are those of both pools: prompts alone in one, decode steps alone in the other, each with the part of the
objective that concerns it. Limits are the engine's own, those that the scenario states, or those that the space lists:
of tokens for prompts, of sequences for answers. Pipelines are left out unless listed, or nothing fits without.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from windtunnel.arrays import Floats, Ints
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
from windtunnel.planner.serving.candidate_table import NOTHING, TOO_MUCH, TOO_SLOW, Columns, idle_w_of
from windtunnel.planner.serving.instance_types import Kind
from windtunnel.planner.serving.question import Question, loads_of
from windtunnel.planner.serving.simulate_candidate import Runs
from windtunnel.planner.serving.steady_state import decoding, prompting
from windtunnel.specs.serving import SloSpec


@dataclass(frozen=True, slots=True)
class Prompts:
    """One kind as a pool that computes prompts. Seconds."""

    able: bool
    """Whether enough first tokens come in time, each request alone."""
    busy_s: float
    """Least busy time of all prompts."""
    needed_s: float
    """The same of those that must keep the objective."""
    first_s: float
    """Sum over requests of what a first token takes at least: time in which they do not decode."""


@dataclass(frozen=True, slots=True)
class Answers:
    """One kind as a pool that decodes."""

    able: bool
    weights: Floats
    """(M,) least seconds a step at each multiplier."""
    rest_s: float
    """Attention of decode steps that no batch shares."""
    rest_needed_s: float
    user_s: float
    """Least median TPOT."""


def _prompts(kind: Kind, place: int, sums: Sums, slo: SloSpec) -> Prompts:
    limit = float(kind.lane_tokens()[place])
    able, _ = light(kind, sums, SloSpec(ttft_s=slo.ttft_s), np.array([limit]))
    own, _ = attention_s(kind, sums)
    each = least_prompt_s(kind, sums, limit)
    first = first_token_s(kind, sums, limit) - kind.iteration.request_s
    return Prompts(
        bool(able[0] >= sums.needed),
        each * float(sums.prompt.sum()) + float(own.sum()),
        each * sums.least(sums.prompt) + sums.least(own),
        float(first.sum()),
    )


def _answers(kind: Kind, place: int, sums: Sums, slo: SloSpec) -> Answers:
    sequences, limit = float(kind.lane_sequences()[place]), kind.usual()[1]
    able, median = light(kind, sums, SloSpec(tpot_s=slo.tpot_s), np.array([limit]))
    _, own = attention_s(kind, sums)
    weights = decode_weights(kind, sums, sequences)
    return Answers(bool(able[0] >= sums.needed), weights, float(own.sum()), sums.least(own), median)


def split_columns(
    q: Question, kinds: list[Kind], runs: Runs, group: int, *, upper: bool, each: tuple[float, ...] | None
) -> Iterator[Columns]:
    """Candidates of all pairs of pools, family by family.

    Args:
        q: the question.
        kinds: of instances.
        runs: whose requests are counted.
        group: first number of a group.
        upper: whether the objective has to hold at the upper end of the prediction's interval.
        each: see `space.screen`.
    """
    families: dict[tuple[str, str, str], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i, kind in enumerate(kinds):
        precision = kind.serving.precision
        families[kind.serving.engine, precision.weights, precision.kv_cache][id(kind.place)].append(i)
    for places in families.values():
        for every, others in product(places.values(), repeat=2):
            near = every is others
            if not near and kinds[every[0]].place.whole is None:
                continue  # device types to choose from, not groups of one cluster
            sides = every, others
            if q.wanted.space.pp is None and "pp" not in q.pinned:  # stages shorten neither a prompt nor a step
                sides = (
                    [i for i in every if kinds[i].plan.pp == 1] or every,
                    [i for i in others if kinds[i].plan.pp == 1] or others,
                )
            for columns in _Family(q, kinds, *sides, runs, upper=upper).columns(each):
                columns.group += group
                group = int(columns.group.max()) + 1
                yield columns


class _Family:
    """Kinds with one engine and precision, for prompts on one cluster and for answers on that or another."""

    def __init__(
        self, q: Question, kinds: list[Kind], left: list[int], right: list[int], runs: Runs, *, upper: bool
    ) -> None:
        self.q, self.kinds, self.runs = q, kinds, runs
        first, other = kinds[left[0]], kinds[right[0]]
        limits = first.instance.limits
        self.slo = runs.tightened(first, form="split", other=other) if upper else q.goals.slo
        self.sums = runs.sums(loads_of(q, 1)[0], limits.caching, limits.step_tokens)
        chunks, batches = q.wanted.space.max_num_batched_tokens, q.wanted.space.max_num_seqs
        self.prompts: dict[tuple[int, int], Prompts] = {}
        self.answers: dict[tuple[int, int], Answers] = {}
        for i in left:
            for place in range(len(kinds[i].tokens)) if chunks else (kinds[i].usual_places()[1],):
                self.prompts[i, place] = _prompts(kinds[i], place, self.sums, self.slo)
        for i in right:
            for place in range(len(kinds[i].sequences)) if batches else (kinds[i].usual_places()[0],):
                self.answers[i, place] = _answers(kinds[i], place, self.sums, self.slo)
        limit = q.wanted.limits.devices or 10**9
        self.each = [min(limit, kind.place.cluster.num_devices) for kind in (first, other)]
        self.most = self.each[0] if first.place is other.place else min(limit, sum(self.each))
        self.price = [kind.place.price or np.nan for kind in (first, other)]
        self.idle_w = [idle_w_of(kind) for kind in (first, other)]

    def columns(self, each: tuple[float, ...] | None) -> Iterator[Columns]:
        """By the devices of an instance of either pool."""
        left: dict[int, list[tuple[int, int]]] = defaultdict(list)
        right: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for side, of in ((left, [*self.prompts]), (right, [*self.answers])):
            for key in of:
                side[self.kinds[key[0]].devices].append(key)
        load = loads_of(self.q, self.most) if each is None else each
        if each is not None and self.q.load == "concurrency":
            load = tuple(sorted({float(max(round(c * self.most), 1)) for c in each}))
        if self.q.load == "concurrency":
            load = tuple(c for c in load if c <= (self.q.serving.traffic.num_requests or 10**9))
        for a, prompts in left.items():
            for b, answers in right.items():
                if a <= self.each[0] and b <= self.each[1] and a + b <= self.most and load:
                    yield self._of(a, prompts, b, answers, np.array(load))

    def _of(self, a: int, left: list[tuple[int, int]], b: int, right: list[tuple[int, int]], loads: Floats) -> Columns:
        """Pairs of prompt pools of `a` devices an instance and answer pools of `b`: kind and place of its limit."""
        q, sums, slo = self.q, self.sums, self.slo
        whole = [(x, y) for x in left for y in right]
        pair = np.array([(x[0], y[0]) for x, y in whole])
        xs, ys = np.meshgrid(np.arange(1, self.each[0] // a + 1), np.arange(1, self.each[1] // b + 1), indexing="ij")
        fit = xs * a + ys * b <= self.most
        x, y = xs[fit], ys[fit]
        p, n, m = shape = len(pair), len(x), len(loads)
        prompts, answers = [self.prompts[x] for x, _ in whole], [self.answers[y] for _, y in whole]
        lanes_x = x[None, :] * np.array([self.kinds[i].lanes for i in pair[:, 0]])[:, None]
        lanes_y = y[None, :] * np.array([self.kinds[j].lanes for j in pair[:, 1]])[:, None]
        busy = np.array([s.busy_s for s in prompts])
        weights, rest = np.stack([s.weights for s in answers]), np.array([s.rest_s for s in answers])
        decode, needed, output = float(sums.decode.sum()), sums.least(sums.decode), sums.output_tokens
        tau = step_limit_s(sums, slo)
        bent = np.maximum(weights - MU * tau, 0.0).max(axis=1) if np.isfinite(tau) else weights[:, 0]
        work = bent * needed + weights[:, 0] * (decode - needed) + rest
        rate = np.minimum(output * lanes_x / busy[:, None], output * lanes_y / np.maximum(work, 1e-12)[:, None])
        most = np.repeat(rate[:, :, None], m, axis=2)
        impossible = np.zeros(shape, np.int64)
        able = np.array([s.able for s in prompts]) & np.array([s.able for s in answers])
        impossible[~able] = TOO_SLOW
        if q.load == "concurrency":
            first = np.array([s.first_s for s in prompts])
            least_work = weights * decode + rest[:, None] + MU * first[:, None]  # (p, M)
            for k, mu in enumerate(MU):
                least = least_work[:, k, None, None] / (lanes_y[:, :, None] + mu * loads)
                most = np.minimum(most, output / np.maximum(least, 1e-12))
        elif q.load == "rate_per_s":
            span = np.array([self.runs.span_s(float(load)) for load in loads])
            with np.errstate(divide="ignore"):
                most = np.minimum(most, output / span)
            until = span + latest_s(sums, slo)
            late = (np.array([s.needed_s for s in prompts])[:, None] / lanes_x)[:, :, None] > until
            some = bent * needed + np.array([s.rest_needed_s for s in answers])
            late |= (some[:, None] / lanes_y)[:, :, None] > until
            impossible[late & (impossible == NOTHING)] = TOO_MUCH
        usual = np.array([(self.kinds[i].usual_places()[0], place) for (i, place), _ in whole])
        batch = np.array([place for _, (_, place) in whole])
        users = np.array([1.0 / s.user_s if s.user_s else np.inf for s in answers])
        devices = x * a + y * b
        estimate = self._estimates(whole, lanes_x, lanes_y, loads)
        price, idle = ((x * a * one[0] + y * b * one[1]) for one in (self.price, self.idle_w))
        one = np.ones(shape)
        return Columns.of(
            kind=pair[:, 0, None, None] * one,
            sequences=usual[:, 0, None, None] * one,
            tokens=usual[:, 1, None, None] * one,
            replicas=x[None, :, None] * one,
            load=loads * one,
            group=np.arange(p * n).reshape(p, n, 1) * one,
            tokens_per_s=most * (1 + 1e-9),
            user_tokens_per_s=users[:, None, None] * one,
            impossible=impossible,
            estimate=estimate,
            devices=devices[None, :, None] * one,
            price=(price / devices)[None, :, None] * one,
            least_w=idle[None, :, None] * one,
            answers=pair[:, 1, None, None] * one,
            answering=y[None, :, None] * one,
            answer_sequences=batch[:, None, None] * one,
            requests_per_token=sums.count / output * one,
        )

    def _estimates(
        self, whole: list[tuple[tuple[int, int], tuple[int, int]]], lanes_x: Ints, lanes_y: Ints, loads: Floats
    ) -> Floats:
        """(3, p, n, m): seconds of TTFT and TPOT, tokens a second."""
        q, sums = self.q, self.sums
        out = np.empty((3, *lanes_x.shape, len(loads)))
        answer = sums.output_tokens / sums.count
        for k, ((i, t), (j, s)) in enumerate(whole):
            x, y = lanes_x[k][:, None], lanes_y[k][:, None]
            left, right = self.kinds[i], self.kinds[j]
            most = float(right.lane_sequences()[s])
            if q.load == "concurrency":
                token, made = decoding(right, sums, most, in_flight=loads / y)
                rate = np.minimum(made * y, answer * x * sums.count / self.prompts[i, t].busy_s)
            else:
                open_s = loads if q.load == "rate_per_s" else np.full(len(loads), sums.count / max(sums.span_s, 1e-9))
                token, made = decoding(right, sums, most, rate=open_s / y)
                rate = np.minimum(made * y, answer * open_s)
            out[0, k] = prompting(left, sums, rate / answer / x)
            out[1, k], out[2, k] = token, rate
        return out
