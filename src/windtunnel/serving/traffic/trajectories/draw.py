"""Searches as programs: trees of steps, drawn prompt by prompt, depth by depth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Floats, Ints
from windtunnel.errors import BadInput, Problem
from windtunnel.progress import counting
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.traffic import lengths
from windtunnel.serving.traffic.arrivals import stream
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.serving.traffic.single_source import sent, with_prefix
from windtunnel.serving.traffic.trajectories.base import METHODS, Frontier
from windtunnel.specs.traffic import TrafficSpec
from windtunnel.specs.trajectories import Trajectories

SEARCH = 15
"""Stream of random numbers next to a seed."""
MAX_STEPS = 1000
_SEEDS_APART = 1_000_003
_DRAWN_LENGTHS = 4096
FIELD = "serving.traffic.trajectories"


def draw(spec: TrafficSpec, seed: int) -> tuple[Requests, tuple[tuple[str, Any, str], ...]]:
    """Steps of all searches, prompt by prompt, depth by depth.

    Scores and lengths do not depend on when steps are computed, so a tree is known before it is served.

    Returns:
        Requests with `content`, `group` (the prompt) and, where steps wait for others, `after`; and what was assumed.
    """
    search = spec.trajectories
    assert search is not None and spec.input_tokens is not None
    _check(search)
    at_s = sent(spec, seed, spec.num_requests, 1.0)
    inputs = lengths.draw(spec.input_tokens, len(at_s), seed, lengths.INPUT)
    inputs, assumed = with_prefix(inputs, np.ones(len(at_s), np.bool_), spec)
    rng, ends = stream(seed, SEARCH), hazard(search, seed)
    graph = ProgramGraph(at_s)
    shared = graph.shared_text(spec.shared_prefix_tokens) if spec.shared_prefix_tokens else NONE
    tasks = np.arange(len(inputs))
    prompts = graph.text(tasks, inputs - spec.shared_prefix_tokens, context=shared)
    number, lower = 0, "serving.traffic.num_requests, serving.traffic.duration_s"
    with counting("prompts drawn", lambda: (number, len(inputs)), lower) as pace:
        for number, prompt in enumerate(prompts.tolist()):
            pace.check()
            _grow(graph, spec, search, number, prompt, ends, rng, seed)
    requests = graph.finish().requests
    assert requests.after is not None
    if not len(requests.after.children) and not spec.concurrency:
        requests.after = None  # samples of one step: requests that stand alone
    return requests, assumed


def _check(search: Trajectories) -> None:
    """That the method is known and reads what is said."""
    own = METHODS.get(search.method, f"{FIELD}.method")
    problems = []
    for name in ("keep", "temperature", "node_cost", "coverage", "meanings"):
        if name in search.model_fields_set and name not in own.reads:
            problems.append(Problem(f"{FIELD}.{name}", f"is not read by method {search.method}; leave it out"))
    if search.keep is not None and search.keep > search.width:
        problems.append(Problem(f"{FIELD}.keep", f"must be at most width {search.width}", search.keep))
    if problems:
        raise BadInput(problems)


def hazard(search: Trajectories, seed: int) -> Floats:
    """(D,) chance that a step at each depth is the last one, when those before it were not; 1 at the last depth."""
    if isinstance(search.steps, int):
        out = np.zeros(search.steps)
        out[-1] = 1.0
        return out
    drawn = lengths.draw(search.steps, _DRAWN_LENGTHS, seed, SEARCH).astype(np.int64)
    if drawn.max() > MAX_STEPS:
        raise BadInput(Problem(f"{FIELD}.steps", f"must be at most {MAX_STEPS}; give max", int(drawn.max())))
    ended = np.bincount(drawn)[1:]
    shares: Floats = ended / np.maximum(ended[::-1].cumsum()[::-1], 1)
    return shares


def _grow(
    graph: ProgramGraph,
    spec: TrafficSpec,
    search: Trajectories,
    task: int,
    prompt: int,
    ends: Floats,
    rng: Generator,
    seed: int,
) -> None:
    """One prompt's tree, depth by depth: a step waits for all steps of the depth before, by way of one joint."""
    assert spec.output_tokens is not None
    method = METHODS.get(search.method)
    width = count = search.width
    latent = rng.standard_normal(1)
    parent = np.zeros(count, np.int64)
    before, joint = np.full(count, prompt), np.array([NONE])
    paths = np.zeros((count, 0), np.int64)
    own_task = np.array([task])
    for depth in range(len(ends)):
        own = seed + _SEEDS_APART * (1 + task * (MAX_STEPS + 1) + depth)
        outputs = lengths.draw(spec.output_tokens, count, own, lengths.OUTPUT).astype(np.int64)
        delay_s = search.score_s if depth else 0.0
        ids = graph.call(np.full(count, task), context=before, output=outputs, after=joint, delay_s=delay_s)
        paths = np.column_stack([paths, ids])
        fresh = rng.standard_normal(count)
        with_parent = search.score_correlation if depth else 0.0
        latent = with_parent * latent[parent] + np.sqrt(1 - with_parent**2) * fresh
        meaning = _meanings(count, search.meanings, rng)
        on = np.flatnonzero(rng.random(count) >= ends[depth])
        width -= count - len(on)
        if width <= 0 or not len(on):
            return
        frontier = Frontier(_uniform(latent[on]), paths[on, :-1], meaning[on])
        children = method.children(frontier, width, search)
        parent = np.repeat(on, children)
        count = len(parent)
        if not count:
            return
        joint = graph.join(own_task, after=ids[None, :])
        before, paths = ids[parent], paths[parent]


def _uniform(latent: Floats) -> Floats:
    """Normal numbers as shares of a normal law below them."""
    from scipy.special import ndtr

    below: Floats = ndtr(latent)
    return below


def _meanings(count: int, concentration: float, rng: Generator) -> Ints:
    """(N,) what each step of a depth says: the same as one of those drawn before it, or something new."""
    drawn = rng.random(count)
    out = np.empty(count, np.int64)
    for i in range(count):
        place = drawn[i] * (i + concentration)
        out[i] = out[int(place)] if place < i else i
    return out
