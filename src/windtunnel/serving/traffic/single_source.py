"""Requests of one sender, from distributions, and the steps of that which other kinds of traffic share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Int32s
from windtunnel.errors import BadInput, Problem
from windtunnel.importers.traces.record import RequestTrace
from windtunnel.machine_memory import require_bytes
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.traffic import lengths, sessions
from windtunnel.serving.traffic.arrivals import BYTES_A_REQUEST, arrivals
from windtunnel.specs.lengths import Lengths
from windtunnel.specs.traffic import TrafficSpec

FIELD = "serving.traffic"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests and how they are sent."""

    requests: Requests
    spec: TrafficSpec
    """As it was used: a file without times adds how its benchmark sent requests."""
    concurrency: int = 0
    """Closed loop: how many are in flight (`Limits.concurrency`); 0: they come when `arrival_s` says."""
    warmup_requests: int = 0
    """First requests, in the order of sending, that metrics leave out."""
    assumed: tuple[tuple[str, Any, str], ...] = ()
    """Field, value, why."""
    trace: RequestTrace | None = None
    """What was read, with times as measured where the file has them."""


def drawn_alone(spec: TrafficSpec, seed: int) -> Traffic:
    """Requests of one tenant, from distributions."""
    assert spec.input_tokens is not None and spec.output_tokens is not None
    turns, arrival_s = _sent(spec, seed)
    count = len(arrival_s)
    inputs = lengths.draw(spec.input_tokens, count, seed, lengths.INPUT)
    outputs = lengths.draw(spec.output_tokens, count, seed, lengths.OUTPUT)
    inputs, outputs = lengths.pair(inputs, outputs, spec.correlation, seed)
    first = np.ones(count, np.bool_) if turns is None else turns.turn == 0
    inputs, assumed = with_prefix(inputs, first, spec)
    if turns is None or spec.sessions is None:
        requests = Requests(
            arrival_s=arrival_s, input_tokens=inputs, output_tokens=outputs, group=np.arange(count, dtype=np.int32)
        )
    else:
        whole, history = sessions.prompts(turns, inputs, outputs)
        pause = turns.delay_s(sessions.think_s(spec.sessions, count, seed))
        requests = Requests(
            arrival_s=arrival_s,
            input_tokens=whole,
            output_tokens=outputs,
            group=turns.session.astype(np.int32),
            follow=turns.follow(),
            delay_s=pause,
            prefix_tokens=history,
        )
    share(requests, first, spec.shared_prefix_tokens)
    return Traffic(requests, spec, spec.concurrency or 0, spec.warmup_requests, assumed)


def _sent(spec: TrafficSpec, seed: int) -> tuple[sessions.Turns | None, Floats]:
    """Turns (None without sessions) and when each request is sent; nan where that is not known before."""
    if spec.sessions is None:
        return None, sent(spec, seed, spec.num_requests, 1.0)
    if spec.num_requests is not None:
        turns = sessions.split(spec.sessions, seed, requests=spec.num_requests)
        at_s = sent(spec, seed, len(turns.heads), _mean_turns(spec, seed))
        if len(at_s) < len(turns.heads):
            inside = turns.session < len(at_s)
            turns = sessions.Turns(turns.session[inside], turns.turn[inside])
    else:
        at_s = sent(spec, seed, None, _mean_turns(spec, seed))
        turns = sessions.split(spec.sessions, seed, sessions=len(at_s))
    arrival_s = np.full(len(turns.turn), np.nan)
    arrival_s[turns.heads] = at_s
    return turns, arrival_s


def sent(spec: TrafficSpec, seed: int, count: int | None, requests_each: float) -> Floats:
    """When requests (or the first turns of sessions) are sent; nan in a closed loop, 0 offline.

    Args:
        spec: rate, concurrency or offline.
        seed: of the traffic.
        count: how many; None: as many as come within `duration_s`.
        requests_each: requests that each one brings, so that requests keep `rate_per_s`.
    """
    if spec.rate_per_s is not None:
        return arrivals(spec, spec.rate_per_s / requests_each, count, seed)
    assert count is not None
    require_bytes(BYTES_A_REQUEST * count, f"{FIELD}.num_requests", f"{count:,} requests")
    return np.full(count, np.nan) if spec.concurrency else np.zeros(count)


def with_prefix(inputs: Int32s, first: Any, spec: TrafficSpec) -> tuple[Int32s, tuple[tuple[str, Any, str], ...]]:
    """Prompts long enough for the prefix that all share and one token of their own, and what had to be changed."""
    least = spec.shared_prefix_tokens + 1
    short = first & (inputs < least)
    if least == 1 or not short.any():
        return inputs, ()
    if isinstance(spec.input_tokens, int) or (isinstance(spec.input_tokens, Lengths) and short.all()):
        rule = f"must be below input_tokens, which count the shared prefix too; at most {inputs.max() - 1}"
        raise BadInput(Problem(f"{FIELD}.shared_prefix_tokens", rule, spec.shared_prefix_tokens))
    why = f"{short.sum()} of {first.sum()} prompts were drawn shorter than the shared prefix and one token"
    return np.where(short, least, inputs).astype(np.int32), ((f"{FIELD}.input_tokens.min", least, why),)


def share(requests: Requests, first: Any, shared: int) -> None:
    """Mark the prefix that all prompts share, save for the one that is sent first."""
    if shared == 0 or not len(requests):
        return
    requests.prefix_tokens = np.where(first, shared, requests.prefix_tokens).astype(np.int32)
    requests.prefix_tokens[requests.order()[0]] = 0


def _mean_turns(spec: TrafficSpec, seed: int) -> float:
    assert spec.sessions is not None
    return lengths.mean_of(spec.sessions.turns, seed, lengths.TURNS)
