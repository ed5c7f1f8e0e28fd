"""The clock beside learning: at most 15 % on top."""

from __future__ import annotations

import time

import pytest

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.drivers.lock_step import learn
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.inner.sgd import SGD
from windtunnel.learning.job import Job
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS
from windtunnel.learning.tasks.base import TaskSetting
from windtunnel.learning.timing.links import Link
from windtunnel.learning.timing.lock_step import time_lock_step
from windtunnel.learning.timing.on_target import messages_on_target
from windtunnel.learning.timing.target import Target, stated_layers

WORKERS, STEPS = 8, 1500


@pytest.mark.parametrize(("algorithm", "knobs"), [("data_parallel", {}), ("diloco", {"period": 25})])
def test_the_clock_takes_at_most_15_percent_of_learning(algorithm: str, knobs: dict) -> None:
    kind = ALGORITHMS.get(algorithm)
    settled = {name: knob.default for name, knob in kind.knobs.items()} | knobs
    task_kind = TASKS.get("logistic")
    own = {name: knob.default for name, knob in task_kind.knobs.items()}
    task = task_kind.build(TaskSetting(WORKERS, 8, 1), own)
    job = Job(
        workers=WORKERS, steps=STEPS, shapes=task.shapes, inner=SGD(), lr=LearningRate(0.1, steps=STEPS), draws=Draws(1)
    )
    target = Target(
        step_s=0.5, layers=stated_layers(1e9, 24), link=Link(up_bytes_per_s=1e9, down_bytes_per_s=1e9, latency_s=0.02)
    )
    messages = messages_on_target(algorithm, knobs, target, WORKERS, STEPS)
    time_lock_step(messages, target, WORKERS, STEPS)
    clocked = []
    for _ in range(3):
        begun = time.process_time()
        time_lock_step(messages, target, WORKERS, STEPS)
        clocked.append(time.process_time() - begun)
    begun = time.process_time()
    learn(kind.build(job, settled), task, job, 100)
    learned = time.process_time() - begun
    assert min(clocked) <= 0.15 * learned
