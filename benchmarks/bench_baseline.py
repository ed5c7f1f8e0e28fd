"""What machine code for the baseline of a wheel costs in speed: each kernel beside itself compiled for this processor.

Run `python benchmarks/bench_baseline.py [--pairs N]`. Two processes take turns, so that both meet the same neighbours;
figures are processor seconds, the best of each process, and the median of the pairs' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from windtunnel.kernel_cache import BASELINE

REPEAT = 5


def cases() -> dict[str, Callable[[], Any]]:
    """Work of each kernel, about 0.2 s."""
    from bench_engine import workload as tasks
    from bench_flows import FABRIC
    from bench_flows import workload as flows
    from bench_runs import base_case
    from bench_serving import scenario

    from windtunnel.clusters.event_loop.records import EASY, STATIC, JobTable, Rules
    from windtunnel.clusters.event_loop.run import run_queue
    from windtunnel.clusters.outages import NO_OUTAGES
    from windtunnel.engine import simulate, simulate_flows
    from windtunnel.engine.allocator import replay_tensors
    from windtunnel.runs.event_loop.replicate import Frailty, jitted, replications
    from windtunnel.serving import simulate as serving
    from windtunnel.serving.event_loop.run import serve
    from windtunnel.serving.traffic import generate

    program = tasks(600_000)
    src, dst, size, start = flows(3_000, 0.0)
    routes, capacity = FABRIC.routes(src, dst), FABRIC.capacity
    rng, n = np.random.default_rng(1), 4_000
    seconds = rng.lognormal(8.0, 1.0, n)
    jobs = JobTable(
        np.sort(rng.uniform(0, 3e5, n)), 2 ** rng.integers(0, 6, n), seconds, 2 * seconds, seconds, np.ones(n)
    )
    rules = Rules(STATIC, False, EASY, 0, False, np.zeros(0), 1.0, 3600.0, 100)
    kept = serving.prepare(scenario(1, rate_per_s=1.2, num_requests=100_000))
    table = kept.iteration.table(kept.limits.budget + kept.limits.max_seqs)
    requests = generate(kept.serving.traffic).requests
    events = np.tile(rng.integers(1, 2**26, 20_000), 2)
    events[20_000:] *= -1
    tensors = np.tile(np.arange(20_000), 2)
    run = base_case(), Frailty(0.0, 0.15, 6.0)
    return {
        "tasks of a step": lambda: simulate(*program),
        "allocator": lambda: replay_tensors(events, tensors, np.zeros(40_000, np.int64)),
        "flows": lambda: simulate_flows(routes, capacity, size, start_s=start),
        "requests": lambda: serve(requests, table, kept.limits, 1),
        "jobs of a cluster": lambda: run_queue(jobs, rules, NO_OUTAGES, np.full(64, 8)),
        "states of a run": lambda: list(replications(*run, 10, 1, jitted)),
    }


def measured() -> dict[str, float]:
    """Processor seconds of each kernel in this process."""
    from windtunnel.kernel_cache import always_compiled

    found = {}
    with always_compiled():
        for name, work in cases().items():
            work()
            best = np.inf
            for _ in range(REPEAT):
                begun = time.process_time()
                work()
                best = min(best, time.process_time() - begun)
            found[name] = best
    return found


def main() -> None:
    """A line a kernel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--one", action="store_true", help="this process alone, as JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured()))
        return
    own = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_CPU_")}
    other = own | {"NUMBA_CPU_NAME": BASELINE[0], "NUMBA_CPU_FEATURES": BASELINE[1]}
    pairs = []
    for i in range(options.pairs + 1):
        command = [sys.executable, __file__, "--one"]
        both = [subprocess.run(command, env=e, capture_output=True, text=True, check=True) for e in (own, other)]
        if i:  # the first pair compiles
            pairs.append([json.loads(done.stdout) for done in both])
    print(f"{'kernel':20s} {'this processor':>16s} {BASELINE[0]:>12s} {'ratio':>7s}")
    for name in pairs[0][0]:
        here, there = (min(pair[k][name] for pair in pairs) for k in (0, 1))
        ratio = statistics.median(pair[1][name] / pair[0][name] for pair in pairs)
        print(f"{name:20s} {here:14.3f} s {there:10.3f} s {ratio:7.3f}")


if __name__ == "__main__":
    main()
