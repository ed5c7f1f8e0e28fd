"""Lock-step algorithms whose workers fail and join: who learns, on which clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.curves import CurveKey, learn_curve
from windtunnel.learning.drivers.elastic_members import ElasticMembers
from windtunnel.learning.inner import INNER
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.job import Job
from windtunnel.learning.randomness import Draws
from windtunnel.learning.simulate import simulate_learning
from windtunnel.learning.tasks import TASKS

FAILING = {"causes": [{"name": "gpu", "per_1000_node_days": 4e6, "detect_s": 5}], "repair_s": 200}
"""A worker of one node fails every 22 s."""
SECTION: dict[str, Any] = {
    "task": "quadratic",
    "workers": 4,
    "steps": 120,
    "step_s": 1.0,
    "parameters": 1e6,
    "link": {"bandwidth": "1 Gb/s", "latency": "10 ms"},
}
DILOCO = {"diloco": {"period": 10}}


def learned(**changes: Any) -> Any:
    return simulate_learning({"learning": {**SECTION, **changes}}, cache=False)


def curve(began: list[list[int]] | None, survived: list[list[int]] | None = None, **changes: Any) -> Any:
    clock = {} if began is None else {"began": began, "survived": survived or began}
    fields: dict[str, Any] = {
        "task": "quadratic",
        "task_knobs": {key: knob.default for key, knob in TASKS.get("quadratic").knobs.items()},
        "workers": 4,
        "steps": 40,
        "batch": 4,
        "algorithm": "diloco",
        "algorithm_knobs": knobs("diloco", period=10),
        "inner": "adamw",
        "inner_knobs": {key: knob.default for key, knob in INNER.get("adamw").knobs.items()},
        "lr": {"peak": 0.05},
        "split": "iid",
        "split_value": 0.0,
        "seed": 1,
        "evaluate_every": 5,
        "clock": clock,
    }
    return learn_curve(CurveKey(**{**fields, **changes})).curve


def knobs(name: str, **given: Any) -> dict[str, Any]:
    return {key: knob.default for key, knob in ALGORITHMS.get(name).knobs.items()} | given


EVERYONE = [[0, 1, 2, 3]] * 4


@pytest.mark.parametrize("name", ["diloco", "local_sgd", "intellect-1", "sparseloco"])
def test_where_nobody_fails_it_is_the_plain_algorithm(name: str) -> None:
    chosen = {"algorithm": name, "algorithm_knobs": knobs(name, period=10)}
    np.testing.assert_allclose(curve(EVERYONE, **chosen).loss, curve(None, **chosen).loss, rtol=1e-12)


@pytest.mark.parametrize("name", ["diloco", "local_sgd", "intellect-1"])
def test_a_worker_that_never_comes_changes_nothing_for_the_others(name: str) -> None:
    chosen = {"algorithm": name, "algorithm_knobs": knobs(name, period=10)}
    without = curve([[0, 1, 2]] * 4, **chosen)
    fewer = curve(None, workers=3, **chosen)
    np.testing.assert_allclose(without.loss, fewer.loss, rtol=1e-12)
    np.testing.assert_allclose(without.train_loss, fewer.train_loss, rtol=1e-12)


def test_what_a_lost_worker_has_done_does_not_count() -> None:
    lost = curve(EVERYONE, [[0, 1, 2, 3], [0, 1, 2], [0, 1, 2], [0, 1, 2]])
    gone = curve([[0, 1, 2, 3], [0, 1, 2], [0, 1, 2], [0, 1, 2]])
    np.testing.assert_allclose(lost.loss, gone.loss, rtol=1e-12)


def test_a_round_whose_work_is_all_lost_changes_nothing() -> None:
    plain = curve(EVERYONE, EVERYONE)
    nobody = curve(EVERYONE, [[0, 1, 2, 3], [], [0, 1, 2, 3], [0, 1, 2, 3]])
    assert nobody.loss[4] == nobody.loss[2] == plain.loss[2]  # points are every five steps
    assert nobody.loss[-1] != nobody.loss[4]


def test_who_is_back_takes_the_first_step_of_fresh_states_from_the_anchor() -> None:
    """AdamW's first step is the learning rate times the sign of the gradient, which it never is later."""
    job = Job(
        workers=2,
        steps=3,
        shapes=((3,),),
        inner=INNER.get("adamw").build({"beta1": 0.9, "beta2": 0.99, "eps": 0.0, "weight_decay": 0.0}),
        lr=LearningRate(0.1),
        draws=Draws(1),
    )
    composed = ALGORITHMS.get("diloco").build(job, knobs("diloco", period=1))
    members = ElasticMembers.of(composed, {"began": [[0, 1]] * 3, "survived": [[0, 1], [0], [0, 1]]})
    state = members.start(np.zeros(3))
    gradient = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
    for step in range(2):
        members.step(state, gradient * (step + 1), step)
        members.after_step(state, step)
    assert not state.inner["m"][1].any() and state.inner["m"][0].any()
    np.testing.assert_array_equal(state.params[1], state.anchor[0])
    members.step(state, 7.0 * gradient, 2)
    np.testing.assert_allclose(state.anchor[0] - state.params[1], 0.1 * np.sign(gradient[1]), rtol=1e-12)
    assert not np.allclose(state.anchor[0] - state.params[0], 0.1 * np.sign(gradient[0]), rtol=1e-3)


def test_a_scenarios_failures_cost_time_bytes_and_loss_of_rounds_alone() -> None:
    there, failing = learned(algorithms=[DILOCO]), learned(algorithms=[DILOCO], failures=FAILING)
    one, other = there.of("diloco"), failing.of("diloco")
    assert other.hours >= one.hours
    assert other.bytes_per_worker < one.bytes_per_worker
    assert other.utilisation < one.utilisation
    assert any("lost in a round" in note for note in other.notes)
    again = learned(algorithms=[DILOCO], failures=FAILING)
    np.testing.assert_array_equal(failing.curves[0].loss, again.curves[0].loss)


def test_a_profile_without_failures_is_the_same_clock() -> None:
    never = {"causes": [{"name": "gpu", "per_1000_node_days": 1e-9}]}
    for steps in (120, 125):
        there, failing = (learned(algorithms=[DILOCO], steps=steps, failures=f) for f in (None, never))
        np.testing.assert_allclose(failing.curves[0].time_s, there.curves[0].time_s, rtol=1e-9)
        np.testing.assert_allclose(failing.curves[0].bytes, there.curves[0].bytes, rtol=1e-12)
        np.testing.assert_allclose(failing.curves[0].joules, there.curves[0].joules, rtol=1e-9)
        np.testing.assert_array_equal(failing.curves[0].loss, there.curves[0].loss)


def test_those_that_cannot_go_on_are_named() -> None:
    found = learned(algorithms=["data_parallel", DILOCO, {"local_adam": {"period": 10}}], failures=FAILING)
    (note,) = [n for n in found.notes if "run without failures" in n]
    assert note.startswith("data_parallel, local_adam run")


def test_late_joiners_of_diloco_come_at_a_border() -> None:
    found = learned(algorithms=[DILOCO], joins=[0, 0, 0, 35])
    there = learned(algorithms=[DILOCO])
    assert found.of("diloco").bytes_per_worker < there.of("diloco").bytes_per_worker
    assert not any("join late" in n for n in found.notes)
