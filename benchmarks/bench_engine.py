"""Engine speed on the stated workload: 1 M tasks, 64 devices × 4 streams, 30 % of the tasks sharing rates, one core.

Run `python benchmarks/bench_engine.py [--tasks N] [--repeat K]`. Peers' figures (measured on other machines, for
scale): SimPy's generator processes 0.2 million tasks/s; the prototype of this engine 2.2 million tasks/s.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from windtunnel.engine import simulate
from windtunnel.program.builder import ProgramBuilder
from windtunnel.program.tables import Resources, Streams, TaskTable

DEVICES, STREAMS = 64, 4
PEERS = {"SimPy generator processes": 0.2e6, "prototype of this engine": 2.2e6}
TARGET = 2.0e6


def workload(
    num_tasks: int, *, sharing: float = 0.3, rendezvous: float = 0.02, seed: int = 1
) -> tuple[TaskTable, Streams, Resources]:
    """A program with the shape of a training step.

    Tasks go round the devices and their streams. `sharing` of the tasks load their device's memory with 40–90 % of it,
    so that two or more at once contend; of these a third also load the device's link. A task in four waits for another
    of its device, and `rendezvous` of them for the same position on the next device.
    """
    rng = np.random.default_rng(seed)
    builder = ProgramBuilder()
    streams = np.array([[builder.stream(f"d{d}.s{s}", rank_class=d) for s in range(STREAMS)] for d in range(DEVICES)])
    hbm = np.array([builder.rate(f"hbm{d}", 1.0) for d in range(DEVICES)])
    link = np.array([builder.rate(f"link{d}", 1.0) for d in range(DEVICES)])
    row = np.arange(num_tasks)
    device, stream = row % DEVICES, rng.integers(0, STREAMS, num_tasks)
    alone = rng.uniform(5e-6, 200e-6, num_tasks)
    builder.add(alone, stream=streams[device, stream], rank_class=device, tag="compute")
    shares = np.flatnonzero(rng.random(num_tasks) < sharing)
    builder.add_rates(shares, hbm[device[shares]], alone[shares] * rng.uniform(0.4, 0.9, len(shares)))
    flows = shares[rng.random(len(shares)) < 1 / 3]
    builder.add_rates(flows, link[device[flows]], alone[flows] * rng.uniform(0.4, 0.9, len(flows)))
    later = np.flatnonzero((rng.random(num_tasks) < 0.25) & (row >= 4 * DEVICES))
    builder.add_dependencies(later, later - DEVICES * rng.integers(1, 4, len(later)))
    meets = np.flatnonzero((rng.random(num_tasks) < rendezvous) & (row >= DEVICES))
    builder.add_dependencies(meets, meets - 1)
    return builder.build()


def main() -> None:
    """Print tasks per second beside the peers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()

    started = time.perf_counter()
    simulate(*workload(1000))
    print(f"import, compile or load, first run: {time.perf_counter() - started:.2f} s")
    started = time.perf_counter()
    program = workload(options.tasks)
    print(f"build {options.tasks:,} tasks: {time.perf_counter() - started:.2f} s")
    best = float("inf")
    for _ in range(options.repeat):
        started = time.perf_counter()
        timeline = simulate(*program)
        best = min(best, time.perf_counter() - started)
    slowed = np.mean(timeline.end_s - timeline.start_s > program[0].alone_s * (1 + 1e-9))
    rate = options.tasks / best
    print(f"simulated makespan {timeline.makespan_s:.6f} s; {slowed:.0%} of the tasks were slowed by sharing")
    print(
        f"windtunnel engine          {rate / 1e6:6.2f} M tasks/s  (target {TARGET / 1e6:.1f}, best of {options.repeat})"
    )
    for name, figure in PEERS.items():
        print(f"{name:26s} {figure / 1e6:6.2f} M tasks/s")


if __name__ == "__main__":
    main()
