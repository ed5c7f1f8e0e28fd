"""Where a deployment settles, in closed form: an estimate that orders candidates and draws those not simulated.

A lane decodes b sequences at once and each iteration computes as many prompt tokens as keeps b full: c = b · prompt /
answer. Then b = requests a second · answer · seconds of an iteration (open), or b is what is in flight (closed).
Waiting follows the Pollaczek–Khinchine formula for the prompts of one lane. No estimate discards anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.planner.serving.bounds import Sums
from windtunnel.planner.serving.kinds import Kind

Floats = npt.NDArray[np.float64]
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
    kind: Kind, sums: Sums, sequences: Floats, tokens: Floats, *, rate: Floats | None, in_flight: Floats | None
) -> Settled:
    """Steady states of one lane.

    Args:
        kind: of instance.
        sums: of the traffic.
        sequences: (S,) limits.
        tokens: (T,) limits.
        rate: (L,) requests a second that come to one lane; or
        in_flight: (L,) requests in flight on one lane.
    """
    m, limits = kind.iteration, kind.instance.limits
    prompt, answer = float(sums.prompt.mean()), max(float(sums.decode.mean()) * sums.step, 1.0)
    pace = limits.tokens_per_step / 1e6
    cached = float(sums.input.mean()) + 0.5 * answer
    pairs = float(sums.pairs.mean()) / prompt
    held = limits.blocks * limits.block / max(cached, 1.0)
    most = np.minimum(sequences, max(held, 1.0))[:, None, None]
    cap = tokens[None, :, None]

    def seconds(b: Floats, c: Floats) -> Floats:
        n = b * limits.step_tokens + c
        t = np.interp(n, m.linear.tokens, m.linear.seconds) + m.base_s
        t = t + b * (m.per_sequence_s + cached * m.decode_kv_s) + c * (pairs * m.prefill_pair_s + m.prefill_token_s)
        return np.asarray(t)

    def turn(b: Floats) -> Floats:
        """Seconds between two tokens of a request at b sequences: the step, and its share of prompts."""
        c = b * prompt / answer * pace
        often = np.minimum(c / np.minimum(prompt, np.maximum(cap - b, 1.0)), 1.0)
        return seconds(b, c) + often * m.prefill_extra_s

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
    first = chunks * (seconds(b, np.minimum(room, prompt)) + m.prefill_extra_s)
    busy = np.minimum(b / answer / t * first, 0.98)
    wait = np.where(full > 1, np.inf, busy / (2.0 * (1.0 - busy)) * first)
    if in_flight is not None:
        wait = np.where(full > 1, (full - 1) * answer * t, 0.5 * first)
    return Settled(first + wait + m.request_s, t, b / t, full)
