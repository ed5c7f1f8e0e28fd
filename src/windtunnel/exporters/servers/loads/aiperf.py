"""`aiperf profile`: replays the very requests from a file, or draws them where its laws are the scenario's.

Sources: options, `flags/aiperf-<version>.yaml`; the file's fields, `aiperf/dataset/loader/models.py` (MooncakeTrace).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.exporters.servers.loads.base import (
    BLOCK,
    LOADS,
    REQUESTS,
    Generator,
    Load,
    Target,
    as_lines,
    count_of,
    requests_of,
    span,
    waits,
)

if TYPE_CHECKING:
    from windtunnel.specs.traffic import TrafficSpec

PATTERNS = {"poisson": "poisson", "gamma": "gamma", "constant": "constant"}
WORDS = {"ttft_s": "time_to_first_token", "tpot_s": "inter_token_latency", "e2e_s": "request_latency"}
"""Objective → aiperf's metric. Its inter-token latency is (latency − TTFT) / (tokens − 1), a request's TPOT here."""


def write(target: Target) -> Load:
    """The command that sends a scenario's traffic."""
    serving, spec = target.deployed.serving, target.deployed.serving.traffic
    load = Load(known=target.known, program="aiperf profile", model=target.model, port=target.port)
    load.set("--model", '"$MODEL"')
    load.set("--url", '"http://$HOST:$PORT"')
    load.set("--endpoint-type", "completions" if spec.sessions is None else "chat")
    if serving.streaming:
        load.set("--streaming")
    prompt, answer = span(spec.input_tokens), span(spec.output_tokens)
    traffic = requests_of(target.deployed)
    fixed = bool(prompt and answer and prompt[0] == prompt[1] and answer[0] == answer[1])
    drawn = spec.trace is None and spec.sessions is None and fixed and spec.correlation == 0 and not spec.trajectories
    chained = waits(traffic, load)
    if drawn and (spec.process in PATTERNS or spec.concurrency or spec.offline):
        assert prompt is not None
        assert answer is not None
        load.set("--isl", prompt[0] - spec.shared_prefix_tokens)
        load.set("--osl", answer[0])
        if spec.shared_prefix_tokens:
            load.set("--shared-system-prompt-length", spec.shared_prefix_tokens)
        load.set("--request-count", count_of(spec, traffic))
        _arrivals(spec, traffic.concurrency, load)
    else:
        load.set("--input-file", f'"$HERE/{REQUESTS}"')
        load.set("--custom-dataset-type", "mooncake_trace")
        load.files[REQUESTS] = as_lines(traffic, load)
        if traffic.concurrency:
            load.set("--concurrency", traffic.concurrency)
        elif spec.offline or chained:
            load.set("--concurrency", count_of(spec, traffic))
        else:
            load.set("--fixed-schedule")
        if spec.sessions is None:
            load.set("--isl-block-size", BLOCK)
        else:
            load.notes.append("a turn follows the one before when that has ended, after its pause; histories grow")
    load.set("--extra-inputs", "ignore_eos:true")
    load.set("--random-seed", spec.seed)
    if spec.warmup_requests:
        load.set("--warmup-request-count", spec.warmup_requests)
        load.notes.append("warm-up requests are sent before the others, not the first of them")
    goals = [f"{word}:{float(value) * 1e3:g}" for name, word in WORDS.items() if (value := getattr(serving.slo, name))]
    if goals:
        load.set("--goodput", " ".join(goals))
    return load


def _arrivals(spec: TrafficSpec, concurrency: int, load: Load) -> None:
    if concurrency:
        load.set("--concurrency", concurrency)
    elif spec.offline or spec.rate_per_s is None:
        load.set("--concurrency", spec.num_requests or 1)
    else:
        load.set("--request-rate", f"{spec.rate_per_s:g}")
        load.set("--arrival-pattern", PATTERNS[spec.process])
        if spec.process == "gamma":
            load.set("--arrival-smoothness", f"{spec.burstiness:g}")


LOADS.add("aiperf", Generator("aiperf", write))
