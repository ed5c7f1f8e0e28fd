"""DADAO's rates: gradients grow with √(L/μ), messages with √(χ₁χ₂), and gossip with a fixed rate stalls above both."""

import numpy as np
import pytest
from learning_runs import built, job, quadratic, run


def quadratics(condition: float, workers: int = 8, entries: int = 6):
    g = np.random.default_rng(5)
    a = np.exp(g.uniform(np.log(1 / condition), 0, (workers, entries)))
    a[:, 0], a[:, 1] = 1.0, 1 / condition
    return quadratic(a, g.normal(size=(workers, entries)))


def far(task, params) -> float:
    a, b = task.curvature, task.optimum
    return float(((params - (a * b).mean(axis=0) / a.mean(axis=0)) ** 2).sum())


def slope(condition: float, graph: str, steps: int) -> tuple[float, float, float]:
    """(slope of the log error in a unit of time, exchanges in it, last error)."""
    task = quadratics(condition)
    to = job(task, steps=steps)
    dadao = built("dadao", to, graph=graph, smoothness=1.0, convexity=1 / condition)
    state, out, errors = dadao.start(task.initial()), np.empty(task.optimum.shape), []
    for step in range(steps):
        dadao.own_gradients(task, state, step, out)
        errors.append(np.log(far(task, state.params)))
    late = slice(steps // 2, steps)
    return np.polyfit(np.arange(steps)[late], errors[late], 1)[0], dadao.edge_rate, np.exp(errors[-1])


def test_messages_grow_with_the_graphs_root():
    """In units of √(2χ₁χ₂) messages, all graphs are alike."""
    ring, complete = slope(20, "ring", 300), slope(20, "complete", 300)
    assert ring[1] / complete[1] > 1.9
    assert 0.7 < ring[0] / complete[0] < 1.4


@pytest.mark.slow
def test_gradients_grow_with_the_conditions_root():
    few, many = slope(20, "ring", 600)[0], slope(320, "ring", 2400)[0]
    assert 0.7 < few * np.sqrt(20) / (many * np.sqrt(320)) < 1.4


def test_beats_gossip_on_a_ring_at_equal_gradients():
    task = quadratics(20)
    to = job(task, steps=300, lr=0.5)
    gossip = run(built("gossip", to, graph="ring"), task, to)
    assert slope(20, "ring", 300)[2] < 0.01 * far(task, gossip.params)
