"""Monte Carlo tree search: rollouts that descend by UCT, expand a step into several, and evaluate each by a call.

A rollout waits for the one before it: its choice depends on the values that came back. After the last one the steps
that were visited most are followed, and a call finishes the answer where they end before it does. No closed form is
known of how often that is right: accuracy is that of the programs as they were drawn.

Source: Xie et al. 2024 (arXiv 2405.00451), section 3.1, self-evaluation in place of rollouts to the end.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.tree import calibrated
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.techniques.base import Knob

ROOT = 0


class _Trees:
    """Trees of P problems in arrays (P, M): node 0 is the root, children of a node lie side by side."""

    def __init__(self, problems: int, rollouts: int, branching: int) -> None:
        shape = (problems, 1 + rollouts * branching)
        self.rows = np.arange(problems)
        self.branching = branching
        self.child: Ints = np.full(shape, NONE)
        self.parent: Ints = np.full(shape, NONE)
        self.depth: Ints = np.zeros(shape, np.int64)
        self.visits: Floats = np.zeros(shape)
        self.value: Floats = np.zeros(shape)
        self.right: Mask = np.ones(shape, np.bool_)
        self.node: Ints = np.full(shape, NONE)

    def descend(self, exploration: float | None) -> Ints:
        """(P,) leaves: by UCT, or by visits where no exploration is asked for."""
        at = np.full(len(self.rows), ROOT)
        while True:
            first = self.child[self.rows, at]
            inner = first >= 0
            if not inner.any():
                return at
            own = first[:, None] + np.arange(self.branching)
            own = np.where(inner[:, None], own, 0)
            visits = self.visits[self.rows[:, None], own]
            if exploration is None:
                worth = visits + 1e-3 * self._mean(own)
            else:
                above = np.log(np.maximum(self.visits[self.rows, at], 1.0))[:, None]
                worth = self._mean(own) + exploration * np.sqrt(above / np.maximum(visits, 1e-9))
            best = own[self.rows, worth.argmax(1)]
            at = np.where(inner, best, at)

    def _mean(self, own: Ints) -> Floats:
        rows = self.rows[:, None]
        found: Floats = self.value[rows, own] / np.maximum(self.visits[rows, own], 1.0)
        return found

    def back_up(self, leaf: Ints, value: Floats) -> None:
        """Count a visit and a value from leaves up to the roots."""
        at = leaf
        while (at >= 0).any():
            on = at >= 0
            self.visits[self.rows[on], at[on]] += 1.0
            self.value[self.rows[on], at[on]] += value[on]
            at = np.where(on, self.parent[self.rows, np.maximum(at, 0)], NONE)


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Rollouts one after another, all problems side by side."""
    branching, steps, problems = knobs["branching"], knobs["steps"], work.problems
    questions = work.questions(graph)
    trees = _Trees(len(problems), knobs["n"], branching)
    trees.node[:, ROOT] = questions
    joint = np.full(len(problems), NONE)
    random = work.random(46)
    q, d = work.p ** (1.0 / steps), work.quality.separation
    prior = float(work.p.mean())
    for rollout in range(knobs["n"]):
        leaf = trees.descend(knobs["exploration"])
        open_ = np.flatnonzero(trees.depth[trees.rows, leaf] < steps)
        first = 1 + rollout * branching
        # a finished answer is counted again as it was
        value = trees.value[trees.rows, leaf] / np.maximum(trees.visits[trees.rows, leaf], 1.0)
        if len(open_):
            new = first + np.arange(branching)
            problem = np.repeat(open_, branching)
            above = np.repeat(leaf[open_], branching)
            right = trees.right[problem, above] & (random.random(len(problem)) < q[problem])
            tokens = work.answer_tokens(right, 1.0 / steps)
            ids = graph.call(problem, context=trees.node[problem, above], output=tokens, after=joint[problem])
            evaluated = work.score_steps(graph, problem, ids)
            joint[open_] = graph.join(open_, after=evaluated.reshape(-1, branching))
            columns = np.tile(new, len(open_))
            latent = random.standard_normal(len(problem)) + np.where(right, d / 2, -d / 2)
            depth = trees.depth[problem, above] + 1
            score = calibrated(latent, d, prior)
            trees.child[open_, leaf[open_]] = first
            trees.parent[problem, columns] = above
            trees.depth[problem, columns] = depth
            trees.right[problem, columns] = right
            trees.node[problem, columns] = ids
            best = score.reshape(-1, branching).argmax(1)
            trees.visits[problem, columns] = 1.0
            trees.value[problem, columns] = score
            value[open_] = score.reshape(-1, branching)[np.arange(len(open_)), best]
        trees.back_up(leaf, value)
    return _answered(graph, work, trees, joint, steps)


def _answered(graph: ProgramGraph, work: Workload, trees: _Trees, joint: Ints, steps: int) -> Built:
    """Follow the most visited steps; finish what ends before the answer does."""
    leaf = trees.descend(None)
    depth, right = trees.depth[trees.rows, leaf], trees.right[trees.rows, leaf].copy()
    ends = joint.copy()
    short = np.flatnonzero(depth < steps)
    if len(short):
        left = (steps - depth[short]) / steps
        right[short] &= work.random(47).random(len(short)) < work.p[short] ** left
        tokens = np.maximum(np.rint(work.answer_tokens(right[short]) * left), 1).astype(np.int64)
        ends[short] = graph.call(short, context=trees.node[short, leaf[short]], output=tokens, after=joint[short])
    return Built(ends=ends, right=right)


STRATEGIES.add(
    "mcts",
    Strategy(
        id="mcts",
        summary="Monte Carlo tree search over steps, each evaluated by a call",
        build=build,
        knobs={
            "n": Knob(16, 1, 2000, doc="rollouts, one after another"),
            "branching": Knob(4, 1, 64, doc="steps that an expansion tries"),
            "steps": Knob(8, 1, 100, doc="steps of an answer"),
            "exploration": Knob(1.0, 0.0, 100.0, doc="weight of what was visited seldom (UCT)"),
        },
        scores=lambda knobs: True,
        source="Xie et al. 2024 (arXiv 2405.00451), section 3.1",
    ),
)
