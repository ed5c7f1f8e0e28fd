"""Gradients, floors and splits of the tasks that are trained for real."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from windtunnel.errors import BadInput
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS
from windtunnel.learning.tasks.base import Task, TaskSetting, params_of

SMALL: dict[str, dict[str, Any]] = {
    "quadratic": {"params": 24, "shift": 1.0, "curvature_spread": 1.0},
    "logistic": {"inputs": 30, "classes": 5, "samples": 300, "held_out": 64},
    "mlp-digits": {"hidden": 12},
    "gaussian-mixture": {"samples": 400, "held_out": 64, "hidden": 12},
    "teacher-student": {"samples": 300, "held_out": 64, "hidden": 12, "teacher": 8},
    "markov-lm": {"documents": 64, "held_out": 64, "window": 4},
    "ngram-lm": {"documents": 64, "window": 4},
}
LEARNING_RATE = {"quadratic": 0.3, "logistic": 0.2, "teacher-student": 0.02}


def built(task: str, workers: int = 6, batch: int = 5, seed: int = 3, split: tuple[str, float] = ("iid", 0.0), **knobs):
    if task == "mlp-digits":
        pytest.importorskip("sklearn", reason="scikit-learn is an extra")
    kind = TASKS.get(task)
    values = {name: knob.default for name, knob in kind.knobs.items()}
    return kind.build(TaskSetting(workers, batch, seed, *split), {**values, **SMALL[task], **knobs})


def rows_of(task: Task, count: int, seed: int = 0) -> np.ndarray:
    """Different parameters for each row."""
    start = task.initial()
    noise = np.random.default_rng(seed).normal(size=(count, len(start))).astype(start.dtype)
    return start + noise * start.dtype.type(0.1)


@pytest.mark.parametrize("task", SMALL)
def test_gradients_are_slopes_of_losses(task: str) -> None:
    problem = built(
        task, **({} if task == "quadratic" else {"dtype": "float64"}), **({"noise": 0.0} if task == "quadratic" else {})
    )
    workers, steps = np.array([4, 0]), np.array([7, 2])
    params = rows_of(problem, 2)
    assert params.dtype == np.float64 and params.shape[1] == params_of(problem.shapes)
    gradients, scratch = np.empty_like(params), np.empty_like(params)
    problem.gradients(params, workers, steps, gradients)
    gradients = gradients.copy()
    for entry in np.random.default_rng(1).integers(0, params.shape[1], 40):
        ends = []
        for step in (1e-5, -1e-5):
            moved = params.copy()
            moved[:, entry] += step
            ends.append(problem.gradients(moved, workers, steps, scratch).copy())
        slope = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(slope, gradients[:, entry], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("task", SMALL)
def test_a_row_has_the_same_bits_alone_and_among_others(task: str) -> None:
    problem = built(task, workers=9)
    workers, steps = np.array([5, 2, 8, 0, 3, 1, 7]), np.array([0, 4, 4, 9, 1, 1, 3])
    params = rows_of(problem, 7)
    together = np.empty_like(params)
    losses = problem.gradients(params, workers, steps, together).copy()
    for rows in ([3], [6, 0], [4, 3, 2, 1], [0, 1, 2, 3, 4, 5, 6][::-1]):
        some = np.empty((len(rows), params.shape[1]), params.dtype)
        theirs = problem.gradients(params[rows], workers[rows], steps[rows], some)
        assert np.array_equal(some, together[rows])
        assert np.array_equal(theirs, losses[rows])


@pytest.mark.parametrize("task", SMALL)
def test_workers_and_steps_have_batches_of_their_own_whatever_their_number(task: str) -> None:
    few, many = built(task, workers=4), built(task, workers=9)
    params = rows_of(few, 1)
    first, second = np.empty_like(params), np.empty_like(params)
    seen = []
    for worker, step in ((0, 0), (0, 1), (3, 0)):
        few.gradients(params, np.array([worker]), np.array([step]), first)
        if task != "quadratic":  # whose bowls are drawn for each worker
            many.gradients(params, np.array([worker]), np.array([step]), second)
            assert np.array_equal(first, second)
        seen.append(first.copy())
    assert not np.array_equal(seen[0], seen[1]) and not np.array_equal(seen[0], seen[2])


STEPS = {"markov-lm": 60, "ngram-lm": 60}
"""Of tasks whose steps take longest."""


@pytest.mark.parametrize("task", SMALL)
def test_losses_fall_and_stay_above_the_floor(task: str) -> None:
    problem = built(task, batch=32)
    params = np.tile(problem.initial(), (6, 1))
    before = problem.evaluate(params[:1])
    out = np.empty_like(params)
    for step in range(STEPS.get(task, 200)):
        problem.gradients(params, np.arange(6), np.full(6, step), out)
        params -= out.dtype.type(LEARNING_RATE.get(task, 0.1)) * out.mean(axis=0)
    after = problem.evaluate(params)
    assert after.loss.shape == after.metric.shape == (6,)
    assert np.ptp(after.loss) == 0.0
    assert after.loss[0] < before.loss[0]
    if problem.floor is not None:
        assert after.loss[0] >= problem.floor
    if problem.metric:
        assert after.metric[0] > before.metric[0]


@pytest.mark.parametrize("task", [task for task in SMALL if task != "quadratic"])
def test_data_are_the_same_for_all_seeds_and_starts_are_not(task: str) -> None:
    one, two = built(task, seed=1), built(task, seed=2)
    params = rows_of(one, 1)
    assert np.array_equal(one.evaluate(params).loss, two.evaluate(params).loss)
    assert not np.array_equal(one.initial(), two.initial())


def test_a_step_makes_no_arrays_of_the_size_of_its_parameters() -> None:
    problem = built("gaussian-mixture", workers=8, inputs=784, hidden=128)
    params = np.tile(problem.initial(), (8, 1))
    out, who = np.empty_like(params), np.arange(8)
    problem.gradients(params, who, np.zeros(8, np.int64), out)
    tracemalloc.start()
    problem.gradients(params, who, np.ones(8, np.int64), out)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 0.02 * params.nbytes


def test_floors_are_reached_by_the_laws_that_made_the_data() -> None:
    """The class means as weights of the linear map: no other loss is lower, and this one is the floor."""
    problem = built("logistic", dtype="float64")
    means = Draws(1).normals("class means", np.arange(5), 0, 30)
    means *= 3.0 / np.linalg.norm(means, axis=1, keepdims=True)
    best = np.concatenate([means.T.ravel(), -0.5 * (means * means).sum(axis=1)])
    assert problem.evaluate(best[None]).loss[0] == pytest.approx(problem.floor, abs=1e-12)


def test_a_student_that_is_the_teacher_has_no_loss() -> None:
    problem = built("teacher-student", teacher=12, hidden=12, dtype="float64")
    teacher = problem.net.initial(Draws(1), "teacher")
    assert problem.evaluate(teacher[None]).loss[0] == pytest.approx(0.0, abs=1e-20)


def test_markov_documents_follow_their_laws() -> None:
    from windtunnel.learning.tasks.markov_lm import bayes_law, documents, stationary_pairs, transition_laws

    draws = Draws(5)
    laws = transition_laws(4, 2, 1.0, 1.0, 0.7, draws)
    pairs = np.array([stationary_pairs(law) for law in laws])
    np.testing.assert_allclose(np.einsum("kab,kabc->kbc", pairs, laws), pairs, atol=1e-12)
    topic = np.arange(20_000) % 2
    tokens = documents(laws, pairs, topic, 5, draws, "test")
    for k in range(2):
        mine = tokens[topic == k]
        for at in (0, 2):  # pairs at the start, and after two transitions
            counts = np.bincount(mine[:, at] * 4 + mine[:, at + 1], minlength=16) / len(mine)
            assert np.abs(counts - pairs[k].ravel()).max() < 4 * 0.5 / np.sqrt(len(mine))
    law = bayes_law(laws, pairs, tokens[:, :4])
    np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-12)
    hits = law[np.arange(len(tokens)), tokens[:, 4]]
    entropy = -(law * np.log(law)).sum(axis=1)
    noise = 4 * np.std(np.log(hits)) / np.sqrt(len(hits))
    assert -np.log(hits).mean() == pytest.approx(entropy.mean(), abs=noise)  # calibrated, so it is Bayes' law


def test_the_markov_network_has_6752_parameters() -> None:
    assert params_of(built("markov-lm").shapes) == 6752


def test_a_dirichlet_split_is_uneven_where_its_concentration_is_small() -> None:
    labels = np.arange(6000) % 10
    spread = {}
    for alpha in (0.1, 100.0):
        shards = _split(("dirichlet", alpha), labels, workers=8)
        everything = np.sort(np.concatenate([shards.of(i) for i in range(8)]))
        assert np.array_equal(everything, np.arange(6000))  # each sample has one owner
        assert shards.sizes.min() > 0
        law = np.array([np.bincount(labels[shards.of(i)], minlength=10) / shards.sizes[i] for i in range(8)])
        spread[alpha] = law.std(axis=0).mean()
    assert spread[100.0] < 0.03 and spread[0.1] > 0.15


def test_a_label_split_gives_each_worker_its_number_of_classes() -> None:
    labels = np.arange(6000) % 10
    shards = _split(("labels", 2.0), labels, workers=20)
    assert [len(np.unique(labels[shards.of(i)])) for i in range(20)] == [2] * 20
    assert np.array_equal(np.unique(labels[np.concatenate([shards.of(i) for i in range(20)])]), np.arange(10))


def test_splits_refuse_more_classes_or_workers_than_there_are() -> None:
    with pytest.raises(BadInput, match=r"learning.split.labels = 11: the task has 10 classes"):
        _split(("labels", 11.0), np.arange(100) % 10, workers=4)
    with pytest.raises(BadInput, match=r"learning.workers = 8: the task has 5 samples"):
        _split(("dirichlet", 1.0), np.arange(5), workers=8)


@pytest.mark.parametrize("task", ["gaussian-mixture", "markov-lm"])
def test_split_workers_draw_from_their_own_samples_alone(task: str) -> None:
    problem = built(task, workers=4, batch=64, split=("labels", 1.0))
    groups = problem.text.groups if task == "markov-lm" else None
    drawn = problem.shards.batches(problem.setting.draws, np.arange(4), np.zeros(4, np.int64), 64)
    for worker in range(4):
        assert np.isin(drawn[worker], problem.shards.of(worker)).all()
        if groups is not None:
            assert worker >= 4 or len(np.unique(groups[drawn[worker]])) <= 2


def _split(how: tuple[str, float], labels: np.ndarray, workers: int):
    from windtunnel.learning.tasks.splits import split

    return split(TaskSetting(workers, 8, 1, *how), labels, Draws(1))


def test_a_text_file_is_learned_by_characters(tmp_path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("the quick brown fox jumps over the lazy dog. " * 40, encoding="utf-8")
    problem = built("ngram-lm", file=str(file), document_tokens=40)
    assert problem.net.vocabulary == 28
    assert problem.text.tokens.shape == (41, 40)  # 45 documents, each tenth held out
    assert problem.evaluate(problem.initial()[None]).loss[0] > 2.0


def test_text_files_that_cannot_be_learned_are_refused_in_one_line(tmp_path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("too short", encoding="utf-8")
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        built("ngram-lm", file=str(tmp_path / "none.txt"))
    with pytest.raises(BadInput, match="has 9 characters; ten documents of 256 are the least"):
        built("ngram-lm", file=str(short))


def test_digits_without_scikit_learn_name_the_command(monkeypatch) -> None:
    import sys

    from windtunnel.learning.tasks.mlp_digits import digits

    digits.cache_clear()
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(BadInput, match=r"pip install 'windtunnel\[learn\]'") as caught:
        digits(1, "float32")
    assert len(str(caught.value).splitlines()) == 1


def test_a_curve_is_learned_anew_when_the_file_of_its_task_changes(tmp_path) -> None:
    from windtunnel.learning.prepare_learning import prepare_learning

    file = tmp_path / "text.txt"
    scenario = {"learning": {"task": {"ngram-lm": {"file": str(file), "document_tokens": 40}}, "steps": 10}}
    digests = []
    for text in ("once upon a time there was a link. ", "once upon a time there was a node. "):
        file.write_text(text * 40, encoding="utf-8")
        digests.append(prepare_learning(scenario).base.digest())
    assert digests[0] != digests[1]


def test_tasks_have_their_ids_and_knobs_whose_defaults_are_allowed() -> None:
    contract = "quadratic logistic mlp-digits gaussian-mixture teacher-student markov-lm ngram-lm torch-module"
    assert set(contract.split()) <= set(TASKS.list())
    for id, kind in TASKS.items():
        assert kind.id == id and kind.summary
        assert [name for name, knob in kind.knobs.items() if knob.problem(knob.default)] == []


_LEARN = """
import hashlib, sys
from windtunnel.learning.drivers.lock_step import learn
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.inner.adamw import AdamW
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.job import Job
from windtunnel.one_thread import one_thread
from windtunnel.learning.tasks import TASKS
from windtunnel.learning.tasks.base import TaskSetting
kind = TASKS.get("gaussian-mixture")
knobs = {n: k.default for n, k in kind.knobs.items()} | {"inputs": 200, "hidden": 150, "held_out": 512}
task = kind.build(TaskSetting(4, 64, 1), knobs)
job = Job(workers=4, steps=30, shapes=task.shapes, inner=AdamW(), lr=LearningRate(1e-2), draws=task.setting.draws)
way = ALGORITHMS.get("diloco")
algorithm = way.build(job, {n: k.default for n, k in way.knobs.items()} | {"period": 5})
curve = learn(algorithm, task, job, 5)
with one_thread() as limited:
    print(limited, hashlib.sha256(curve.loss.tobytes() + curve.train_loss.tobytes()).hexdigest())
"""


def test_bits_do_not_depend_on_the_threads_of_the_machine() -> None:
    import os
    import subprocess
    import sys

    told = []
    for threads in ("1", "2"):
        environment = {**os.environ, **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), threads)}
        out = subprocess.run(
            [sys.executable, "-c", _LEARN], capture_output=True, text=True, check=True, env=environment
        )
        told.append(out.stdout)
    if not told[0].startswith("True"):
        pytest.skip("this NumPy's linear algebra cannot be told to use one thread")
    assert told[0] == told[1]
