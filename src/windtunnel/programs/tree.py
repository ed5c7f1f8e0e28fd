"""Searches over steps: trees that a verifier's scores of steps prune, drawn for all problems depth by depth.

A trajectory is right while all its steps are; a step keeps it right with p^(1/D), so that a trajectory alone is right
with p. Scores are normal, the verifier's separation apart between trajectories that are still right and those that are
not; methods see them as what a calibrated reward model says: the chance of being right, given the score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.programs.beam_chances import step_separation
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.serving.traffic.trajectories.base import Frontier, Method
from windtunnel.specs.trajectories import Trajectories


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """Searches of some problems."""

    ends: Ints
    """(P,) node whose end is the end of each search."""
    right: Mask
    """(P,) whether the trajectory with the highest last score is right."""


@dataclass(slots=True)
class _Front:
    """Trajectories of all problems at one depth."""

    problem: Ints
    node: Ints
    right: Mask
    path: Ints


def search(
    graph: ProgramGraph, work: Workload, questions: Ints, problems: Ints, method: Method, settings: Trajectories
) -> Searched:
    """Grow the trees of some problems.

    Args:
        graph: gets the nodes.
        work: the problems.
        questions: (all problems,) their texts.
        problems: (P,) those that are searched.
        method: which steps go on, and as how many.
        settings: width, steps and what the method reads; `steps` is a number.
    """
    assert isinstance(settings.steps, int)
    width, steps = settings.width, settings.steps
    if width == 1:
        right = work.attempts(problems)
        ends = graph.call(problems, context=questions[problems], output=work.answer_tokens(right))
        return Searched(ends=ends, right=right)
    first = np.repeat(problems, width)
    at = _Front(first, questions[first], np.ones(len(first), np.bool_), np.zeros((len(first), 0), np.int64))
    joint = np.full(len(questions), NONE)
    random = work.random(45)
    prior = float(np.mean(work.p[problems])) if len(problems) else 0.5
    for depth in range(steps):
        q = work.p[at.problem] ** (1.0 / steps)
        right = at.right & (random.random(len(q)) < q)
        tokens = work.answer_tokens(right, 1.0 / steps)
        ids = graph.call(at.problem, context=at.node, output=tokens, after=joint[at.problem])
        scored = work.score_steps(graph, at.problem, ids)
        d = work.quality.separation
        if depth < steps - 1:
            d = step_separation(d, steps)
        latent = random.standard_normal(len(right)) + np.where(right, d / 2, -d / 2)
        joint[problems] = graph.join(problems, after=padded(at.problem, scored, problems))
        if depth == steps - 1:
            return Searched(ends=joint[problems], right=_best(at.problem, latent, right, problems))
        score = calibrated(latent, d, prior ** ((depth + 1) / steps))
        children = _children(at.problem, score, at.path, method, settings)
        on = np.repeat(np.arange(len(ids)), children)
        paths = np.column_stack([at.path, ids])
        at = _Front(at.problem[on], ids[on], right[on], paths[on])
    raise AssertionError("a search has one step at least")


def calibrated(latent: Floats, separation: float, prior: float) -> Floats:
    """(N,) chance of being right given scores ±separation/2 + normal noise, where a share `prior` is right."""
    from scipy.special import expit, logit

    return np.asarray(expit(separation * latent + logit(np.clip(prior, 1e-9, 1 - 1e-9))), np.float64)


def padded(group: Ints, nodes: Ints, groups: Ints) -> Ints:
    """(G, K) nodes by group, −1 where a group has fewer; `group` is sorted as `groups` is."""
    place = np.searchsorted(groups, group)
    counts = np.bincount(place, minlength=len(groups))
    starts = np.concatenate([[0], counts.cumsum()[:-1]])
    out = np.full((len(groups), int(counts.max(initial=1))), NONE)
    out[place, np.arange(len(group)) - starts[place]] = nodes
    return out


def _children(group: Ints, score: Floats, path: Ints, method: Method, settings: Trajectories) -> Ints:
    out = np.zeros(len(group), np.int64)
    edges = np.flatnonzero(np.diff(group, prepend=-1, append=-1))
    meaning = np.arange(len(group))
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        own = slice(low, high)
        frontier = Frontier(score[own], path[own], meaning[own])
        out[own] = method.children(frontier, settings.width, settings)
    return out


def _best(group: Ints, latent: Floats, right: Mask, groups: Ints) -> Mask:
    """(G,) whether the trajectory with the highest score is right."""
    order = np.lexsort((latent, group))
    last = np.searchsorted(group[order], groups, side="right") - 1
    found: Mask = right[order][last]
    return found
