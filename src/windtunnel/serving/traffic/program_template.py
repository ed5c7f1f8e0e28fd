"""Programs by a template: every program has the same nodes, lengths and branches are drawn for each.

Agents of `serving.traffic` and graphs of `programs` both become lists of `Step`s, and one function adds them to a
graph, step by step, each for all programs at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.serving.traffic import lengths
from windtunnel.serving.traffic.arrivals import stream
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.specs.lengths import Lengths

TOOLS, BRANCHES = 14, 15
"""Streams of random numbers beside a seed."""
SEEDS_APART = 1_000_003
Context = Literal["history", "fresh", "joined"]
Law = Literal["fixed", "exponential"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One node of a template, repeats written out."""

    kind: Literal["call", "tool", "join", "branch"]
    parents: tuple[int, ...] = ()
    """Positions in the list of steps."""
    context: Context = "fresh"
    """What a call's prompt begins with; `fresh` where it has no parents."""
    input_tokens: int | Lengths = 0
    """That the caller adds to a prompt, or a tool's result to the next one; from 0."""
    output_tokens: int | Lengths = 1
    seconds: float = 0.0
    """Mean, of a tool; before a call: of the tools between it and what it waits for."""
    seconds_law: Law = "exponential"
    pool: int = 0
    server: int = NONE
    """Class of tool servers that a tool needs a slot of."""
    keep_s: float | None = None
    """Absent: as the graph has it."""
    reuse: bool = False
    probability: float = 1.0
    """Of a branch."""
    otherwise: int = NONE
    """Of a branch: position of the one in whose place it is taken."""
    needs: int = 0
    cancels: tuple[int, ...] = ()
    """Positions of steps, one after the other."""


@dataclass(slots=True)
class _Added:
    """What later steps need of a step, for T programs."""

    ids: Ints
    """(T,) nodes; −1 where it is left out."""
    runs: Mask
    """(T,) whether it is part of a program (a branch that is taken has no node of its own)."""
    source: Ints
    """(T,) call that history goes on from; −1: none."""
    answers: list[Ints]
    """(T,) calls whose answers it hands on, beside the source's history."""
    results: Ints
    """(T,) tokens of tools' results that it hands on."""
    waits: list[Ints]
    """(T,) nodes to wait for."""
    branch: bool = False


def add(
    graph: ProgramGraph, programs: Ints, steps: Sequence[Step], base: Ints | int, *, seed: int, number: int = 0
) -> list[Ints]:
    """Add all nodes of some programs.

    Args:
        graph: gets the nodes.
        programs: (T,) numbers of programs.
        steps: of the template; parents come before their children.
        base: (T,) texts that prompts begin with, one for all, or −1.
        seed: of all draws.
        number: of the template, which is also the `source` of its calls.

    Returns:
        For each step, (T,) its nodes; −1 where it is left out, and for branches.
    """
    first = np.broadcast_to(np.asarray(base, np.int64), programs.shape)
    done: list[_Added] = []
    for s, step in enumerate(steps):
        own_seed = seed + SEEDS_APART * (1 + number * 1000 + s)
        done.append(_step(graph, programs, step, done, first, own_seed, number))
    return [one.ids for one in done]


def ends(graph: ProgramGraph, programs: Ints, nodes: Sequence[Ints]) -> Ints:
    """(T,) join of all nodes of each program: what its end is."""
    wide = np.stack([own for own in nodes if (own >= 0).any()], axis=1)
    return graph.join(programs, after=wide)


def _step(
    graph: ProgramGraph, programs: Ints, step: Step, done: list[_Added], base: Ints, seed: int, number: int
) -> _Added:
    parents = [done[p] for p in step.parents]
    runs = _runs(parents, len(programs))
    if step.kind == "branch":
        return _branch(step, parents, done, runs, seed)
    if step.kind == "call":
        return _call(graph, programs, step, parents, runs, base, seed, number)
    return _joint(graph, programs, step, parents, done, runs, seed)


def _runs(parents: list[_Added], count: int) -> Mask:
    """Where a step is part of a program: some parent is, and no branch that it follows is left out."""
    if not parents:
        return np.ones(count, np.bool_)
    runs: Mask = np.logical_or.reduce([p.runs for p in parents])
    for p in parents:
        if p.branch:
            runs = runs & p.runs
    return runs


def _branch(step: Step, parents: list[_Added], done: list[_Added], runs: Mask, seed: int) -> _Added:
    if step.otherwise >= 0:
        taken = runs & ~done[step.otherwise].runs
    else:
        taken = runs & (stream(seed, BRANCHES).random(len(runs)) < step.probability)
    nowhere = np.full(len(runs), NONE, np.int64)
    return _Added(
        ids=nowhere,
        runs=taken,
        source=np.where(taken, _first_source(parents, len(runs)), NONE),
        answers=[np.where(taken, a, NONE) for p in parents for a in p.answers],
        results=np.where(taken, _results(parents, len(runs)), 0),
        waits=[np.where(taken, w, NONE) for p in parents for w in p.waits],
        branch=True,
    )


def _call(
    graph: ProgramGraph,
    programs: Ints,
    step: Step,
    parents: list[_Added],
    runs: Mask,
    base: Ints,
    seed: int,
    number: int,
) -> _Added:
    count = len(programs)
    new = _tokens(step.input_tokens, count, seed, lengths.INPUT)
    output = _tokens(step.output_tokens, count, seed, lengths.OUTPUT)
    drawn = stream(seed, TOOLS).standard_exponential(count)
    context, joined = _prompt(graph, step, parents, base, count)
    after = _each_once([w for p in parents for w in p.waits], but=[context, *joined])
    ids = np.full(count, NONE, np.int64)
    on = np.flatnonzero(runs)
    ids[on] = graph.call(
        programs[on],
        context=context[on],
        new=(new + _results(parents, count))[on],
        output=output[on],
        joined=np.stack(joined, axis=1)[on] if joined else None,
        after=np.stack(after, axis=1)[on] if after else None,
        delay_s=(step.seconds * (drawn if step.seconds_law == "exponential" else np.ones(count)))[on],
        pool=step.pool,
        source=number,
        keep_s=step.keep_s,
        reuse=step.reuse,
    )
    return _Added(ids=ids, runs=runs, source=ids, answers=[], results=np.zeros(count, np.int64), waits=[ids])


def _prompt(graph: ProgramGraph, step: Step, parents: list[_Added], base: Ints, count: int) -> tuple[Ints, list[Ints]]:
    """What a prompt goes on from, and the calls whose answers come behind it."""
    answers: list[Ints] = []
    for p in parents:
        answers += [p.source, *p.answers]
    if step.context == "fresh" or not parents:
        return base, _each_once(answers)
    context = _first_source(parents, count)
    if step.context == "joined":
        context = np.where(context >= 0, graph["context"][context], NONE)
        return np.where(context >= 0, context, base), _each_once(answers)
    others = [np.where(a == context, NONE, a) for a in answers]
    return np.where(context >= 0, context, base), _each_once(others)


def _each_once(nodes: list[Ints], but: Sequence[Ints] = ()) -> list[Ints]:
    """(T,) nodes without those that come again or are in `but`, and without columns that are empty."""
    out: list[Ints] = []
    for own in nodes:
        for known in (*but, *out):
            own = np.where(own == known, NONE, own)
        if (own >= 0).any():
            out.append(own)
    return out


def _joint(
    graph: ProgramGraph,
    programs: Ints,
    step: Step,
    parents: list[_Added],
    done: list[_Added],
    runs: Mask,
    seed: int,
) -> _Added:
    count = len(programs)
    drawn: Floats = stream(seed, TOOLS).standard_exponential(count)
    waits = _each_once([w for p in parents for w in p.waits])
    nodes = np.stack(waits, axis=1) if waits else np.full((count, 1), NONE, np.int64)
    needs = np.minimum(step.needs, (nodes >= 0).sum(1))
    ids = np.full(count, NONE, np.int64)
    on = np.flatnonzero(runs)
    results = np.zeros(count, np.int64) if step.kind == "tool" else _results(parents, count)
    answers = [a for p in parents for a in (p.source, *p.answers)]
    if step.kind == "tool":
        seconds = step.seconds * (drawn if step.seconds_law == "exponential" else np.ones(count))
        ids[on] = graph.tool(programs[on], seconds=seconds[on], after=nodes[on], server=step.server, needs=needs[on])
        results = results + _tokens(step.input_tokens, count, seed, lengths.INPUT)
        answers = []
    elif on.size:
        stretch = [done[c].ids for c in step.cancels]
        cancels = None
        if stretch:
            wide = np.stack(stretch, axis=1)[on]
            known = np.where(wide >= 0, wide, np.iinfo(np.int64).max).min(1)
            first = np.where((wide >= 0).any(1), known, NONE)
            cancels = (first, wide.max(1))
        ids[on] = graph.join(programs[on], after=nodes[on], needs=needs[on], cancels=cancels)
    return _Added(
        ids=ids,
        runs=runs,
        source=np.where(runs, _first_source(parents, count), NONE),
        answers=_each_once([np.where(runs, a, NONE) for a in answers]),
        results=np.where(runs, results, 0),
        waits=[ids],
    )


def _first_source(parents: list[_Added], count: int) -> Ints:
    """(T,) the call that the first parent with a history goes on from."""
    out = np.full(count, NONE, np.int64)
    for p in parents:
        out = np.where(out < 0, p.source, out)
    return out


def _results(parents: list[_Added], count: int) -> Ints:
    out = np.zeros(count, np.int64)
    for p in parents:
        out = out + p.results
    return out


def _tokens(spec: int | Lengths, count: int, seed: int, which: int) -> Ints:
    return lengths.draw(spec, count, seed, which).astype(np.int64)
