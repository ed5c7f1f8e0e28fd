"""How fast requests are simulated, beside the peers' figures. `python benchmarks/bench_serving.py`

Peers on one core of a two-core machine (docs/serving/overview.md has the source): Vidur 540 requests/s on the first
case, 931 on
Llama-2-7B; splitwise-sim 820; DistServe's simulator 640; BLIS 790. Lengths follow the Azure conversation trace of 2023
in mean and spread, at most 4,096 tokens together.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from windtunnel.serving import simulate
from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop import run as loop
from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.queues import QUEUES
from windtunnel.serving.traffic import generate

CONVERSATION: dict[str, Any] = {
    "input_tokens": {"distribution": "lognormal", "mean": 1020, "cv": 1.1, "max": 3500},
    "output_tokens": {"distribution": "lognormal", "mean": 210, "cv": 0.8, "max": 590},
}


def scenario(replicas: int, **traffic: Any) -> dict[str, Any]:
    """Llama-2-70B on A100, tensor parallel 2, Sarathi with chunks of 512 and 128 sequences."""
    pool = {
        "replicas": replicas,
        "plan": {"tp": 2},
        "policy": "sarathi",
        "limits": {"max_num_seqs": 128, "max_num_batched_tokens": 512},
    }
    return {
        "model": "meta-llama/Llama-2-70b-hf",
        "cluster": {"device": "a100-sxm-80gb", "nodes": -(-2 * replicas // 8), "devices_per_node": 8},
        "serving": {"engine": "vllm", "pools": [pool], "traffic": {**CONVERSATION, **traffic}},
    }


def timed(run: Callable[[], Any]) -> tuple[float, float]:
    """Wall and processor seconds, the better of three."""
    best = (float("inf"), float("inf"))
    for _ in range(3):
        wall, busy = time.perf_counter(), time.process_time()
        run()
        best = min(best, (time.perf_counter() - wall, time.process_time() - busy))
    return best


def show(name: str, requests: int, seconds: tuple[float, float]) -> None:
    """One line."""
    wall, busy = seconds
    print(f"{name:58s} {requests:10,d} {wall:8.3f} {busy:8.3f} {requests / wall:14,.0f} {requests / busy:14,.0f}")


def main() -> None:
    """One line a case."""
    print(f"{'case':58s} {'requests':>10s} {'wall s':>8s} {'CPU s':>8s} {'requests/s':>14s} {'per CPU s':>14s}")
    one = simulate.prepare(scenario(1, rate_per_s=0.8, num_requests=100_000))
    table = one.iteration.table(one.limits.budget + one.limits.max_seqs)
    loop.serve(generate(one.serving.traffic).requests, table, one.limits, 1)  # compile

    def fresh(d: simulate.Deployment) -> Any:
        return generate(d.serving.traffic).requests

    requests = fresh(one)
    show("the loop: one instance, 0.8/s", 100_000, timed(lambda: loop.serve(requests, table, one.limits, 1)))
    show("the same with all measures and events", 100_000, timed(lambda: simulate.serve_requests(one, requests)))
    full = simulate.prepare(scenario(1, rate_per_s=1.6, num_requests=100_000))
    crowd = fresh(full)
    show("saturated, 1.6/s", 100_000, timed(lambda: loop.serve(crowd, table, full.limits, 1)))
    few = simulate.prepare(scenario(1, rate_per_s=0.8, num_requests=2_000))
    small = fresh(few)
    show("policies in Python (the twin)", 2_000, timed(lambda: reference.serve(small, table, few.limits, 1)))
    for id in ("vtc", "dlpm", "lpm", "srtf"):
        discipline = QUEUES.get(id)
        show(
            f"the twin with {id}",
            2_000,
            timed(lambda q=discipline: reference.serve(small, table, few.limits, 1, LoopRules(queue=q()))),
        )
    day = simulate.prepare(scenario(64, rate_per_s=11.57, num_requests=1_000_000))
    for router in (0, 2, 4):
        limits = replace(day.limits, router=router)
        many = fresh(day)
        name = {0: "round robin", 2: "least requests", 4: "power of two"}[router]
        show(f"a day on 64 instances, {name}", 1_000_000, timed(lambda m=many, k=limits: loop.serve(m, table, k, 64)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GiB; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
