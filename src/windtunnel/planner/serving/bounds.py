"""What no run of a deployment can beat, from the iteration model and the requests alone.

Three facts hold for every order in which an instance may serve its requests:

* A request alone is fastest: its prompt takes at least its tokens times the least seconds a token of any batch that the
  limits allow, and each of its answer's tokens at least an iteration of one token that reads its own cache.
* Work takes time. Over all iterations with b decoding sequences and n tokens, let weights α and β satisfy
  α·b + β·(n − b) ≤ t(b, n)·(1 + μ·b) for every batch that the limits allow. Then the iterations of a run last at least
  α·D + β·P − μ·Σ b·t, where D and P are the tokens to decode and to prompt, and Σ b·t is the time that requests spend
  decoding, all together. That is a linear programme's dual: any μ, β ≥ 0 give a bound, and the best of a few is taken.
* Σ b·t is at most what the objective allows (TPOT · tokens of those that must keep it) and, in a closed loop, the
  requests in flight times the duration.

Attention of prompts and of decode steps is linear in sums that do not depend on the order, and is added whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Mask
from windtunnel.planner.serving.instance_types import InstanceType
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.specs.serving import SloSpec

MU = np.concatenate([[0.0], 2.0 ** np.arange(-11.0, 2.0)])
"""Multipliers of time spent decoding, per sequence."""
SHARES = np.array([0.25, 0.5, 0.7, 0.85, 0.95, 1.0])
"""β as shares of the least seconds of a prompt's token."""
_SAFE = 1.0 - 1e-9
"""Rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What the requests of a traffic ask for; N of them."""

    count: int
    needed: int
    """Requests that must keep the objective."""
    prompt: Floats
    """(N,) tokens to compute of each prompt, at least."""
    pairs: Floats
    input: Floats
    decode: Floats
    """(N,) steps that each answer takes after its first token, at least."""
    kv: Floats
    """(N,) cached tokens that its decode steps read, in all."""
    output_tokens: float
    span_s: float
    """Between the first and the last arrival; 0 in a closed loop."""
    least_input: float
    warmup: int
    step: float
    """Most tokens that a sequence makes in a step: above one where tokens are drafted."""

    @classmethod
    def of(cls, requests: Requests, slo: SloSpec, warmup: int, *, caching: bool, step: int = 1) -> Sums:
        """Sums of a traffic, whose first `warmup` requests need not keep the objective."""
        length = requests.input_tokens.astype(np.float64)
        known = requests.prefix_tokens if caching else np.zeros(len(requests))
        prompt = np.maximum(length - known, 1.0)
        more = np.maximum(requests.output_tokens - 1.0, 0.0) / step
        arrival = requests.arrival_s[np.isfinite(requests.arrival_s)]
        span = float(arrival.max() - arrival.min()) if len(arrival) else 0.0
        return cls(
            count=len(requests),
            needed=int(np.ceil(slo.percentile * (len(requests) - warmup) - 1e-9)),
            prompt=prompt,
            pairs=prompt * (length - prompt) + 0.5 * prompt**2,
            input=length,
            decode=more,
            kv=more * (length + 1.0 + 0.5 * (more - 1.0)),
            output_tokens=float(requests.output_tokens.sum()),
            span_s=span,
            least_input=float(length.min()),
            warmup=warmup,
            step=float(step),
        )

    def least(self, values: Floats) -> float:
        """Sum of the smallest `needed` of (N,) values."""
        return float(np.partition(values, self.needed - 1)[: self.needed].sum()) if self.needed else 0.0


def first_token_s(kind: InstanceType, sums: Sums, limit: float) -> Floats:
    """(N,) least seconds to each request's first token, on an instance of its own.

    Args:
        kind: of instance.
        sums: of the traffic.
        limit: of an iteration's tokens, of all ranks together.
    """
    m = kind.iteration
    per_token = kind.token_s(max(int(sums.prompt.max()), int(limit)) + 1)
    cap = np.minimum(sums.prompt, limit if kind.instance.limits.chunked else np.inf).astype(np.int64)
    once = m.per_sequence_s + sums.pairs * m.prefill_pair_s + sums.prompt * m.prefill_token_s
    computed = np.maximum(sums.prompt * per_token[cap - 1] + once, _floor_s(kind))
    return np.asarray(computed + m.request_s) * _SAFE


def _floor_s(kind: InstanceType) -> float:
    """Least of any iteration with prompts; 0 where short ones run captured graphs."""
    return 0.0 if kind.instance.limits.captured else kind.iteration.prefill_floor_s


def light(kind: InstanceType, sums: Sums, slo: SloSpec, tokens: Floats) -> tuple[Floats, float]:
    """How many requests could keep the objective, each on an instance of its own, at each token limit; median TPOT.

    Args:
        kind: of instance.
        sums: of the traffic.
        slo: the objective.
        tokens: (T,) limits of an iteration's tokens, of all ranks together.
    """
    m = kind.iteration
    cached = sums.input + 1.0 + 0.5 * np.maximum(sums.decode - 1.0, 0.0)
    one = (kind.step_s + m.per_sequence_s + m.decode_kv_s * cached) * _SAFE
    counts = []
    for limit in tokens:
        ok = np.ones(sums.count, np.bool_)
        if slo.ttft_s is not None or slo.e2e_s is not None:
            first = first_token_s(kind, sums, float(limit))
            ok &= first <= (np.inf if slo.ttft_s is None else slo.ttft_s)
            if slo.e2e_s is not None:
                ok &= first + one * sums.decode <= slo.e2e_s
        if slo.tpot_s is not None:
            ok &= (one <= slo.tpot_s * sums.step) | (sums.decode == 0)
        counts.append(float(ok.sum()))
    some = np.sort(one[sums.decode > 0])
    middle = max(len(some) - sums.warmup - 1, 0) // 2  # any so many of them have no smaller median
    return np.array(counts), float(some[middle]) / sums.step if len(some) else 0.0


def _monotone(table: Floats) -> Floats:
    """The largest series below that never falls."""
    return np.asarray(np.minimum.accumulate(table[::-1])[::-1])


@dataclass(frozen=True, slots=True)
class Work:
    """Least seconds of one kind's iterations at each pair of batch limits. Arrays (S, T, M) over multipliers."""

    alpha: Floats
    """Seconds a decode token, (S, T, M, F)."""
    beta: Floats
    """Seconds a prompt token, (T, F)."""


def work(kind: InstanceType, sums: Sums, sequences: Floats, tokens: Floats) -> Work:
    """Weights α and β of a kind.

    Args:
        kind: of instance.
        sums: of the traffic.
        sequences: (S,) limits of one lane, of all ranks together.
        tokens: (T,) limits of an iteration's tokens.
    """
    m, limits = kind.iteration, kind.instance.limits
    longest = float(sums.input.max())
    most = tokens if limits.chunked else np.maximum(tokens, longest)
    most = np.maximum(most, sequences.max()) + (0.0 if limits.chunked else sequences.max())
    knots = np.unique(np.concatenate([m.linear.tokens.astype(np.float64), most]))
    seconds = _monotone(_seconds(kind, knots))
    each = m.per_sequence_s + m.decode_kv_s * (sums.least_input + 1.0)
    inside = knots[None, :] <= most[:, None]  # (T, K)
    least = np.where(inside, seconds[None, :] / knots[None, :], np.inf).min(axis=1)
    beta = least[:, None] * SHARES[None, :]  # (T, F)
    alpha = np.empty((len(sequences), len(tokens), len(MU), len(SHARES)))
    mixed = _MixedIterations.of(knots, seconds, each, beta)
    for i, cap in enumerate(sequences):
        value = mixed.least_s(float(cap), knots, inside)  # (M, T, F)
        decode = _decode_only(knots, seconds, each, MU, float(cap))  # (M,)
        alpha[i] = np.minimum(value, decode[:, None, None]).transpose(1, 0, 2)
    return Work(alpha, beta)


@dataclass(frozen=True, slots=True)
class _MixedIterations:
    """Iterations with prompts: of n tokens in all, b decode. A decode token takes X / b + Y + Z · b at least."""

    x: Floats
    """(T, F, K)."""
    y: Floats
    """(M, T, F, K)."""
    z: Floats
    """(M, 1, 1, 1)."""
    turn: Floats
    """(M, T, F, K): the b with the least seconds."""

    @classmethod
    def of(cls, knots: Floats, seconds: Floats, each: float, beta: Floats) -> _MixedIterations:
        """From seconds of iterations.

        Args:
            knots: (K,) tokens of an iteration.
            seconds: (K,) its seconds; the floor of iterations with prompts holds their sequences too: no bound adds
                both.
            each: seconds of one more sequence.
            beta: (T, F) seconds a prompt token.
        """
        x = np.maximum(seconds[None, None, :] - beta[:, :, None] * knots, 0.0)
        y = each + MU[:, None, None, None] * seconds + beta[None, :, :, None]
        z = (each * MU)[:, None, None, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            turn = np.where(z > 0, np.sqrt(x[None] / np.where(z > 0, z, 1.0)), np.inf)
        return cls(x, y, z, turn)

    def least_s(self, cap: float, knots: Floats, inside: Mask) -> Floats:
        """(M, T, F): least seconds a decode token with up to `cap` sequences; `inside` (T, K) are tokens allowed."""
        b = np.clip(self.turn, 1.0, np.minimum(cap, knots))
        value = np.where(inside[None, :, None, :], self.x[None] / b + self.y + self.z * b, np.inf)
        return np.asarray(value.min(axis=-1))


def decode_weights(kind: InstanceType, sums: Sums, cap: float) -> Floats:
    """(M,) least seconds a step of iterations that hold no prompts, of up to `cap` sequences, at each multiplier."""
    m = kind.iteration
    knots = np.unique(np.concatenate([m.linear.tokens.astype(np.float64), [cap]]))
    each = m.per_sequence_s + m.decode_kv_s * (sums.least_input + 1.0)
    return _decode_only(knots, _monotone(_seconds(kind, knots)), each, MU, cap) * _SAFE


def least_prompt_s(kind: InstanceType, sums: Sums, limit: float) -> float:
    """Least seconds a prompt's token of any iteration within a limit of tokens, attention apart."""
    cap = limit if kind.instance.limits.chunked else max(limit, float(sums.input.max()))
    table = _monotone(kind.tables(int(cap))[0])
    return float((np.maximum(table[1:], _floor_s(kind)) / np.arange(1, len(table))).min()) * _SAFE


def _seconds(kind: InstanceType, n: Floats) -> Floats:
    """The iteration's table at any number of tokens, beyond its end as the loop continues it."""
    linear, base = kind.iteration.linear, kind.iteration.base_s
    inside = np.interp(n, linear.tokens, linear.seconds)
    slope = (linear.seconds[-1] - linear.seconds[-2]) / max(linear.tokens[-1] - linear.tokens[-2], 1)
    return np.asarray(inside + np.maximum(n - linear.tokens[-1], 0.0) * max(slope, 0.0) * 0.5 + base)


def _decode_only(knots: Floats, seconds: Floats, each: float, mu: Floats, cap: float) -> Floats:
    """Least over b up to `cap` of (t(b) + each·b)·(1 + μ·b) / b, exact on each straight piece of the table."""
    low, high = knots[:-1], np.minimum(knots[1:], cap)
    slope = (seconds[1:] - seconds[:-1]) / (knots[1:] - knots[:-1])
    start = seconds[:-1] - slope * low
    use = low <= cap
    rise = (slope + each)[None, :]
    z = mu[:, None] * rise
    with np.errstate(divide="ignore", invalid="ignore"):
        turn = np.where(z > 0, np.sqrt(np.maximum(start, 0.0)[None, :] / np.where(z > 0, z, 1.0)), np.inf)
    best = np.full(len(mu), np.inf)
    for b in (low[None, :] + 0.0 * z, np.maximum(high, low)[None, :] + 0.0 * z, np.clip(turn, low, high)):
        value = start[None, :] / b + rise + mu[:, None] * start[None, :] + z * b
        best = np.minimum(best, np.where(use[None, :], value, np.inf).min(axis=1))
    return best


def attention_s(kind: InstanceType, sums: Sums) -> tuple[Floats, Floats]:
    """Seconds of prompts and of decode steps of each request that no batch shares: (N,) each."""
    m = kind.iteration
    prompt = sums.pairs * m.prefill_pair_s + sums.prompt * m.prefill_token_s
    decode = m.decode_kv_s * np.maximum(sums.kv - (sums.least_input + 1.0) * sums.decode, 0.0)
    return prompt, decode


def busy_s(kind: InstanceType, sums: Sums, w: Work, tpot_s: float) -> tuple[Floats, Floats]:
    """Least busy seconds of all lanes: to serve everything, and those that must keep the objective alone.

    Returns:
        Two arrays (S, T).

    Args:
        kind: of instance.
        sums: of the traffic.
        w: its weights.
        tpot_s: most seconds a step that the objective allows; infinite without it.
    """
    prompt_s, decode_s = attention_s(kind, sums)
    needed, rest = sums.least(sums.decode), 0.0
    rest = float(sums.decode.sum()) - needed
    with np.errstate(invalid="ignore"):
        bent = w.alpha - (MU * tpot_s)[None, None, :, None] if np.isfinite(tpot_s) else w.alpha[:, :, :1, :]
    bent = np.maximum(bent, 0.0)
    everything = bent * needed + w.alpha[:, :, :1, :] * rest + (w.beta * sums.prompt.sum())[None, :, None, :]
    some = bent * needed + (w.beta * sums.least(sums.prompt))[None, :, None, :]
    whole = everything.max(axis=(2, 3)) + float(prompt_s.sum() + decode_s.sum())
    part = some.max(axis=(2, 3)) + sums.least(prompt_s) + sums.least(decode_s)
    return whole * _SAFE, part * _SAFE


def closed_s(kind: InstanceType, sums: Sums, w: Work, in_flight: Floats, lanes: Floats, tokens: Floats) -> Floats:
    """Least duration of a closed loop: (S, T, C) for (C,) requests in flight on (C,) lanes.

    What is in flight waits for its first token or decodes; the first takes at least as long as each request alone.
    """
    first = np.array([(first_token_s(kind, sums, float(t)) - kind.iteration.request_s).sum() for t in tokens])
    prompt_s, decode_s = attention_s(kind, sums)
    alone = float(prompt_s.sum() + decode_s.sum())
    work_s = w.alpha * float(sums.decode.sum()) + (w.beta * sums.prompt.sum())[None, :, None, :] + alone
    best = work_s.max(axis=-1) + MU * first[None, :, None]  # (S, T, M)
    over = lanes[:, None] + MU[None, :] * in_flight[:, None]  # (C, M)
    return np.asarray((best[:, :, None, :] / over[None, None]).max(axis=-1)) * _SAFE


def step_limit_s(sums: Sums, slo: SloSpec) -> float:
    """Most seconds a step that the objective allows, on the mean of those that keep it."""
    out = slo.tpot_s * sums.step if slo.tpot_s is not None else np.inf
    if slo.e2e_s is not None:
        out = min(out, slo.e2e_s * sums.needed / max(sums.least(sums.decode), 1.0))
    return float(out)


def latest_s(sums: Sums, slo: SloSpec) -> float:
    """Seconds after its arrival by which a request that keeps the objective has ended."""
    out = slo.e2e_s if slo.e2e_s is not None else np.inf
    if slo.ttft_s is not None and slo.tpot_s is not None:
        out = min(out, slo.ttft_s + slo.tpot_s * sums.step * float(sums.decode.max()))
    return float(out)
