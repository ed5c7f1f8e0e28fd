"""Algorithms that compress: laws of their steps, bytes of their messages, and what they are when nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import ceil, prod

import numpy as np
import pytest

from windtunnel.errors import BadInput, ProblemList
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms._levels import least_bytes
from windtunnel.learning.compressors.low_rank import matrices
from windtunnel.learning.drivers.lock_step import learn
from windtunnel.learning.inner.adamw import AdamW
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.inner.sgd import SGD
from windtunnel.learning.job import Job
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS
from windtunnel.learning.tasks.base import TaskSetting
from windtunnel.techniques.knobs import with_defaults

SMALL = {"inputs": 6, "hidden": 8, "teacher": 4, "outputs": 3, "samples": 256, "held_out": 64, "dtype": "float64"}


def task_of(workers: int = 4, seed: int = 1, id: str = "teacher-student", **given: object):
    """A small teacher-student in double precision."""
    kind, problems = TASKS.get(id), ProblemList()
    knobs = with_defaults(kind.knobs, given or SMALL, id, problems)
    problems.raise_if_any()
    return kind.build(TaskSetting(workers, 8, seed), knobs)


def job_of(task, inner=None, steps: int = 30, lr: float = 0.02, seed: int = 1) -> Job:
    """A job on a task."""
    return Job(
        workers=task.workers,
        steps=steps,
        shapes=task.shapes,
        inner=inner or SGD(momentum=0.9),
        lr=LearningRate(lr),
        draws=Draws(seed),
    )


def built(id: str, job: Job, **given: object):
    """An algorithm with defaults where nothing is given."""
    kind, problems = ALGORITHMS.get(id), ProblemList()
    knobs = with_defaults(kind.knobs, given, id, problems)
    problems.raise_if_any()
    return kind.build(job, knobs)


def curve_of(id: str, inner=None, steps: int = 30, lr: float = 0.02, **given: object):
    """Losses of a short run."""
    task = task_of()
    job = job_of(task, inner, steps, lr)
    return learn(built(id, job, **given), task, job, 5)


RUNS = [
    ("powersgd", {}, None),
    ("powersgd", {"rank": 1, "warm_start": False}, None),
    ("one-bit-adam", {}, AdamW()),
    ("terngrad", {}, None),
    ("qsdp", {}, None),
    ("qsdp", {"keep": "lattice", "weight_bits": 6, "gradient_bits": 4}, None),
    ("dettmers-8bit", {}, None),
    ("tagc", {"fraction": 0.1, "cells": 0.6}, None),
    ("l-greco", {"base": "quantised", "period": 20}, None),
    ("l-greco", {"base": "low_rank", "period": 20}, None),
    ("data_parallel", {"compressor": {"topk": {"fraction": 0.1}}, "feedback": 1.0}, None),
]


@pytest.mark.parametrize(("id", "knobs", "inner"), RUNS, ids=[f"{i}-{len(k)}" for i, k, _ in RUNS])
def test_same_seed_gives_the_same_bits(id, knobs, inner):
    """Two runs learn the same bits, and lower the loss."""
    first, second = (curve_of(id, inner, 60, **knobs) for _ in range(2))
    np.testing.assert_array_equal(first.loss, second.loss)
    assert first.loss[-1] < 0.8 * first.loss[0]


# -- PowerSGD


def test_powersgd_reaches_the_tail_of_the_spectrum():
    """On a fixed matrix with singular values 1, ½, ¼ … rank 4 leaves Σ 4^−i, i ≥ 4, = 1/192 = 0.0052083333."""
    random = np.random.default_rng(0)
    u, v = (np.linalg.qr(random.standard_normal((n, 16)))[0] for n in (40, 30))
    matrix = (u * 0.5 ** np.arange(16)) @ v.T
    job = Job(workers=1, steps=50, shapes=((40, 30),), inner=SGD(), lr=LearningRate(1.0), draws=Draws(3))
    algorithm = built("powersgd", job, rank=4, error_feedback=False)
    state = algorithm.start(np.zeros(1200))
    for step in range(50):
        gradients = matrix.ravel()[None, :].copy()
        algorithm.before_step(state, gradients, step)
    assert ((gradients.reshape(40, 30) - matrix) ** 2).sum() == pytest.approx(0.0052083333, abs=2e-9)


def test_powersgd_depends_on_the_mean_of_its_workers_alone():
    """Factors are sums over workers: any order of workers, and all of them at the mean, give the same step."""
    task = task_of()
    job = job_of(task)
    each = np.random.default_rng(0).standard_normal((4, sum(map(prod, task.shapes))))
    got = []
    for rows in (each, each[::-1], np.repeat(each.mean(axis=0, keepdims=True), 4, axis=0)):
        algorithm = built("powersgd", job)
        state, gradients = algorithm.start(task.initial()), rows.copy()
        algorithm.before_step(state, gradients, 0)
        got.append(gradients[0])
    np.testing.assert_allclose(got[1], got[0], atol=1e-12)
    np.testing.assert_allclose(got[2], got[0], atol=1e-12)


def test_powersgd_keeps_what_it_left_out():
    """Σ steps + mean memory = Σ mean gradients; each memory is against the aggregate, not the worker's own part."""
    task = task_of()
    algorithm = built("powersgd", job_of(task))
    state = algorithm.start(task.initial())
    given, sent = 0.0, 0.0
    for step in range(10):
        gradients = np.random.default_rng(step).standard_normal(state.params.shape)
        given = given + gradients
        algorithm.before_step(state, gradients, step)
        sent = sent + gradients
        assert (gradients == gradients[0]).all()
    np.testing.assert_allclose(sent + state.residual["gradients"], given, atol=1e-12)


def test_full_rank_is_data_parallelism():
    """Where factors would be no smaller, tensors travel whole."""
    np.testing.assert_allclose(curve_of("powersgd", rank=8).loss, curve_of("data_parallel").loss, atol=1e-12)


def resnet18() -> tuple[tuple[int, ...], ...]:
    """Tensors of ResNet-18 for CIFAR-10: 3 × 3 first convolution, four stages of two basic blocks, batch norms.

    Source: He et al. 2016, as in the authors' code, epfml/powersgd `paper-code/tasks/cifar.py`.
    """
    out: list[tuple[int, ...]] = [(64, 3, 3, 3), (64,), (64,)]
    before = 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            out += [(width, before, 3, 3), (width,), (width,), (width, width, 3, 3), (width,), (width,)]
            if block == 0 and stage:
                out += [(width, before, 1, 1), (width,), (width,)]
            before = width
    return (*out, (10, 512), (10,))


def lstm() -> tuple[tuple[int, ...], ...]:
    """Tensors of the LSTM on WikiText-2: 3 layers of 650, encoder and decoder tied.

    Layers, width and tied weights are those of the authors' code (epfml/powersgd, `language_modeling/__init__.py`). Its
    vocabulary of 28,869 tokens is recalled from the paper's appendix, and depends on a tokeniser of 2019.
    """
    layers = [shape for _ in range(3) for shape in ((2600, 650), (2600, 650), (2600,), (2600,))]
    return ((28869, 650), *layers, (28869,))


PUBLISHED_RATIOS = [
    ("resnet18", 1, 243),
    ("resnet18", 2, 136),
    ("resnet18", 4, 72),
    ("lstm", 1, 310),
    ("lstm", 2, 203),
    ("lstm", 4, 120),
]
"""Table 3 of the paper (arXiv 1905.13727). The ratios are recalled, not read: no stored copy of the paper's tables was
found (a secondary summary has rank 2's accuracy on CIFAR-10 and the times of rank 2 and rank 4 alone). That the shapes
of the authors' code give all six to the last printed digit is what speaks for them."""


@pytest.mark.parametrize(("model", "rank", "published"), PUBLISHED_RATIOS)
def test_published_ratios_of_bytes(model, rank, published):
    """Bytes of all gradients over those of the messages, to the last digit printed (bar: 1 %)."""
    shapes = {"resnet18": resnet18, "lstm": lstm}[model]()
    job = Job(workers=16, steps=1, shapes=shapes, inner=SGD(), lr=LearningRate(0.1), draws=Draws(0))
    sent = sum(message.nbytes(shapes) for message in built("powersgd", job, rank=rank).messages(0))
    assert round(4 * sum(map(prod, shapes)) / sent) == published


def test_bytes_of_factors_are_those_of_the_arrays():
    """P, Q and whole tensors as float32."""
    task = task_of()
    job = job_of(task)
    algorithm = built("powersgd", job)
    state = algorithm.start(task.initial())
    left = sum(m.rows * (m.rank or m.columns) for m in matrices(task.shapes, 2))
    right = sum(state.extra[f"q{i}"].astype("f4").nbytes for i, m in enumerate(matrices(task.shapes, 2)) if m.rank)
    assert [m.nbytes(task.shapes) for m in algorithm.messages(0)] == [4 * left, right]


# -- 1-bit Adam


@pytest.mark.parametrize(("warmup", "published"), [(0.15, 4.9), (0.25, 3.37)])
def test_volume_of_one_bit_adam(warmup, published):
    """16-bit Adam over all bytes of a run, 1/(w + (1 − w)/16), as messages of BERT-sized tensors have it (bar: 3 %)."""
    shapes, steps, workers = ((30522, 1024), (1024, 4096), (4096,)), 1000, 64
    job = Job(workers=workers, steps=steps, shapes=shapes, inner=AdamW(), lr=LearningRate(1e-3), draws=Draws(0))
    algorithm = built("one-bit-adam", job, warmup=warmup)

    def volume(message) -> float:
        payload = message.nbytes(shapes)
        ring = (workers - 1) / workers
        times = {"all_reduce": 2 * ring, "reduce_scatter": ring, "all_gather": workers - 1}
        return times[message.kind] * payload

    sent = sum(volume(message) for step in range(steps) for message in algorithm.messages(step))
    adam = steps * volume(built("data_parallel", job, bits=16).messages(0)[0])
    assert adam / sent == pytest.approx(1 / (warmup + (1 - warmup) / 16), rel=1e-3)
    assert adam / sent == pytest.approx(published, rel=0.03)


def test_bytes_of_one_bit_are_those_of_the_messages():
    """The worker's encoding, and one server's part of the answer."""
    task = task_of()
    algorithm = built("one-bit-adam", job_of(task, AdamW()))
    scatter, gather = algorithm.messages(29)
    row = np.random.default_rng(0).standard_normal(sum(map(prod, task.shapes)))
    assert len(algorithm.worker_wire.encode(row, task.shapes, Draws(0), 0, 0)) == ceil(scatter.nbytes(task.shapes))
    whole = len(algorithm.server_wire.encode(row, task.shapes, Draws(0), 0, 0))
    assert whole == ceil(4 * gather.nbytes(task.shapes))


def test_a_warmup_of_all_steps_is_adam():
    """With bias correction and without rounding, 1-bit Adam before its freeze is data-parallel Adam."""
    one = curve_of("one-bit-adam", AdamW(), warmup=1.0, bias_correction=True, warmup_bits=64)
    np.testing.assert_allclose(one.loss, curve_of("data_parallel", AdamW()).loss, atol=1e-12)


def test_errors_of_one_bit_adam_stay_with_their_owners():
    """Σ of what is applied + both errors = Σ of the mean momenta given, step by step."""
    task = task_of()
    algorithm = built("one-bit-adam", job_of(task, AdamW()), warmup=0.0)
    state = algorithm.start(task.initial())
    given, applied = 0.0, 0.0
    for step in range(10):
        momentum = np.random.default_rng(step).standard_normal(state.params.shape)
        given = given + momentum.mean(axis=0)
        applied = applied + algorithm.exchanged(state, momentum, step)[0]
    left = state.residual["worker"].mean(axis=0) + state.residual["server"][0]
    np.testing.assert_allclose(applied + left, given, atol=1e-12)


def test_variance_stays_after_the_warmup():
    """v is frozen, m is everybody's."""
    task = task_of()
    job = job_of(task, AdamW(), steps=20)
    algorithm = built("one-bit-adam", job, warmup=0.5)
    state, gradients = algorithm.start(task.initial()), np.empty((4, sum(map(prod, task.shapes))))
    kept = None
    for step in range(20):
        task.gradients(state.params, job.everyone, np.full(4, step), gradients)
        algorithm.before_step(state, gradients, step)
        algorithm.step(state, gradients, step)
        assert (state.params == state.params[0]).all()
        if step == 9:
            kept = state.inner["v"].copy()
    np.testing.assert_array_equal(state.inner["v"], kept)


def test_one_bit_adam_needs_adam():
    """One clear line."""
    with pytest.raises(BadInput, match="inner optimizer has to be adamw"):
        built("one-bit-adam", job_of(task_of()))


# -- TernGrad


def test_terngrad_steps_on_an_unbiased_mean():
    """Without clipping, the mean over 2,000 draws is within five standard errors of the mean gradient."""
    task = task_of()
    each = np.random.default_rng(0).uniform(0.3, 1.0, (4, sum(map(prod, task.shapes))))
    algorithm = built("terngrad", job_of(task), clip=0.0)
    got = []
    for step in range(2000):
        gradients = each.copy()
        algorithm.before_step(None, gradients, step)
        got.append(gradients[0])
    away = np.abs(np.mean(got, axis=0) - each.mean(axis=0))
    assert (away <= 5 * np.std(got, axis=0) / np.sqrt(2000) + 1e-6).all()


def test_terngrad_shares_one_scale():
    """What all step on is a whole number of N-ths of the largest scale of any worker."""
    task = task_of()
    each = np.random.default_rng(0).standard_normal((4, sum(map(prod, task.shapes))))
    algorithm = built("terngrad", job_of(task), clip=0.0)
    gradients = each.copy()
    algorithm.before_step(None, gradients, 0)
    at = 0
    for shape in task.shapes:
        tensor = slice(at, at + prod(shape))
        units = gradients[:, tensor] / (np.abs(each[:, tensor]).max() / 4)
        np.testing.assert_allclose(units, np.round(units), atol=1e-5)
        at += prod(shape)


def test_bytes_of_terngrad():
    """2 bits up; sums of 4 workers, −4 … 4, in 4 bits down; a scale a tensor."""
    shapes = ((100, 10), (10,))
    job = Job(workers=4, steps=1, shapes=shapes, inner=SGD(), lr=LearningRate(0.1), draws=Draws(0))
    assert [m.nbytes(shapes) for m in built("terngrad", job).messages(0)] == [8.0, 252.5, 505.0]
    assert built("terngrad", job, bits=1.6).messages(0)[1].nbytes(shapes) == 202.0


# -- QSDP


def test_lattice_iterates_settle_at_the_law_of_their_noise():
    """x ← Q(x − ηax): E x² = (δ²/12)/(1 − (1 − ηa)²), below half the mean error of the best point of a lattice 8δ.

    The law treats rounding as uniform noise that is independent of x, which one random shift a step makes exact. The
    published bound compares with the expected optimum over a coarser lattice (theorem 2).
    """
    from windtunnel.learning.compressors.lattice_shift import lattice_points

    step, rate, entries, runs = 0.1, 0.3, 8, 400
    draws, x = Draws(1), np.full((runs, entries), 5.0)
    seen = []
    for t in range(150):
        shift = draws.uniforms("shift", np.arange(runs), t, 1) - 0.5
        x = x - rate * x
        x = step * (lattice_points(x, np.array(step), shift) + shift)
        if t >= 100:
            seen.append((x**2).mean())
    assert np.mean(seen) == pytest.approx(step**2 / 12 / (1 - (1 - rate) ** 2), rel=0.03)
    assert np.mean(seen) < (8 * step) ** 2 / 12


def test_bytes_of_qsdp():
    """One worker's shard of the weights twice, gradients once: 8 bits and their scales."""
    shapes = ((1024, 8),)
    job = Job(workers=4, steps=1, shapes=shapes, inner=SGD(), lr=LearningRate(0.1), draws=Draws(0))
    scatter, *gathers = built("qsdp", job).messages(0)
    assert scatter.nbytes(shapes) == 8192 + 8 * 4
    assert [m.nbytes(shapes) for m in gathers] == [(8192 + 8 * 8) / 4] * 2


# -- what does not go together


def test_a_compressor_that_needs_feedback_is_refused_without():
    """One clear line."""
    with pytest.raises(BadInput, match="never sends what it leaves out"):
        built("data_parallel", job_of(task_of()), compressor="sign")


# -- L-GreCo


@pytest.mark.parametrize("seed", range(20))
def test_choice_of_levels_equals_brute_force(seed):
    """6 layers of 4 levels: the least bytes of all 4,096 choices within the budget, exactly."""
    random = np.random.default_rng(seed)
    nbytes = np.sort(random.integers(1, 1000, (6, 4)), axis=1).astype(float)
    errors = -np.sort(-random.exponential(1.0, (6, 4)), axis=1)
    budget = float(errors[:, 1].sum())
    every = np.array(list(product(range(4), repeat=6)))
    sums = nbytes[np.arange(6), every].sum(axis=1)
    fits = errors[np.arange(6), every].sum(axis=1) <= budget
    chosen = least_bytes(nbytes, errors, budget)
    assert errors[np.arange(6), chosen].sum() <= budget * (1 + 1e-12)
    assert nbytes[np.arange(6), chosen].sum() == sums[fits].min()
    assert nbytes[np.arange(6), chosen].sum() <= nbytes[:, 1].sum()


def test_many_layers_stay_within_the_budget():
    """100 layers of 8 levels, more partial choices than are kept: within the budget, 5 % below the uniform bytes."""
    random = np.random.default_rng(1)
    nbytes = np.outer(random.uniform(1, 100, 100), np.arange(1, 9))
    errors = np.outer(random.exponential(1.0, 100), 4.0 ** -np.arange(8))
    budget = float(errors[:, 3].sum())
    chosen = least_bytes(nbytes, errors, budget)
    rows = np.arange(100)
    assert errors[rows, chosen].sum() <= budget * (1 + 1e-9)
    assert nbytes[rows, chosen].sum() < 0.95 * nbytes[:, 3].sum()


def test_a_budget_below_the_least_errors_is_refused():
    """Said in one line."""
    with pytest.raises(ValueError, match="above the budget"):
        least_bytes(np.ones((2, 2)), np.ones((2, 2)), 1.0)


@pytest.mark.parametrize("base", ["topk", "quantised", "low_rank"])
def test_choice_on_real_gradients_needs_fewer_bytes_at_no_more_error(base):
    """Measured on a task's own gradients; messages follow the choice."""
    task = task_of(id="markov-lm", documents=256, held_out=64)
    job = job_of(task)
    algorithm = built("l-greco", job, base=base)
    state, gradients = algorithm.start(task.initial()), np.empty((4, sum(map(prod, task.shapes))), np.float32)
    task.gradients(state.params, job.everyone, np.zeros(4, np.int64), gradients)
    before = algorithm.messages(0)[0].nbytes(task.shapes)
    nbytes, errors = algorithm.measured(gradients, 0)
    algorithm.choose(gradients, 0)
    rows = np.arange(len(nbytes))
    assert errors[rows, algorithm.chosen].sum() <= errors[:, algorithm.uniform].sum() * (1 + 1e-12)
    assert nbytes[rows, algorithm.chosen].sum() <= nbytes[:, algorithm.uniform].sum()
    assert algorithm.messages(0)[0].nbytes(task.shapes) == pytest.approx(nbytes[rows, algorithm.chosen].sum())
    assert algorithm.messages(0)[0].nbytes(task.shapes) <= before


# -- TAGC


def test_tagc_with_room_is_the_mean_of_the_sparsified():
    """Peeling ends, so everyone steps on the mean of what workers kept, to 1e-12; vectors travel whole."""
    task = task_of()
    algorithm = built("tagc", job_of(task), fraction=0.05, cells=0.6, bits=64)
    state = algorithm.start(task.initial())
    each = np.random.default_rng(0).standard_normal(state.params.shape)
    gradients = each.copy()
    algorithm.before_step(state, gradients, 0)
    assert algorithm.estimated == [0]
    kept = each - state.residual["gradients"]
    np.testing.assert_allclose(gradients, np.repeat(kept.mean(axis=0, keepdims=True), 4, axis=0), atol=1e-12)
    at, inside = algorithm._inside()
    assert ((kept[:, at] != 0).sum(axis=1) == round(0.05 * len(at))).all()
    assert algorithm.messages(0)[0].nbytes(task.shapes) == pytest.approx(
        algorithm.wire.sketch.nbytes(inside) + 4 * (gradients.shape[1] - len(at))
    )


def test_tagc_without_room_says_how_many_it_estimates():
    """Cells below the joined positions."""
    task = task_of()
    algorithm = built("tagc", job_of(task), fraction=0.2, cells=0.2)
    state = algorithm.start(task.initial())
    algorithm.before_step(state, np.random.default_rng(0).standard_normal(state.params.shape), 0)
    assert algorithm.estimated[0] > 0


# -- 8 bits


def test_bytes_of_eight_bits_are_a_quarter():
    """Of a 32-bit all-reduce, but for scales: to the owners of parts, and back to all."""
    shapes = ((1024, 64), (1024,))
    job = Job(workers=8, steps=1, shapes=shapes, inner=SGD(), lr=LearningRate(0.1), draws=Draws(0))
    scatter, gather = built("dettmers-8bit", job).messages(0)
    plain = built("data_parallel", job).messages(0)[0].nbytes(shapes)
    sent = 7 / 8 * scatter.nbytes(shapes) + 7 * gather.nbytes(shapes)
    assert 2 * 7 / 8 * plain / sent == pytest.approx(4, rel=1e-3)


def test_eight_bits_twice_are_within_four_per_cent_of_the_mean():
    """Each rounding is within 2 % of what it is given (law of the dynamic tree)."""
    task = task_of(id="markov-lm", documents=256, held_out=64)
    each = np.random.default_rng(0).standard_normal((4, sum(map(prod, task.shapes)))) + 1.0
    gradients = each.copy()
    built("dettmers-8bit", job_of(task)).before_step(None, gradients, 0)
    assert np.linalg.norm(gradients[0] - each.mean(axis=0)) < 0.04 * np.linalg.norm(each.mean(axis=0))
    assert (gradients == gradients[0]).all()


# -- order of workers


class Renumbered(Draws):
    """Draws in which worker i draws what worker `ORDER[i]` would; what all share stays."""

    def _bits(self, purpose, workers, steps, count):
        who = np.asarray(workers)
        if who.shape == (4,):
            who = np.array(ORDER)[who % 4] + who // 4 * 4
        return Draws._bits(self, purpose, who, steps, count)


ORDER = [2, 0, 3, 1]


class RenumberedTask:
    """A task in which worker i has the data of worker `ORDER[i]`."""

    def __init__(self, task):
        self.task = task

    def __getattr__(self, name):
        return getattr(self.task, name)

    def gradients(self, params, workers, steps, out):
        """See `Task.gradients`."""
        return self.task.gradients(params, np.array(ORDER)[workers], steps, out)


ORDERS = [
    *RUNS,
    ("masha", {}, None),
    ("extragradient", {}, None),
    ("one-byte-zo", {}, None),
    ("gradient-coding", {"late": 1}, None),
    ("sequential-gradient-coding", {"late": 1}, None),
    ("flag-aggregator", {}, None),
    ("robust", {"aggregator": {"trimmed_mean": {"wrong": 1}}}, None),
]


@pytest.mark.parametrize(("id", "knobs", "inner"), ORDERS, ids=[f"{i}-{len(k)}" for i, k, _ in ORDERS])
def test_order_of_workers_changes_nothing(id, knobs, inner):
    """Workers that swap numbers, data and draws learn the same losses, but for the order of sums."""
    found = []
    for task, draws in ((task_of(), Draws(1)), (RenumberedTask(task_of()), Renumbered(1))):
        job = replace(job_of(task, inner, 12), draws=draws)
        found.append(learn(built(id, job, **knobs), task, job, 4).loss)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-7)
