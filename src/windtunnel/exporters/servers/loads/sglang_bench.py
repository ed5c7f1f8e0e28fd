"""SGLang's serving benchmark: random lengths between ratio · length and length, Poisson arrivals.

Sources: options, `flags/sglang_bench-<version>.yaml`; what they mean, `sglang/bench_serving.py` (since 0.5.23
`sglang/benchmark/`). Its Mooncake data set writes texts of other lengths than the trace's: nothing is replayed by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.exporters.servers.loads.base import (
    LOADS,
    Generator,
    Load,
    Target,
    count_of,
    mean_of,
    requests_of,
    span,
    waits,
)

if TYPE_CHECKING:
    from windtunnel.specs.traffic import TrafficSpec

MOVED = (0, 5, 23)
"""Release since which it is `sglang.benchmark.serving`."""


def write(target: Target) -> Load:
    """The command that sends a scenario's traffic."""
    serving, spec = target.deployed.serving, target.deployed.serving.traffic
    release = tuple(int(part) for part in target.known.version.split(".") if part.isdigit())
    module = "sglang.benchmark.serving" if release >= MOVED else "sglang.bench_serving"
    load = Load(known=target.known, program=f"python3 -m {module}", model=target.model, port=target.port)
    load.set("--backend", "sglang-oai")
    load.set("--base-url", '"http://$HOST:$PORT"')
    load.set("--model", '"$MODEL"')
    traffic = requests_of(target.deployed)
    if not waits(traffic, load) and spec.trajectories:
        load.lacks("trajectories: prompts have nothing in common; load-aiperf.sh shares them")
    _lengths(spec, load)
    load.set("--num-prompts", count_of(spec, traffic))
    if traffic.concurrency:
        load.set("--max-concurrency", traffic.concurrency)
        load.set("--request-rate", "inf")
    elif spec.offline or spec.rate_per_s is None:
        load.set("--request-rate", "inf")
    else:
        load.set("--request-rate", f"{spec.rate_per_s:g}")
        if spec.process != "poisson":
            load.lacks(f"process {spec.process}: arrivals come at the mean rate, as a Poisson process")
    if spec.sessions is not None:
        load.lacks("sessions: turns are sent as requests of their own; load-aiperf.sh holds conversations")
    if not serving.streaming:
        load.set("--disable-stream")
    load.set("--seed", spec.seed)
    slo = serving.slo
    if slo.ttft_s is not None or slo.tpot_s is not None or slo.e2e_s is not None:
        load.lacks("slo: it counts no goodput; load-aiperf.sh does")
    if spec.warmup_requests:
        load.notes.append(f"the first {spec.warmup_requests} requests count in its figures; here they were left out")
    return load


def _lengths(spec: TrafficSpec, load: Load) -> None:
    prompt, answer = span(spec.input_tokens), span(spec.output_tokens)
    shares = {least / most for least, most in (prompt, answer)} if prompt and answer else set()
    if len(shares) == 1 and prompt and answer and spec.trace is None and spec.correlation == 0:
        given = prompt[1], answer[1], shares.pop()
    else:
        given = mean_of(spec.input_tokens), mean_of(spec.output_tokens), 1.0
        load.lacks("lengths of requests: all have the means; load-aiperf.sh sends each as it was simulated")
    if spec.shared_prefix_tokens:
        load.lacks("shared_prefix_tokens: prompts have nothing in common; load-aiperf.sh shares them")
    load.set("--dataset-name", "random-ids")
    load.set("--random-input-len", given[0])
    load.set("--random-output-len", given[1])
    load.set("--random-range-ratio", f"{given[2]:g}")


LOADS.add("sglang_bench", Generator("SGLang's serving benchmark", write))
