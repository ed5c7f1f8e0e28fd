"""Published orders of compressors on tasks that are trained for real; settings were fixed before the first run.

1,500 steps of eight workers with batches of eight, a warm-up of 75 steps and a cosine, seeds 1 and 2 (PowerSGD: 1 to
3). AdamW at 2e-3; SGD with momentum 0.9 at 0.1 on the Markov language and 0.05 on the teacher and student. Losses are
excesses over the lowest, which both tasks know.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from windtunnel.errors import ProblemList
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.compose import Composed, GradientExchange
from windtunnel.learning.compressors.base import Compressor
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.compressors.sign import Sign
from windtunnel.learning.compressors.topk import TopK
from windtunnel.learning.drivers.lock_step import learn
from windtunnel.learning.inner.adamw import AdamW
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.inner.sgd import SGD
from windtunnel.learning.job import Job
from windtunnel.learning.tasks import TASKS
from windtunnel.learning.tasks.base import Task, TaskSetting
from windtunnel.techniques.knobs import with_defaults

pytestmark = pytest.mark.slow

STEPS = 1500
RATES = {"adamw": 2e-3, "markov-lm": 0.1, "teacher-student": 0.05}


def setup(task: str, inner: str, seed: int) -> tuple[Task, Job]:
    """A task and its job."""
    kind = TASKS.get(task)
    built = kind.build(TaskSetting(8, 8, seed), with_defaults(kind.knobs, {}, "", ProblemList()))
    peak = RATES["adamw"] if inner == "adamw" else RATES[task]
    job = Job(
        workers=8,
        steps=STEPS,
        shapes=built.shapes,
        inner=AdamW() if inner == "adamw" else SGD(momentum=0.9),
        lr=LearningRate(peak, warmup_steps=75, decay="cosine", steps=STEPS),
        draws=TaskSetting(8, 8, seed).draws,
    )
    return built, job


@lru_cache(maxsize=64)
def excess(task: str, inner: str, seed: int, id: str, **given: object) -> float:
    """Last held-out loss of an algorithm over the task's lowest."""
    built, job = setup(task, inner, seed)
    kind = ALGORITHMS.get(id)
    algorithm = kind.build(job, with_defaults(kind.knobs, given, id, ProblemList()))
    return float(learn(algorithm, built, job, STEPS).loss[-1] - built.floor)


@lru_cache(maxsize=64)
def with_wire(wire: Compressor, feedback: float, seed: int) -> float:
    """The same of data-parallel AdamW on the Markov language, whose gradients go through a compressor as stated."""
    built, job = setup("markov-lm", "adamw", seed)
    algorithm = Composed(job, gradients=GradientExchange(compressor=wire, feedback=feedback))
    return float(learn(algorithm, built, job, STEPS).loss[-1] - built.floor)


def ranks(task: str) -> dict[int, np.ndarray]:
    """Rank → excess by seed; 0 is plain SGD."""
    plain = np.array([excess(task, "sgd", seed, "data_parallel") for seed in (1, 2, 3)])
    return {0: plain} | {
        rank: np.array([excess(task, "sgd", seed, "powersgd", rank=rank) for seed in (1, 2, 3)]) for rank in (1, 2)
    }


@pytest.mark.parametrize("task", ["teacher-student", "markov-lm"])
def test_rank_one_of_powersgd_is_worse_than_rank_two(task):
    """For every seed (published: 93.6 against 94.4 % on CIFAR-10, recalled)."""
    found = ranks(task)
    assert (found[1] > found[2]).all()
    assert (found[1] > found[0]).all()


@pytest.mark.parametrize("task", ["teacher-student", "markov-lm"])
def test_rank_two_of_powersgd_is_sgd(task):
    """Means of three seeds are no further apart than SGD's seeds (published: 94.4 against 94.3 %, recalled).

    Seed by seed rank 2 is 4 to 6 % of the excess above SGD on the Markov language, half of rank 1's gap.
    """
    found = ranks(task)
    assert abs(found[2].mean() - found[0].mean()) <= np.ptp(found[0])


@pytest.mark.parametrize("scale", ["l1", "l2"])
def test_one_bit_adam_is_within_one_per_cent_of_adam(scale):
    """Of the loss, with 15 % of warm-up (bar: 1 %)."""
    for seed in (1, 2):
        floor = setup("markov-lm", "adamw", seed)[0].floor
        adam = excess("markov-lm", "adamw", seed, "data_parallel")
        assert excess("markov-lm", "adamw", seed, "one-bit-adam", scale=scale) + floor < 1.01 * (adam + floor)


@pytest.mark.parametrize("id", ["dettmers-8bit", "qsdp"])
def test_eight_bits_cost_nothing_that_seeds_do_not(id):
    """Within the spread of Adam over its seeds, for both."""
    adam = [excess("markov-lm", "adamw", seed, "data_parallel") for seed in (1, 2)]
    eight = [excess("markov-lm", "adamw", seed, id) for seed in (1, 2)]
    assert abs(np.mean(eight) - np.mean(adam)) <= np.ptp(adam)


@pytest.mark.parametrize("wire", [TopK(0.01), Sign()], ids=["top 1 %", "sign"])
def test_feedback_is_needed(wire):
    """Dense below with feedback below without, for both seeds."""
    for seed in (1, 2):
        dense, kept, lost = with_wire(Cast(32), 0.0, seed), with_wire(wire, 1.0, seed), with_wire(wire, 0.0, seed)
        assert dense < kept < lost
