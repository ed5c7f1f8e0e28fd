"""Trees of steps as requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Floats, Ints
from windtunnel.errors import BadInput, Problem
from windtunnel.progress import counting
from windtunnel.serving.event_loop.prompt_content import Content
from windtunnel.serving.event_loop.request_graph import Dependencies
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.traffic import lengths
from windtunnel.serving.traffic.arrivals import stream
from windtunnel.serving.traffic.single_source import sent, with_prefix
from windtunnel.serving.traffic.trajectories.base import METHODS, Frontier
from windtunnel.specs.traffic import TrafficSpec
from windtunnel.specs.trajectories import Trajectories

SEARCH = 15
"""Stream of random numbers beside a seed."""
MAX_STEPS = 1000
_SEEDS_APART = 1_000_003
_DRAWN_LENGTHS = 4096
FIELD = "serving.traffic.trajectories"


@dataclass(slots=True)
class Grown:
    """Steps of all searches so far, in the order of their requests."""

    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    task: list[Any] = field(default_factory=list)
    depth: list[Any] = field(default_factory=list)
    paths: list[Any] = field(default_factory=list)
    """(N, depth + 1) steps on the way to each, itself the last."""
    count: int = 0

    def add(self, task: int, before: Ints, prompts: Any, outputs: Any) -> Ints:
        """One depth of one search; returns the paths, each ending with the step itself."""
        fresh = np.arange(self.count, self.count + len(outputs), dtype=np.int64)
        self.inputs.append(prompts)
        self.outputs.append(outputs)
        self.task.append(np.full(len(fresh), task))
        self.depth.append(np.full(len(fresh), before.shape[1]))
        paths = np.column_stack([before, fresh])
        self.paths.append(paths)
        self.count += len(fresh)
        return paths


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
    grown = Grown()
    number = 0
    with counting("prompts drawn", lambda: (number, len(inputs))):
        for number, prompt in enumerate(inputs.tolist()):
            _grow(grown, spec, search, number, prompt, ends, rng, seed)
    prompts = np.concatenate(grown.inputs)
    outputs = np.concatenate(grown.outputs)
    if (prompts + outputs).max() > np.iinfo(np.int32).max:
        raise BadInput(Problem(f"{FIELD}.steps", "a trajectory would be too long; fewer steps"))
    task, depth = np.concatenate(grown.task), np.concatenate(grown.depth)
    requests = Requests(
        arrival_s=np.where(depth == 0, at_s[task], np.nan),
        input_tokens=prompts.astype(np.int32),
        output_tokens=outputs.astype(np.int32),
        delay_s=np.where(depth == 0, 0.0, search.score_s),
        group=task.astype(np.int32),
        content=_content(grown, task, inputs.astype(np.int64), outputs, spec.shared_prefix_tokens),
    )
    if depth.any() or spec.concurrency:
        requests.after = _after(task, depth)
    assert requests.content is not None
    requests.prefix_tokens = requests.content.found(np.arange(len(task)), requests.input_tokens)
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
        raise BadInput(*problems)


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
    grown: Grown,
    spec: TrafficSpec,
    search: Trajectories,
    task: int,
    prompt: int,
    ends: Floats,
    rng: Generator,
    seed: int,
) -> None:
    """One prompt's tree, depth by depth."""
    assert spec.output_tokens is not None
    method = METHODS.get(search.method)
    width = count = search.width
    before, latent = np.zeros((count, 0), np.int64), rng.standard_normal(1)
    parent, base = np.zeros(count, np.int64), np.full(count, prompt, np.int64)
    for depth in range(len(ends)):
        own = seed + _SEEDS_APART * (1 + task * (MAX_STEPS + 1) + depth)
        outputs = lengths.draw(spec.output_tokens, count, own, lengths.OUTPUT).astype(np.int64)
        paths = grown.add(task, before, base, outputs)
        fresh = rng.standard_normal(count)
        with_parent = search.score_correlation if depth else 0.0
        latent = with_parent * latent[parent] + np.sqrt(1 - with_parent**2) * fresh
        meaning = _meanings(count, search.meanings, rng)
        on = np.flatnonzero(rng.random(count) >= ends[depth])
        width -= count - len(on)
        if width <= 0 or not len(on):
            return
        frontier = Frontier(_uniform(latent[on]), before[on], meaning[on])
        children = method.children(frontier, width, search)
        parent = np.repeat(on, children)
        count = len(parent)
        before, base = paths[parent], (base + outputs)[parent]
        if not count:
            return


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


def _after(task: Ints, depth: Ints) -> Dependencies:
    """A step waits for all steps of the depth before, by way of one joint between the two."""
    count = len(task)
    begins = np.flatnonzero(np.diff(task, prepend=-1) | np.diff(depth, prepend=-1))
    layer = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, count)))
    ends = np.append(begins, count)
    followed = np.append(task[begins][1:] == task[begins][:-1], False)
    joint = np.where(followed, followed.cumsum() - 1 + count, -1)
    waits = followed[layer]
    counts = np.concatenate([waits.astype(np.int64), np.diff(ends)[1:][followed[:-1]]])
    start = np.concatenate([[0], counts.cumsum()]).astype(np.int64)
    below = np.flatnonzero(np.append(False, followed)[:-1][layer])
    children = np.concatenate([joint[layer][waits], below]).astype(np.int32)
    return Dependencies(start, children, task.astype(np.int32))


def _content(grown: Grown, task: Ints, prompts: Ints, outputs: Any, shared: int) -> Content:
    """Stretches: the prefix that all share, each prompt's own, each step's."""
    lead = 1 + len(prompts)
    rows: list[Any] = []
    sizes: list[Any] = []
    for paths, at in zip(grown.paths, grown.task, strict=True):
        first = np.column_stack([np.zeros(len(at), np.int64), 1 + at])
        both = np.concatenate([first[:, 0 if shared else 1 :], paths + lead], axis=1)
        rows.append(both.ravel())
        sizes.append(np.full(len(at), both.shape[1]))
    start = np.concatenate([[0], np.concatenate(sizes).cumsum()]).astype(np.int64)
    tokens = np.concatenate([[shared], prompts - shared, outputs]).astype(np.int64)
    return Content(start, np.concatenate(rows).astype(np.int32), tokens)
