"""Worker-steps per second of FedBuff on 1,000 phones, and what the loop of events adds to gradients.

    python benchmarks/bench_learning_arrivals.py [--check]

100 of 1,000 phones train at a time, rounds of 10 steps, K = 10, log-normal speeds with jitter; logistic 784-10. All
that is not a gradient, an optimizer's step or an evaluation belongs to the loop: events, draws, choosing phones,
copying parameters in and out of the stack, merging. CPU seconds of one core.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.drivers.arrivals import ArrivalSetting, run_arrivals
from windtunnel.learning.drivers.pace import DrawnPace, lognormal_factors
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.inner.sgd import SGD
from windtunnel.learning.job import Job
from windtunnel.learning.tasks import TASKS
from windtunnel.learning.tasks.base import TaskSetting

PHONES, STEPS, BATCHES = 1000, 300, (32, 8)
RATE, SHARE = 20_000, 0.15
"""Bars at batches of 32, what the other figures of learning are measured with."""


class Stopwatch:
    """An object whose named methods are timed; all else is the object's."""

    def __init__(self, inside: Any, timed: tuple[str, ...]) -> None:
        self.inside, self.timed, self.seconds = inside, timed, 0.0

    def __getattr__(self, name: str) -> Any:
        own = getattr(self.inside, name)
        if name not in self.timed:
            return own

        def call(*given: Any) -> Any:
            begun = time.process_time()
            try:
                return own(*given)
            finally:
                self.seconds += time.process_time() - begun

        return call


def measured(batch: int) -> tuple[float, float]:
    """Worker-steps per second, and seconds of the loop over those of gradients."""
    kind, way = TASKS.get("logistic"), ALGORITHMS.get("fedbuff")
    setting = TaskSetting(PHONES, batch, 1, "dirichlet", 1.0)
    task = Stopwatch(kind.build(setting, {n: k.default for n, k in kind.knobs.items()}), ("gradients", "evaluate"))
    inner = Stopwatch(SGD(), ("step",))
    draws = setting.draws
    job = Job(workers=PHONES, steps=STEPS, shapes=task.shapes, inner=inner, lr=LearningRate(0.05), draws=draws)
    knobs = {n: k.default for n, k in way.knobs.items()} | {"local_steps": 10, "buffer": 10, "concurrency": 100}
    pace = DrawnPace(1.0, lognormal_factors(PHONES, 1.0, draws), draws, jitter=0.3)
    begun = time.process_time()
    curve = run_arrivals(way.build(job, knobs), task, job, ArrivalSetting(pace=pace, evaluate_every=STEPS // 20))
    spent = time.process_time() - begun
    learning = task.seconds + inner.seconds
    return curve.worker_steps / spent, spent / learning - 1.0


def main() -> None:
    """Print the figures; with `--check` a missed bar is exit code 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    missed = False
    for batch in BATCHES:
        runs = [measured(batch) for _ in range(3)]
        rate, share = max(r for r, _ in runs), min(s for _, s in runs)
        bar = f"bars {RATE:,} and {SHARE:.0%}" if batch == BATCHES[0] else "no bar"
        print(f"batch {batch:>2}: {rate:>8,.0f} worker-steps/s, the loop adds {share:.1%}   ({bar})")
        missed |= batch == BATCHES[0] and (rate < RATE or share > SHARE)
    if check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
