"""FedAvg, FedProx, SCAFFOLD, SCALLION, DFedSAM and ColD Fusion against what they reduce to, and their bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from learning_runs import ADAMW, built, job, quadratic, run

from windtunnel.errors import BadInput
from windtunnel.learning.drivers.lock_step import learn
from windtunnel.learning.mixing import GRAPHS
from windtunnel.learning.mixing._matrices import metropolis, second_eigenvalue
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks import TASKS
from windtunnel.learning.tasks.base import TaskSetting

UNEQUAL = np.array([[0.3, 1.0, 0.7], [0.9, 0.2, 0.5], [0.6, 0.8, 0.1], [0.4, 0.5, 1.0]])
OPTIMA = np.array([[1.0, -2.0, 0.5], [0.0, 1.0, 2.0], [-1.0, 0.5, 1.5], [2.0, 1.0, -1.0]])
BEST = (UNEQUAL * OPTIMA).mean(axis=0) / UNEQUAL.mean(axis=0)


def mixture(workers: int = 4, split: tuple[str, float] = ("labels", 1.0), **knobs: Any):
    """A small classification, a mixture a worker unless told otherwise, in float64."""
    kind = TASKS.get("gaussian-mixture")
    values = {name: knob.default for name, knob in kind.knobs.items()}
    values |= {"samples": 800, "held_out": 256, "hidden": 12, "dtype": "float64"} | knobs
    return kind.build(TaskSetting(workers, 8, 1, *split), values)


def ends(algorithm: str, task: Any, steps: int, *, lr: float = 0.1, inner: Any = None, seed: int = 1, **knobs: Any):
    """The state after some steps."""
    to = job(task, steps=steps, lr=lr, inner=inner, seed=seed)
    return run(built(algorithm, to, **knobs), task, to)


def test_fedavg_of_everyone_is_local_sgd() -> None:
    task = mixture()
    one = ends("fedavg", task, 40, local_steps=8, by_samples=False)
    other = ends("local_sgd", task, 40, period=8)
    np.testing.assert_allclose(one.anchor, other.anchor, rtol=0, atol=1e-12)


def test_fedavg_with_one_local_step_is_data_parallel() -> None:
    task = mixture()
    one = ends("fedavg", task, 40, local_steps=1, by_samples=False)
    other = ends("data_parallel", task, 40)
    np.testing.assert_allclose(one.anchor[0], other.params.mean(axis=0), rtol=0, atol=1e-12)


def test_inner_states_of_clients_begin_afresh_in_each_round() -> None:
    """A round of Adam from the anchor of the round before is the second round of a run."""
    task = mixture()
    to = job(task, steps=10, lr=0.01, inner=ADAMW)
    one, two = built("fedavg", to, local_steps=5), built("fedavg", to, local_steps=5)
    whole = run(one, task, to)
    state = run(two, task, to, steps=5)
    state.inner = {name: values + 7.0 for name, values in state.inner.items()}
    gradients = np.empty_like(state.params)
    for step in range(5, 10):
        two.own_gradients(task, state, step, gradients)
        two.step(state, gradients, step)
        two.after_step(state, step)
    assert np.array_equal(whole.anchor, state.anchor)


def test_sampled_clients_step_as_they_would_among_all_and_count_by_their_samples() -> None:
    task = mixture(workers=6, split=("dirichlet", 0.5))
    to = job(task, steps=4, lr=0.1)
    algorithm = built("fedavg", to, local_steps=4, active=3)
    state = run(algorithm, task, to)
    clients = algorithm.chosen(0)
    assert len(clients) == 3 and state.params.shape[0] == 3
    alone = []
    for client in clients:
        x, g = task.initial()[None].copy(), np.empty((1, len(task.initial())))
        for step in range(4):
            task.gradients(x, np.array([client]), np.array([step]), g)
            x -= 0.1 * g
        alone.append(x[0])
    weights = task.shards.sizes[clients] / task.shards.sizes[clients].sum()
    np.testing.assert_allclose(state.anchor[0], weights @ np.array(alone), rtol=0, atol=1e-12)
    assert np.ptp(task.shards.sizes[clients]) > 0
    drawn = {tuple(algorithm.chosen(number)) for number in range(20)}
    assert len(drawn) > 5


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox", "scaffold", "scallion-scafcom", "dfedsam", "cold-fusion"])
def test_the_same_seed_gives_the_same_bits_and_another_does_not(algorithm: str) -> None:
    def curve(seed: int):
        kind = TASKS.get("gaussian-mixture")
        values = {name: knob.default for name, knob in kind.knobs.items()} | {"samples": 800, "held_out": 64}
        task = kind.build(TaskSetting(6, 8, seed), values)
        to = job(task, steps=100, lr=0.05, seed=seed)
        return learn(built(algorithm, to), task, to, 20).loss

    assert np.array_equal(curve(1), curve(1))
    assert not np.array_equal(curve(1), curve(2))


def test_fedprox_without_its_term_is_fedavg_and_follows_its_formula_with_it() -> None:
    task = quadratic(UNEQUAL, OPTIMA)
    assert np.array_equal(ends("fedprox", task, 30, proximal=0.0).anchor, ends("fedavg", task, 30).anchor)
    rho, lr, steps = 2.0, 0.1, 5
    state = ends("fedprox", task, steps, lr=lr, local_steps=steps, proximal=rho)
    x = np.ones_like(OPTIMA)
    for _ in range(steps):
        x = x - lr * (UNEQUAL * (x - OPTIMA) + rho * (x - 1.0))
    np.testing.assert_allclose(state.anchor[0], x.mean(axis=0), atol=1e-14)


def test_scaffold_ends_at_the_optimum_where_fedavg_does_not() -> None:
    task = quadratic(UNEQUAL, OPTIMA)
    drift = np.abs(ends("fedavg", task, 4000, lr=0.2, local_steps=10).anchor[0] - BEST).max()
    assert drift > 0.05
    for algorithm in ("scaffold", "scallion-scafcom"):
        state = ends(algorithm, task, 4000, lr=0.2, local_steps=10)
        np.testing.assert_allclose(state.anchor[0], BEST, atol=1e-10)
        controls = UNEQUAL * (BEST - OPTIMA)  # c_i is the gradient of client i at the optimum
        np.testing.assert_allclose(state.extra["controls"], controls, atol=1e-9)


@pytest.mark.parametrize("active", [0, 3])
@pytest.mark.parametrize("server_lr", [1.0, 0.7])
def test_scallion_without_a_compressor_is_scaffold_with_half_the_uplink(active: int, server_lr: float) -> None:
    task = mixture(workers=5, split=("dirichlet", 0.3))
    knobs: dict[str, Any] = {"local_steps": 6, "active": active, "server_lr": server_lr, "lr": 0.05}
    one, other = ends("scaffold", task, 120, **knobs), ends("scallion-scafcom", task, 120, **knobs)
    np.testing.assert_allclose(other.anchor, one.anchor, rtol=0, atol=1e-10)
    np.testing.assert_allclose(other.extra["controls"], one.extra["controls"], rtol=0, atol=1e-10)
    to = job(task, steps=120)
    knobs.pop("lr")
    both = [built(id, to, **knobs).messages(5) for id in ("scaffold", "scallion-scafcom")]
    ups = [[m for m in messages if m.kind == "to_server"] for messages in both]
    assert ups[1][0].nbytes(task.shapes) / ups[0][0].nbytes(task.shapes) == 0.5


def test_scallion_converges_with_an_unbiased_compressor_and_scafcom_with_a_biased_one() -> None:
    task = quadratic(UNEQUAL, OPTIMA)
    for knobs in (
        {"compressor": {"randk": {"fraction": 0.34, "shared": False, "bits": 64}}, "scaling": 1 / 3},
        {"compressor": {"topk": {"fraction": 0.34, "bits": 64}}, "momentum": 0.2},
    ):
        state = ends("scallion-scafcom", task, 20_000, lr=0.05, local_steps=5, server_lr=0.2, **knobs)
        np.testing.assert_allclose(state.anchor[0], BEST, atol=1e-6)


def test_biased_compressors_without_momentum_and_feedback_without_memory_are_refused() -> None:
    to = job(mixture(), steps=1)
    with pytest.raises(BadInput, match=r"scallion-scafcom\.momentum = 1\.0.*allowed: below 1"):
        built("scallion-scafcom", to, compressor="topk")
    with pytest.raises(BadInput, match=r"fedavg\.compressor = topk: needs feedback"):
        built("fedavg", to, compressor="topk")


@pytest.mark.parametrize(("graph", "rounds"), [("ring", 1), ("ring", 4), ("torus", 3)])
def test_dfedsam_lowers_the_distance_to_the_mean_by_lambda_to_the_q(graph: str, rounds: int) -> None:
    """On the slowest eigenvector of W, with steps that move nobody."""
    n = 16
    weights = metropolis(GRAPHS.get(graph).edges(n), n)
    values, vectors = np.linalg.eigh(weights)
    slowest = vectors[:, np.argsort(np.abs(values))[-2]]
    task = quadratic(np.ones((n, 3)), 0.0)
    to = job(task, steps=1, lr=1e-300)
    algorithm = built("dfedsam", to, graph=graph, rounds=rounds, period=1)
    state = algorithm.start(task.initial())
    state.params[:] = 1.0 + slowest[:, None]
    gradients = np.empty_like(state.params)
    algorithm.own_gradients(task, state, 0, gradients)
    algorithm.step(state, gradients, 0)
    algorithm.after_step(state, 0)
    left = np.linalg.norm(state.params - 1.0) / np.sqrt(3)
    assert left == pytest.approx(second_eigenvalue(weights) ** rounds, abs=1e-6)
    messages = algorithm.messages(0)
    assert len(messages) == rounds
    assert sum(m.nbytes(task.shapes) * m.degree for m in messages) == rounds * 12 * messages[0].degree


def test_dfedsam_takes_gradients_uphill_and_is_gossip_without_it() -> None:
    task = quadratic(UNEQUAL, OPTIMA)
    to = job(task, steps=1)
    algorithm = built("dfedsam", to, rho=0.5)
    state = algorithm.start(task.initial())
    gradients = np.empty_like(state.params)
    algorithm.own_gradients(task, state, 0, gradients)
    plain = UNEQUAL * (1.0 - OPTIMA)
    uphill = 1.0 + 0.5 * plain / np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(gradients, UNEQUAL * (uphill - OPTIMA), rtol=1e-12)
    one = ends("dfedsam", task, 20, rho=0.0, period=5, rounds=2)
    other = ends("gossip", task, 20, period=5, rounds=2)
    assert np.array_equal(one.params, other.params)


def test_cold_fusion_costs_a_contributor_two_models_and_approaches_joint_training() -> None:
    task = mixture(workers=4, samples=4000, hidden=32)
    to = job(task, steps=600, lr=0.1)
    algorithm = built("cold-fusion", to, finetune_steps=20)
    curve = learn(algorithm, task, to, 60)
    joint = learn(built("data_parallel", to), task, to, 600)
    assert curve.metric[-1] > curve.metric[3] > curve.metric[0]
    alone = task.evaluate(run(built("local_sgd", to, period=600), task, to, steps=599).params)
    assert alone.metric.max() < curve.metric[-1]  # no contributor knows what all know
    assert joint.metric[-1] - curve.metric[-1] < 0.1 * (joint.metric[-1] - joint.metric[0])
    sent = [m.nbytes(task.shapes) for step in range(20) for m in algorithm.messages(step)]
    assert sent == [4 * len(task.initial())] * 2


@pytest.mark.parametrize("algorithm", ["fedavg", "cold-fusion", "scallion-scafcom"])
def test_bytes_of_uploads_are_those_of_encodings(algorithm: str) -> None:
    task = mixture(workers=6)
    to = job(task, steps=60)
    for bits in (16, 32):
        up, down = built(algorithm, to, bits=bits).messages(49)
        row = task.initial()
        encoded = up.wire.encode(row, task.shapes, Draws(1), 0, 49)
        assert up.nbytes(task.shapes) == len(encoded)
        assert down.nbytes(task.shapes) == 4 * len(row) * down.copies


def test_messages_name_the_clients_of_their_rounds() -> None:
    task = mixture(workers=6)
    algorithm = built("fedavg", job(task, steps=60), local_steps=5, active=2)
    up, down = algorithm.messages(9)
    assert up.participants == tuple(algorithm.chosen(1)) and down.participants == tuple(algorithm.chosen(2))
    assert algorithm.messages(8) == ()
