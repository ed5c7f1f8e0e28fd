"""Where a deployment settles, in closed form: an estimate that orders candidates and draws those not simulated.

A lane decodes b sequences at once and each iteration computes as many prompt tokens as keeps b full: c = b · prompt /
answer. Then b = requests a second · answer · seconds of an iteration (open), or b is what is in flight (closed).
Waiting follows the Pollaczek–Khinchine formula for the prompts of one lane. No estimate discards anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.planner.serving.bounds import Sums
from windtunnel.planner.serving.instance_types import InstanceType

STEPS = 24


@dataclass(frozen=True, slots=True)
class Settled:
    """Arrays (S, T, L): seconds, and tokens put out a second by one lane."""

    ttft_s: Floats
    tpot_s: Floats
    tokens_per_s: Floats
    full: Floats
    """Sequences at once over what limits and cache allow; above 1 the line grows."""


def settled(
    kind: InstanceType, sums: Sums, sequences: Floats, tokens: Floats, *, rate: Floats | None, in_flight: Floats | None
) -> Settled:
    """Steady states of one lane that computes prompts and answers.

    Args:
        kind: of instance.
        sums: of the traffic.
        sequences: (S,) limits.
        tokens: (T,) limits.
        rate: (L,) requests a second that come to one lane; or
        in_flight: (L,) requests in flight on one lane.
    """
    mean = _Mean(kind, sums)
    limits = kind.instance.limits
    prompt, answer, pace = mean.prompt, mean.answer, mean.pace
    most = np.minimum(sequences, max(mean.held, 1.0))[:, None, None]
    cap = tokens[None, :, None]

    def turn(b: Floats) -> Floats:
        """Seconds between two steps at b sequences: the step, and its share of prompts."""
        c = b * prompt / answer * pace
        often = np.minimum(c / np.minimum(prompt, np.maximum(cap - b, 1.0)), 1.0)
        plain = mean.seconds(b, c)
        return np.asarray(plain + often * np.maximum(mean.floor_s - plain, 0.0))

    if in_flight is not None:
        b = np.minimum(in_flight[None, None, :] + 0.0 * cap, most)
        full = in_flight[None, None, :] / most + 0.0 * cap
    else:
        assert rate is not None
        b = np.ones((len(sequences), len(tokens), len(rate)))
        for _ in range(STEPS):
            b = np.clip(rate[None, None, :] * answer * turn(b) / pace, 1e-3, most)
        full = rate[None, None, :] * answer * turn(most + 0.0 * b) / pace / most
    t = turn(b) / pace
    room = np.maximum(cap - b, 1.0) if limits.chunked else np.full_like(b, prompt)
    chunks = np.ceil(prompt / np.minimum(room, prompt))
    first = chunks * np.maximum(mean.seconds(b, np.minimum(room, prompt)), mean.floor_s)
    wait = np.where(full > 1, np.inf, _wait(b / answer / t, first))
    if in_flight is not None:
        wait = np.where(full > 1, (full - 1) * answer * t, 0.5 * first)
    return Settled(first + wait + kind.iteration.request_s, t, b / t, full)


class _Mean:
    """The mean request of a traffic on a kind of instance."""

    def __init__(self, kind: InstanceType, sums: Sums) -> None:
        limits = kind.instance.limits
        self.kind, self.step = kind, limits.step_tokens
        self.pace = limits.tokens_per_step / 1e6
        self.prompt = float(sums.prompt.mean())
        self.answer = max(float(sums.decode.mean()) * sums.step, 1.0)
        self.cached = float(sums.input.mean()) + 0.5 * self.answer
        self.pairs = float(sums.pairs.mean()) / self.prompt
        self.floor_s = kind.iteration.prefill_floor_s if self.prompt > limits.captured else 0.0
        """Least of an iteration with prompts."""
        self.held = limits.blocks / kind.lanes * limits.block / max(self.cached, 1.0)
        """Sequences that the cache of a lane holds."""

    def seconds(self, b: Floats, c: Floats | float) -> Floats:
        """An iteration with b decoding sequences and c tokens of prompts."""
        m = self.kind.iteration
        t = np.interp(b * self.step + c, m.linear.tokens, m.linear.seconds) + m.base_s
        t = t + b * (m.per_sequence_s + self.cached * m.decode_kv_s)
        return np.asarray(t + c * (self.pairs * m.prefill_pair_s + m.prefill_token_s))


def _wait(rate: Floats, each_s: Floats) -> Floats:
    """Mean wait in line of a server whose jobs all take as long."""
    busy = np.minimum(rate * each_s, 0.98)
    return np.asarray(busy / (2.0 * (1.0 - busy)) * each_s)


def decoding(
    kind: InstanceType, sums: Sums, most: float, *, rate: Floats | None = None, in_flight: Floats | None = None
) -> tuple[Floats, Floats]:
    """Seconds a token and tokens a second of a lane that decodes up to `most` sequences and nothing else.

    Rates or requests in flight may have any shape.
    """
    mean = _Mean(kind, sums)
    most = max(min(most, mean.held), 1.0)
    if in_flight is not None:
        b = np.clip(in_flight, 1e-3, most)
    else:
        assert rate is not None
        b = np.ones(np.shape(rate))
        for _ in range(STEPS):
            b = np.clip(rate * mean.answer * mean.seconds(b, 0.0) / mean.pace, 1e-3, most)
    t = mean.seconds(b, 0.0) / mean.pace
    return t, b / t


def prompting(kind: InstanceType, sums: Sums, rate: Floats) -> Floats:
    """Seconds to the first token of a lane that computes prompts alone, in turn; infinite past its limit."""
    mean = _Mean(kind, sums)
    each = max(float(mean.seconds(np.zeros(1), mean.prompt)[0]), mean.floor_s)
    out = each + _wait(rate, np.full(np.shape(rate), each)) + kind.iteration.request_s
    return np.where(rate * each > 1.0, np.inf, out)
