"""Codes: exact sums from any answers that suffice, Berrut's approximate ones, and corrupted answers that are found."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from windtunnel.errors import BadInput, ProblemList
from windtunnel.learning.aggregators.berrut import mean_of_blocks
from windtunnel.learning.aggregators.gradient_codes import cyclic, decoding, repetition
from windtunnel.learning.algorithms import ALGORITHMS, sbacc
from windtunnel.learning.drivers.lock_step import learn
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.inner.sgd import SGD
from windtunnel.learning.job import Job
from windtunnel.learning.prepare_learning import prepare_learning
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS
from windtunnel.learning.tasks.base import TaskSetting
from windtunnel.runs.step_waits.berrut import decode, encode, wrong_answers
from windtunnel.techniques.knobs import with_defaults

SMALL = {"inputs": 6, "hidden": 8, "teacher": 4, "outputs": 3, "samples": 256, "held_out": 64, "dtype": "float64"}


def setup(workers: int = 8, id: str = "teacher-student", given: dict | None = None, steps: int = 40):
    """(task, job)."""
    kind = TASKS.get(id)
    knobs = with_defaults(kind.knobs, SMALL if given is None else given, id, ProblemList())
    task = kind.build(TaskSetting(workers, 8, 1), knobs)
    job = Job(
        workers=workers,
        steps=steps,
        shapes=task.shapes,
        inner=SGD(momentum=0.9),
        lr=LearningRate(0.02),
        draws=Draws(1),
    )
    return task, job


def built(id: str, job: Job, **given: object):
    """An algorithm with defaults where nothing is given."""
    kind, problems = ALGORITHMS.get(id), ProblemList()
    knobs = with_defaults(kind.knobs, given, id, problems)
    problems.raise_if_any()
    return kind.build(job, knobs)


@pytest.mark.parametrize(("workers", "late"), [(5, 1), (6, 2), (8, 3), (9, 0), (7, 6)])
def test_any_answers_that_suffice_tell_the_sum(workers, late):
    """From every set of n − s rows, to 1e-10; each worker holds s + 1 shards, a load of (s + 1)/n."""
    code = cyclic(workers, late, Draws(1))
    assert ((code != 0).sum(axis=1) == late + 1).all()
    gradients = np.random.default_rng(0).standard_normal((workers, 50))
    for answered in combinations(range(workers), workers - late):
        rows = np.array(answered)
        got = decoding(code, rows) @ (code[rows] @ gradients)
        np.testing.assert_allclose(got, gradients.sum(axis=0), atol=1e-10)


def test_repetition_tells_the_sum_too():
    """Groups of three, any two of nine late."""
    code = repetition(9, 2)
    for answered in combinations(range(9), 7):
        rows = np.array(answered)
        np.testing.assert_allclose(decoding(code, rows) @ code[rows], np.ones(9), atol=1e-12)


def test_too_few_answers_are_refused():
    """One fewer than the code is for."""
    with pytest.raises(ValueError, match="4 answers do not tell the sum of 6 shards"):
        decoding(cyclic(6, 1, Draws(1)), np.arange(4))


CODED = [
    ("gradient-coding", {"late": 3}),
    ("gradient-coding", {"late": 3, "scheme": "repetition"}),
    ("sequential-gradient-coding", {"burst": 1, "window": 3, "late": 3, "chance": 0.4}),
    ("sequential-gradient-coding", {"burst": 2, "window": 5, "late": 4, "chance": 0.6}),
]


@pytest.mark.parametrize(("id", "knobs"), CODED)
def test_coded_training_is_data_parallelism(id, knobs):
    """Whoever is late: the same losses to 1e-9 after 40 steps, each step's sum being exact to 1e-10."""
    task, job = setup()
    plain = learn(built("data_parallel", job), task, job, 10)
    task, job = setup()
    coded = learn(built(id, job, **knobs), task, job, 10)
    np.testing.assert_allclose(coded.loss, plain.loss, atol=1e-9)


def test_sequential_coding_has_less_load_and_still_tells_every_sum():
    """A burst of four of eight workers: a code for two late ones, and rounds that need their second chance."""
    _, job = setup()
    algorithm = built("sequential-gradient-coding", job, burst=2, window=5, late=4, chance=0.6)
    assert algorithm.late == 2  # ⌈2·4/(4 + 2)⌉; gradient coding for four late workers loads (4 + 1)/8
    gradients = np.random.default_rng(0).standard_normal((8, 20))
    repeated = 0
    for step in range(300):
        got = gradients.copy()
        algorithm.before_step(None, got, step)
        np.testing.assert_allclose(got[0], gradients.mean(axis=0), atol=1e-10)
        repeated += algorithm.repeated[-1]
    assert repeated > 20


def test_more_late_workers_than_there_are_is_refused():
    """One clear line each."""
    _, job = setup()
    with pytest.raises(BadInput, match="allowed: 0 to 7"):
        built("gradient-coding", job, late=8)
    with pytest.raises(BadInput, match="late \\+ 1 to divide the 8 workers"):
        built("gradient-coding", job, late=2, scheme="repetition")
    with pytest.raises(BadInput, match="has to be over within a window"):
        built("sequential-gradient-coding", job, burst=3, window=3)


# -- Berrut


def linear(shares: np.ndarray) -> np.ndarray:
    """A linear function of a block."""
    return shares @ np.random.default_rng(3).standard_normal((5, 40))


def test_decode_error_falls_as_answers_rise():
    """Mean over 30 sets of answers, tanh of a matrix product on 4 blocks in 24 shares: monotone in answers."""
    data = np.random.default_rng(0).standard_normal((4, 6, 6)) / 2

    def function(blocks: np.ndarray) -> np.ndarray:
        return np.tanh(blocks @ blocks.transpose(0, 2, 1))

    exact, computed = function(data), function(encode(data, 24))
    random = np.random.default_rng(1)
    errors = []
    for answers in (10, 14, 18, 22, 24):
        found = []
        for _ in range(30):
            who = np.sort(random.permutation(24)[:answers])
            found.append(np.linalg.norm(decode(computed[who], who, 24, 4) - exact))
        errors.append(np.mean(found))
    assert all(a > b for a, b in pairwise(errors))


@pytest.mark.parametrize("wrong", [1, 2, 3])
def test_corrupted_answers_are_found_at_the_bound(wrong):
    """n − s = K + 2e exactly, a linear function: all of 100 draws of who is wrong and who is late."""
    blocks, late = 3, 2
    shares = blocks + 2 * wrong + late
    computed = linear(encode(np.random.default_rng(0).standard_normal((blocks, 5)), shares))
    random = np.random.default_rng(1)
    for _ in range(100):
        who = np.sort(random.permutation(shares)[: shares - late])
        bad = np.sort(random.permutation(len(who))[:wrong])
        answers = computed[who].copy()
        answers[bad] += random.standard_normal((wrong, 40))
        np.testing.assert_array_equal(wrong_answers(answers, who, shares, blocks, wrong), bad)


def test_fewer_answers_than_the_bound_are_refused():
    """K + 2e − 1."""
    with pytest.raises(ValueError, match="fewer than 3 blocks"):
        wrong_answers(np.zeros((6, 4)), np.arange(6), 6, 3, 2)
    _, job = setup(6)
    with pytest.raises(BadInput, match="6 answers with 3 blocks tell at most 1 wrong ones"):
        built("sbacc", job, blocks=3, wrong=2)


def test_training_on_combined_data_approaches_training_on_the_blocks():
    """Two blocks in eight shares: the loss falls; corruption of two answers a step that is found changes little."""
    task, job = setup(steps=300)
    clean = learn(built("sbacc", job), task, job, 100)
    found = learn(built("sbacc", job, wrong=2), task, job, 100)
    assert clean.loss[-1] < 0.5 * clean.loss[0]
    assert found.loss[-1] < 0.6 * found.loss[0]


def test_corruption_that_nobody_looks_for_ruins_the_training(monkeypatch):
    """The same corrupted answers, decoded as they are: the reason for looking."""
    monkeypatch.setattr(
        sbacc, "mean_of_blocks", lambda answers, k, wrong, who, n: mean_of_blocks(answers, k, 0, who, n)
    )
    task, job = setup(steps=300)
    ruined = learn(built("sbacc", job, wrong=2), task, job, 100)
    assert ruined.diverged_at is not None or ruined.loss[-1] > 0.8 * ruined.loss[0]


def test_a_task_of_classes_cannot_be_combined():
    """One clear line."""
    task, job = setup(8, "gaussian-mixture", {})
    with pytest.raises(BadInput, match="samples can be combined"):
        learn(built("sbacc", job), task, job, 10)


# -- what a step costs


@pytest.mark.parametrize(
    ("id", "knobs", "work"),
    [
        ("data_parallel", {}, 1),
        ("gradient-coding", {"late": 3}, 4),
        ("sequential-gradient-coding", {"burst": 2, "window": 5, "late": 4}, 3),
        ("extragradient", {}, 2),
        ("one-byte-zo", {"directions": 3}, 2),
        ("masha", {"refresh": 0.25}, 1.25),
    ],
)
def test_a_step_takes_as_long_as_its_gradients(id, knobs, work):
    """Hours on a clock whose links take no time are the work of a step: shards, gradients, forwards."""
    spec = {"task": "teacher-student", "workers": 8, "steps": 10, "step_s": 1, "algorithms": [{id: knobs}]}
    prepared = prepare_learning({"learning": spec})
    assert prepared.timing(prepared.algorithms[0]).time_s[-1] == pytest.approx(10 * work)
