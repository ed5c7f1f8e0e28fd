"""Worker-steps per second of algorithms on tasks, and the first curve from process start.

    python benchmarks/bench_learning.py [--flower PYTHON] [--fedjax PYTHON] [--check]

A worker-step is one gradient of one worker's batch with its optimizer, exchanges and evaluations included: 8 workers,
batches of 32, one core. With interpreters that have Flower (`flwr[simulation]`) or FedJAX, they run the same work on
the same core, ours before and after them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.drivers.lock_step import learn
from windtunnel.learning.inner import INNER
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.job import Job
from windtunnel.learning.tasks import TASKS
from windtunnel.learning.tasks.base import TaskSetting

WORKERS, BATCH = 8, 32
MLP = {"inputs": 784, "hidden": 128, "classes": 10, "samples": 8192, "held_out": 1024}
TASK: dict[str, tuple[str, dict[str, Any]]] = {"logistic": ("logistic", {}), "mlp": ("gaussian-mixture", MLP)}
LOCAL_SGD = ("diloco", {"period": 25, "outer_lr": 1.0, "outer_momentum": 0.0})
ROWS: tuple[tuple[str, str, str, dict[str, Any], int, float | None], ...] = (
    ("logistic 784-10", "logistic", "sgd", {}, 1000, 20_000),
    ("MLP 784-128-10", "mlp", "sgd", {}, 250, 2_500),
    ("logistic 784-10, AdamW", "logistic", "adamw", {}, 1000, None),
    ("MLP 784-128-10, AdamW", "mlp", "adamw", {}, 250, None),
)
FIRST_CURVE_S = 2.0
_FIRST_CURVE = """
learning: {task: markov-lm, workers: 8, steps: 1500, algorithms: [{diloco: {period: 25}}]}
"""


def knobs(defaults: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Defaults with the given values laid over them."""
    return {**{name: knob.default for name, knob in defaults.items()}, **given}


def run_of(task: str, inner: str, algorithm: str, given: dict[str, Any], steps: int) -> Callable[[], None]:
    """A function that learns one curve of twenty points."""
    id, values = TASK[task]
    kind, optimizer, way = TASKS.get(id), INNER.get(inner), ALGORITHMS.get(algorithm)
    built = kind.build(TaskSetting(WORKERS, BATCH, 1), knobs(kind.knobs, values))
    job = Job(
        workers=WORKERS,
        steps=steps,
        shapes=built.shapes,
        inner=optimizer.build(knobs(optimizer.knobs, {})),
        lr=LearningRate(0.01),
        draws=built.setting.draws,
    )
    return lambda: void(learn(way.build(job, knobs(way.knobs, given)), built, job, max(1, steps // 20)))


def void(_: object) -> None:
    """Forget a result."""


def rate(run: Callable[[], None], steps: int, clock: Callable[[], float], repeat: int = 3) -> float:
    """Worker-steps per second of `clock`, best of several runs."""
    best = 0.0
    for _ in range(repeat):
        begun = clock()
        run()
        best = max(best, WORKERS * steps / (clock() - begun))
    return best


def first_curve_s(folder: Path) -> tuple[float, float]:
    """Wall and CPU seconds from process start to the first curve of `windtunnel learn`, median of three.

    Nothing was learned before; modules are compiled to bytecode, as an installed package is.
    """
    scenario = folder / "first_curve.yaml"
    scenario.write_text(_FIRST_CURVE, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    command = [sys.executable, "-m", "windtunnel", "learn", str(scenario), "--json"]
    took = []
    for number in range(4):
        environment["WINDTUNNEL_CACHE"] = str(folder / f"learned{number}")
        begun, used = time.perf_counter(), os.times()
        subprocess.run(command, check=True, capture_output=True, env=environment)
        now = os.times()
        cpu = now.children_user + now.children_system - used.children_user - used.children_system
        took.append((time.perf_counter() - begun, cpu))
    wall, cpu = np.median(took[1:], axis=0)
    return float(wall), float(cpu)


def peer(python: str, which: str, task: str) -> dict[str, Any]:
    """What a peer takes for the same work on the same core."""
    script = Path(__file__).with_name("learning_peers.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    environment.pop("PYTHONPATH", None)
    command = [python, str(script), which, task]
    out = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if out.returncode:
        return {"failed": (out.stderr.strip().splitlines() or ["no message"])[-1]}
    told: dict[str, Any] = json.loads(out.stdout.splitlines()[-1])
    return told


def main() -> None:
    """Print the figures; with `--check` a missed bar is exit code 1."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--flower", help="a Python that has flwr[simulation]")
    parser.add_argument("--fedjax", help="a Python that has fedjax")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    missed = []
    for name, task, inner, _, steps, bar in ROWS:
        figures = [
            rate(run_of(task, inner, way, values, steps), steps, time.process_time)
            for way, values in (("data_parallel", {}), LOCAL_SGD)
        ]
        print(f"{name}: {figures[0]:,.0f} worker-steps a CPU second data parallel, {figures[1]:,.0f} local")
        if bar is not None and min(figures) < bar:
            missed.append(f"{name}: {min(figures):,.0f}, bar {bar:,.0f}")
    with tempfile.TemporaryDirectory() as folder:
        wall, cpu = first_curve_s(Path(folder))
    print(f"first curve from process start, markov-lm, 8 workers, 1,500 steps: {wall:.2f} s, {cpu:.2f} s of CPU")
    if wall > FIRST_CURVE_S:
        missed.append(f"first curve: {wall:.2f} s, bar {FIRST_CURVE_S:g} s")
    for which in ("flower", "fedjax"):
        python = getattr(given, which)
        for task in TASK if python else ():
            steps = {"logistic": 1000, "mlp": 250}[task]
            ours = run_of(task, "sgd", *LOCAL_SGD, steps)
            before = rate(ours, steps, time.perf_counter, 1)
            told = peer(python, which, task)
            after = rate(ours, steps, time.perf_counter, 1)
            if "failed" in told:
                print(f"{which}, {task}: failed: {told['failed']}")
                continue
            theirs = told["worker_steps"] / told["s"]
            ratio = (before + after) / 2 / theirs
            print(
                f"{which} {told['version']}, {task}: {theirs:,.0f}/s; ours {before:,.0f} before, {after:,.0f} after: "
                f"{ratio:.1f} times theirs"
            )
    for line in missed:
        print(f"missed: {line}")
    if given.check and missed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
