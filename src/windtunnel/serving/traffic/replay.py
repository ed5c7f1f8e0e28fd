"""A trace as requests: at its own times, or at those of the scenario's arrival process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Int32s
from windtunnel.errors import BadInput, Problem
from windtunnel.importers.traces import Options, RequestTrace, read_trace
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.traffic import lengths, sessions
from windtunnel.serving.traffic.session_groups import continued
from windtunnel.serving.traffic.single_source import FIELD, Traffic, sent, share, with_prefix
from windtunnel.specs.traffic import TrafficSpec


def replay(spec: TrafficSpec, seed: int, folder: Path | None) -> Traffic:
    """Requests of `spec.trace`.

    With rate_per_s, concurrency or offline the trace gives lengths in its order and the scenario the arrivals;
    otherwise the trace's own times hold, divided by `time_scale`. A file without times falls back to how its benchmark
    says that it sent requests.

    Raises:
        BadInput: the trace cannot be read, or the settings ask for what it does not have.
    """
    assert spec.trace is not None
    path = Path(spec.trace) if folder is None else folder / spec.trace
    options = Options(spec.trace_time_unit, spec.trace_block_size, spec.trace_characters_per_token)
    trace = read_trace(path, spec.trace_format, options)
    assumed = list(trace.assumed)
    own = spec.rate_per_s is None and spec.concurrency is None and not spec.offline
    if own and trace.arrival_s is None and trace.stated:
        spec = spec.model_copy(update=trace.stated)
        own = False
        assumed += [(f"{FIELD}.{name}", value, f"{trace.file} says so") for name, value in trace.stated.items()]
    _allowed(spec, trace, own)
    count = min(spec.num_requests or len(trace), len(trace)) if own else spec.num_requests or len(trace)
    picked = np.arange(count) % len(trace)
    if count > len(trace):
        why = f"the trace has {len(trace)} requests, which come again in the same order"
        assumed.append((f"{FIELD}.num_requests", count, why))
    inputs, outputs = trace.input_tokens[picked], trace.output_tokens[picked]
    blocks = trace.blocks
    if spec.input_tokens is not None:
        inputs = lengths.draw(spec.input_tokens, count, seed, lengths.INPUT)
        if blocks is not None:
            why = "input_tokens replaces the prompts that the trace's hashes describe"
            assumed.append((f"{FIELD}.trace", "without prefix hashes", why))
            blocks = None
    if spec.output_tokens is not None:
        outputs = lengths.draw(spec.output_tokens, count, seed, lengths.OUTPUT)
    if spec.input_tokens is not None or spec.output_tokens is not None:
        inputs, outputs = lengths.pair(inputs, outputs, spec.correlation, seed)
    if (outputs == 0).any():
        rule = f"is required: {(outputs == 0).sum()} requests of {trace.file} do not say how long answers are"
        raise BadInput(Problem(f"{FIELD}.output_tokens", rule))
    if trace.turn is not None:
        requests = _conversations(spec, seed, trace, inputs, outputs, own)
    else:
        requests = _alone(spec, seed, trace, inputs, outputs, picked, own)
        if blocks is not None:
            requests.prefix_blocks = blocks if len(requests) == len(blocks) else blocks.take(len(requests))
            known = requests.prefix_blocks.known() * blocks.block_size
            requests.prefix_tokens = np.minimum(known, requests.input_tokens - 1).astype(np.int32)
            requests.group = continued(requests.prefix_blocks, requests.input_tokens)
    if spec.shared_prefix_tokens:
        first = np.ones(len(requests), np.bool_) if trace.turn is None else trace.turn[: len(requests)] == 0
        requests.input_tokens, more = with_prefix(requests.input_tokens, first, spec)
        assumed += more
        share(requests, first, spec.shared_prefix_tokens)
    return Traffic(requests, spec, spec.concurrency or 0, spec.warmup_requests, tuple(assumed), trace)


def _allowed(spec: TrafficSpec, trace: RequestTrace, own: bool) -> None:
    """Refuse settings that this trace gives no meaning to."""
    problems = []

    def refuse(name: str, rule: str, value: Any) -> None:
        problems.append(Problem(f"{FIELD}.{name}", rule, value))

    if own and trace.arrival_s is None:
        rule = f"or concurrency or offline: true is required: {trace.file} has no arrival times"
        problems.append(Problem(f"{FIELD}.rate_per_s", rule))
    if spec.sessions is not None:
        refuse("sessions", "is not read with a trace, which has its own conversations or none", spec.trace)
    if not own and spec.time_scale != 1:
        refuse(
            "time_scale",
            "scales a trace's own times; leave it out with rate_per_s, concurrency, offline",
            spec.time_scale,
        )
    if spec.correlation and spec.input_tokens is None and spec.output_tokens is None:
        refuse(
            "correlation", "is the trace's own; leave it out, or give input_tokens or output_tokens", spec.correlation
        )
    if trace.turn is not None and (spec.input_tokens is not None or spec.shared_prefix_tokens):
        refuse(
            "input_tokens" if spec.input_tokens is not None else "shared_prefix_tokens",
            "is not read with a trace of conversations",
            spec.trace,
        )
    if trace.blocks is not None and spec.shared_prefix_tokens:
        refuse("shared_prefix_tokens", "is not read with a trace with prefix hashes", spec.shared_prefix_tokens)
    wanted = spec.num_requests or 0
    if wanted > len(trace) and (own or trace.blocks is not None or trace.turn is not None):
        what = "the requests of the trace" if own else "those of a trace whose prompts are related"
        refuse("num_requests", f"must be at most {len(trace)}, {what}", wanted)
    if problems:
        raise BadInput(problems)


def _alone(
    spec: TrafficSpec, seed: int, trace: RequestTrace, inputs: Int32s, outputs: Int32s, picked: Any, own: bool
) -> Requests:
    """Requests that do not wait for each other."""
    if own:
        assert trace.arrival_s is not None
        at_s: Floats = trace.arrival_s[picked] / spec.time_scale
        at_s = at_s if spec.duration_s is None else at_s[at_s < spec.duration_s]
    else:
        at_s = sent(spec, seed, len(inputs), 1.0)
    count = len(at_s)
    groups = np.arange(count) if trace.session is None else trace.session[picked[:count]]
    return Requests(
        arrival_s=at_s,
        input_tokens=inputs[:count].copy(),
        output_tokens=outputs[:count].copy(),
        group=groups.astype(np.int32),
    )


def _conversations(
    spec: TrafficSpec, seed: int, trace: RequestTrace, inputs: Int32s, outputs: Int32s, own: bool
) -> Requests:
    """Turns, each prompt holding those before; a turn without a time of its own follows the one before."""
    assert trace.turn is not None and trace.session is not None
    turns = sessions.Turns(trace.session[: len(inputs)], trace.turn[: len(inputs)])
    if own:
        assert trace.arrival_s is not None
        arrival_s = trace.arrival_s[: len(inputs)] / spec.time_scale
        starts = np.repeat(arrival_s[turns.heads], np.diff(np.append(turns.heads, len(inputs))))
        late = np.where(np.isnan(arrival_s), starts, arrival_s) >= (spec.duration_s or np.inf)
    else:
        each = len(inputs) / max(len(turns.heads), 1)
        heads_s = sent(spec, seed, len(turns.heads), each)
        arrival_s = np.full(len(inputs), np.nan)
        arrival_s[turns.heads[: len(heads_s)]] = heads_s
        late = np.repeat(np.arange(len(turns.heads)) >= len(heads_s), np.diff(np.append(turns.heads, len(inputs))))
    turns = replace(turns, session=turns.session[~late], turn=turns.turn[~late])
    arrival_s, inputs, outputs = arrival_s[~late], inputs[~late], outputs[~late]
    whole, history = sessions.prompts(turns, inputs, outputs)
    before = np.zeros(len(turns.turn)) if trace.delay_s is None else trace.delay_s[: len(late)][~late]
    follow, delay = turns.follow(), turns.delay_s(before)
    timed = np.flatnonzero(follow >= 0)
    timed = timed[~np.isnan(arrival_s[follow[timed]])] if own else timed[:0]
    follow[timed], delay[timed] = -1, 0.0
    return Requests(
        arrival_s=arrival_s,
        input_tokens=whole,
        output_tokens=outputs,
        group=turns.session.astype(np.int32),
        follow=follow,
        delay_s=delay,
        prefix_tokens=history,
    )
