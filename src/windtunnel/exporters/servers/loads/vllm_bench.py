"""`vllm bench serve`: its random data set where lengths are fixed or even, its timed trace for anything else.

Sources: options, `flags/vllm_bench-<version>.yaml`; what they mean, `vllm/benchmarks/serve.py` and `datasets` of the
same releases: lengths are even over mean · (1 ± ratio), arrivals follow a Gamma law whose shape is the burstiness.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from windtunnel.exporters.servers.loads.base import (
    BLOCK,
    LOADS,
    MOST_REQUESTS,
    REQUESTS,
    Generator,
    Load,
    Target,
    as_lines,
    count_of,
    mean_of,
    requests_of,
    span,
    waits,
)

if TYPE_CHECKING:
    from windtunnel.specs.traffic import TrafficSpec

CONSTANT_SHAPE = 1_000_000
"""Gamma shape of which gaps spread by a thousandth: even arrivals."""


def write(target: Target) -> Load:
    """The command that sends a scenario's traffic."""
    serving, spec = target.deployed.serving, target.deployed.serving.traffic
    load = Load(known=target.known, program="vllm bench serve", model=target.model, port=target.port)
    load.set("--backend", "vllm")
    load.set("--base-url", '"http://$HOST:$PORT"')
    load.set("--model", '"$MODEL"')
    traffic = requests_of(target.deployed)
    if spec.sessions is not None:
        load.lacks("sessions: turns are sent as requests of their own; load-aiperf.sh holds conversations")
    timed = _lengths(spec, load, waits(traffic, load))
    if timed:
        load.files[REQUESTS] = as_lines(traffic, load)
    number = min(count_of(spec, traffic), MOST_REQUESTS) if timed else count_of(spec, traffic)
    load.set("--num-prompts", number)
    if not timed or traffic.concurrency or spec.offline:
        if timed:
            load.set("--no-self-timed")
        _arrivals(spec, traffic.concurrency, load)
    load.set("--seed", spec.seed)
    if not timed:
        load.set("--ignore-eos")
    if not serving.streaming:
        load.set("--no-stream")
    load.set("--percentile-metrics", "ttft,tpot,itl,e2el")
    load.set("--metric-percentiles", "50,90,99")
    slo = serving.slo
    parts = (("ttft", slo.ttft_s), ("tpot", slo.tpot_s), ("e2el", slo.e2e_s))
    limits = [f"{name}:{float(value) * 1e3:g}" for name, value in parts if value is not None]
    if limits:
        load.set("--goodput", *limits)
    if spec.warmup_requests:
        load.notes.append(f"the first {spec.warmup_requests} requests count in its figures; here they were left out")
    load.set("--save-result")
    return load


def _arrivals(spec: TrafficSpec, concurrency: int, load: Load) -> None:
    if concurrency:
        load.set("--max-concurrency", concurrency)
        load.set("--request-rate", "inf")
    elif spec.offline or spec.rate_per_s is None:
        load.set("--request-rate", "inf")
    else:
        load.set("--request-rate", f"{spec.rate_per_s:g}")
        shape = {"poisson": 1.0, "gamma": spec.burstiness, "constant": CONSTANT_SHAPE}.get(spec.process)
        if shape is None:
            load.lacks(f"process {spec.process}: arrivals come at the mean rate, as a Poisson process")
        load.set("--burstiness", f"{shape or 1.0:g}")


def _lengths(spec: TrafficSpec, load: Load, chained: bool) -> bool:
    """Options of the data set; whether the requests come from a file. Chained ones have no times before they run."""
    prompt, answer = span(spec.input_tokens), span(spec.output_tokens)
    ratios = [(most - least) / (most + least) for least, most in (prompt, answer) if most] if prompt and answer else []
    apart = "--timed-trace-chunk-hash-size" in load.known.kinds  # releases that have it take two ratios
    even = spec.trace is None and prompt and answer and spec.correlation == 0 and spec.process in _OWN
    even = even and (chained or not spec.trajectories)
    if even and prompt and answer and (apart or len(set(ratios)) == 1):
        load.set("--dataset-name", "random")
        load.set("--random-input-len", round(sum(prompt) / 2) - spec.shared_prefix_tokens)
        load.set("--random-output-len", round(sum(answer) / 2))
        if spec.shared_prefix_tokens:
            load.set("--random-prefix-len", spec.shared_prefix_tokens)
        same = len(set(ratios)) == 1
        ratio = f"{ratios[0]:g}" if same else json.dumps(dict(zip(("input", "output"), ratios, strict=True)))
        load.set("--random-range-ratio", ratio)
        return False
    if apart and spec.sessions is None and not chained:
        load.set("--dataset-name", "timed_trace")
        load.set("--dataset-path", f'"$HERE/{REQUESTS}"')
        load.set("--timed-trace-chunk-hash-size", BLOCK)
        load.set("--timed-trace-sec-multiplier", "0.001")
        for name in ("timestamp", "input_length", "output_length", "hash_ids"):
            load.set(f"--timed-trace-label-{name.replace('_', '-')}", name)
        return True
    means = [mean_of(lengths) for lengths in (spec.input_tokens, spec.output_tokens)]
    load.lacks("lengths of requests: all have the means; load-aiperf.sh sends each as it was simulated")
    load.set("--dataset-name", "random")
    load.set("--random-input-len", means[0])
    load.set("--random-output-len", means[1])
    load.set("--random-range-ratio", 0)
    return False


_OWN = ("poisson", "gamma", "constant")


LOADS.add("vllm_bench", Generator("vllm bench serve", write))
