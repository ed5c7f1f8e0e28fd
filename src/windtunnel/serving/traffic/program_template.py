"""Programs by a template: every program has the same nodes, lengths and branches are drawn for each.

Agents of `serving.traffic` and graphs of `programs` both become lists of `Step`s, and one function adds them to a
graph, step by step, each for all programs at once. What nodes return (whether an attempt is right, what a judge says of
it) is drawn with them, so that branches, joins and loops can depend on it (`program_outcomes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.serving.traffic import lengths
from windtunnel.serving.traffic.arrivals import stream
from windtunnel.serving.traffic.program_graph import CALL, NONE, ProgramGraph
from windtunnel.serving.traffic.program_outcomes import Choice, Chosen, Outcomes, chosen
from windtunnel.specs.lengths import Lengths

TOOLS, BRANCHES = 14, 15
"""Streams of random numbers next to a seed."""
SEEDS_APART = 1_000_003
Context = Literal["history", "fresh", "joined"]
Law = Literal["fixed", "exponential"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One node of a template, repeats written out."""

    kind: Literal["call", "tool", "join", "branch", "latest"]
    """`latest`: whatever ran of its parents, the first in their order; it has no node of its own."""
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
    attempt: bool = False
    """Whether a call is an attempt at the problem, right with the chance of its program."""
    worth: float = 1.0
    """Of an attempt: fresh attempts that it is worth."""
    right_tokens: int | Lengths | None = None
    """Of a right attempt; absent: as `output_tokens`."""
    judged: int = NONE
    """Of a call or tool: position of the attempt that it judges."""
    rates: tuple[float, float] = (1.0, 0.0)
    """Of a judge: shares of right and of wrong attempts that it accepts."""
    accepted: tuple[int, ...] = ()
    """Of a branch: positions of judges of which one must accept."""
    rejected: tuple[int, ...] = ()
    """Of a branch: positions of judges that must all reject."""
    outcomes: tuple[int, ...] = ()
    """Of `latest`: positions of what tells for each parent, in their order; empty: the parents themselves."""
    choose: Choice = ""
    """Of a join: how it chooses among its parents; empty: it does not."""
    early: bool = False
    """Whether it is over as soon as the choice is settled."""


@dataclass(slots=True)
class Added:
    """What later steps need of a step, for T programs."""

    ids: Ints
    """(T,) nodes; −1 where it is left out."""
    runs: Mask
    """(T,) whether it is part of a program (a branch that is taken has no node of its own)."""
    source: Ints
    """(T,) call that history goes on from; −1: none."""
    answers: list[Ints]
    """(T,) calls whose answers it hands on, next to the source's history."""
    results: Ints
    """(T,) tokens of tools' results that it hands on."""
    waits: list[Ints]
    """(T,) nodes to wait for."""
    branch: bool = False
    right: Mask | None = None
    """(T,) whether the attempt that it is, judged or chose is right; None: it is about none."""
    accepted: Mask | None = None
    """(T,) whether a judge accepted that."""
    answered: Ints | None = None
    """(T,) call of that attempt."""


@dataclass(slots=True)
class _Around:
    """What is the same for all steps of a template."""

    graph: ProgramGraph
    programs: Ints
    base: Ints
    number: int
    outcomes: Outcomes | None
    done: list[Added]


def add(
    graph: ProgramGraph,
    programs: Ints,
    steps: Sequence[Step],
    base: Ints | int,
    *,
    seed: int,
    number: int = 0,
    outcomes: Outcomes | None = None,
) -> list[Added]:
    """Add all nodes of some programs.

    Args:
        graph: gets the nodes.
        programs: (T,) numbers of programs.
        steps: of the template; parents come before their children.
        base: (T,) texts that prompts begin with, one for all, or −1.
        seed: of all draws.
        number: of the template, which is also the `source` of its calls.
        outcomes: draws what attempts and judges return; needed where a step asks for it.

    Returns:
        For each step, its nodes and what they return.
    """
    first = np.broadcast_to(np.asarray(base, np.int64), programs.shape)
    around = _Around(graph, programs, first, number, outcomes, [])
    for s, step in enumerate(steps):
        own_seed = seed + SEEDS_APART * (1 + number * 1000 + s)
        around.done.append(_step(around, step, own_seed))
    return around.done


def ends(graph: ProgramGraph, programs: Ints, steps: Sequence[Step], added: Sequence[Added]) -> Ints:
    """(T,) join of the last nodes of each program, which is its end: those that nothing waits for or takes back."""
    back = {place for step in steps for place in step.cancels}
    wide = np.stack([own.ids for own in added], axis=1)
    followed = graph.has_children()[wide]
    followed[:, sorted(back)] = True
    last = np.where((wide >= 0) & ~followed, wide, NONE)
    nothing: Mask = np.all(last < 0, axis=1)
    return graph.join(programs, after=np.where(nothing[:, None], wide, last))


def _step(around: _Around, step: Step, seed: int) -> Added:
    parents = [around.done[p] for p in step.parents]
    runs = _runs(parents, len(around.programs))
    match step.kind:
        case "branch":
            return _branch(around, step, parents, runs, seed)
        case "call":
            return _call(around, step, parents, runs, seed)
        case "tool":
            return _tool(around, step, parents, runs, seed)
        case "latest":
            return _latest(parents, [around.done[p] for p in step.outcomes] or parents, runs)
    return _join(around, step, parents, runs)


def _runs(parents: list[Added], count: int) -> Mask:
    """Where a step is part of a program: some parent is, and no branch that it follows is left out."""
    if not parents:
        return np.ones(count, np.bool_)
    runs: Mask = np.logical_or.reduce([p.runs for p in parents])
    for p in parents:
        if p.branch:
            runs = runs & p.runs
    return runs


def _branch(around: _Around, step: Step, parents: list[Added], runs: Mask, seed: int) -> Added:
    if step.otherwise >= 0:
        taken = runs & ~around.done[step.otherwise].runs
    elif step.accepted or step.rejected:
        taken = runs & _told(around.done, step)
    else:
        taken = runs & (stream(seed, BRANCHES).random(len(runs)) < step.probability)
    nowhere = np.full(len(runs), NONE, np.int64)
    return Added(
        ids=nowhere,
        runs=taken,
        source=np.where(taken, _first_source(parents, len(runs)), NONE),
        answers=[np.where(taken, a, NONE) for p in parents for a in p.answers],
        results=np.where(taken, _results(parents, len(runs)), 0),
        waits=[np.where(taken, w, NONE) for p in parents for w in p.waits],
        branch=True,
    )


def _told(done: list[Added], step: Step) -> Mask:
    """(T,) whether the judges of a branch say what it asks for: one of them accepts, or all that ran reject."""
    judges = [done[j] for j in step.accepted or step.rejected]
    ran = np.stack([j.runs for j in judges])
    accepts = ran & np.stack([j.accepted if j.accepted is not None else j.runs for j in judges])
    one: Mask = np.any(accepts, axis=0)
    asked: Mask = np.any(ran, axis=0)
    return one if step.accepted else asked & ~one


def _call(around: _Around, step: Step, parents: list[Added], runs: Mask, seed: int) -> Added:
    graph, programs = around.graph, around.programs
    count = len(programs)
    right, accepted, answered = _returned(around, step, runs)
    new = _tokens(step.input_tokens, count, seed, lengths.INPUT)
    output = _tokens(step.output_tokens, count, seed, lengths.OUTPUT)
    if step.right_tokens is not None and right is not None:
        output = np.where(right, _tokens(step.right_tokens, count, seed, lengths.OUTPUT), output)
    drawn = stream(seed, TOOLS).standard_exponential(count)
    context, joined = _prompt(graph, step, parents, around.base, count)
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
        source=around.number,
        keep_s=step.keep_s,
        reuse=step.reuse,
    )
    return Added(
        ids=ids,
        runs=runs,
        source=ids,
        answers=[],
        results=np.zeros(count, np.int64),
        waits=[ids],
        right=right,
        accepted=accepted,
        answered=ids if step.attempt else answered,
    )


def _returned(around: _Around, step: Step, runs: Mask) -> tuple[Mask | None, Mask | None, Ints | None]:
    """What an attempt or a judge returns: whether it is right, whether it is accepted, and the call of the attempt."""
    if step.attempt:
        assert around.outcomes is not None
        return around.outcomes.attempts(around.programs, step.worth), None, None
    if step.judged == NONE:
        return None, None, None
    of = around.done[step.judged]
    assert around.outcomes is not None and of.right is not None
    accepted = around.outcomes.verdicts(of.right, step.rates) & runs & of.runs
    return of.right, accepted, of.answered


def _prompt(graph: ProgramGraph, step: Step, parents: list[Added], base: Ints, count: int) -> tuple[Ints, list[Ints]]:
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


def _tool(around: _Around, step: Step, parents: list[Added], runs: Mask, seed: int) -> Added:
    graph, programs, count = around.graph, around.programs, len(around.programs)
    drawn: Floats = stream(seed, TOOLS).standard_exponential(count)
    seconds = step.seconds * (drawn if step.seconds_law == "exponential" else np.ones(count))
    nodes, needs = _waited(parents, step.needs, count)
    ids = np.full(count, NONE, np.int64)
    on = np.flatnonzero(runs)
    ids[on] = graph.tool(programs[on], seconds=seconds[on], after=nodes[on], server=step.server, needs=needs[on])
    results = _tokens(step.input_tokens, count, seed, lengths.INPUT)
    right, accepted, answered = _returned(around, step, runs)
    return Added(
        ids=ids,
        runs=runs,
        source=np.where(runs, _first_source(parents, count), NONE),
        answers=[],
        results=np.where(runs, results, 0),
        waits=[ids],
        right=right,
        accepted=accepted,
        answered=answered,
    )


def _join(around: _Around, step: Step, parents: list[Added], runs: Mask) -> Added:
    graph, programs, count = around.graph, around.programs, len(around.programs)
    nodes, needs = _waited(parents, step.needs, count)
    of = _choose(around, step, parents) if step.choose else None
    if of is not None and step.early:
        nodes = np.where(of.waits, np.stack([p.ids for p in parents], axis=1), NONE)
        needs = of.needs
    ids = np.full(count, NONE, np.int64)
    on = np.flatnonzero(runs)
    if on.size:
        ids[on] = graph.join(
            programs[on], after=nodes[on], needs=needs[on], cancels=_taken_back(around.done, step.cancels, on)
        )
    source = _first_source(parents, count)
    answers = [a for p in parents for a in (p.source, *p.answers)]
    answered = None
    if of is not None:
        given = np.stack([p.answered if p.answered is not None else p.source for p in parents], axis=1)
        answered = given[np.arange(count), of.place]
        # an attempt that is taken back has no text: what comes goes on from where the attempts began
        source = np.where(source >= 0, graph["context"][source], NONE) if step.early else answered
        source, answers = np.where(_is_call(graph, source), source, NONE), []
    return Added(
        ids=ids,
        runs=runs,
        source=np.where(runs, source, NONE),
        answers=_each_once([np.where(runs, a, NONE) for a in answers]),
        results=np.where(runs, _results(parents, count), 0),
        waits=[ids],
        right=None if of is None else of.right,
        accepted=None if of is None else of.accepted,
        answered=answered,
    )


def _choose(around: _Around, step: Step, parents: list[Added]) -> Chosen:
    assert around.outcomes is not None
    count = len(around.programs)
    nothing = np.zeros(count, np.bool_)
    right = np.stack([nothing if p.right is None else p.right for p in parents], axis=1)
    judged = [p.accepted for p in parents]
    known = None if any(one is None for one in judged) else np.stack([one for one in judged if one is not None], axis=1)
    runs = np.stack([p.runs for p in parents], axis=1)
    nowhere: Mask = ~np.any(runs, axis=1)
    return chosen(step.choose, right, known, runs | nowhere[:, None], around.outcomes)


def _taken_back(done: list[Added], cancels: tuple[int, ...], on: Ints) -> tuple[Ints, Ints] | None:
    """(B,) first and last node of the stretch that a join takes back; None: it takes nothing back."""
    if not cancels:
        return None
    wide = np.stack([done[c].ids for c in cancels], axis=1)[on]
    known = np.where(wide >= 0, wide, np.iinfo(np.int64).max).min(1)
    return np.where((wide >= 0).any(1), known, NONE), wide.max(1)


def _latest(parents: list[Added], told: list[Added], runs: Mask) -> Added:
    """The first of the parents that ran, in every program, and the value of `told` for it."""
    ran = np.stack([p.runs for p in parents])
    at, rows = ran.argmax(0), np.arange(len(runs))

    def of(columns: list[Ints]) -> Ints:
        return np.where(runs, np.stack(columns)[at, rows], NONE)

    ids = of([p.ids for p in parents])
    answers = [[*p.answers] for p in parents]
    wide = max(len(own) for own in answers)
    none = np.full(len(runs), NONE, np.int64)
    rights, verdicts, calls = [t.right for t in told], [t.accepted for t in told], [t.answered for t in told]
    return Added(
        ids=ids,
        runs=runs,
        source=of([p.source for p in parents]),
        answers=[of([own[k] if k < len(own) else none for own in answers]) for k in range(wide)],
        results=np.where(runs, np.stack([p.results for p in parents])[at, rows], 0),
        waits=[ids],
        right=_taken(rights, at),
        accepted=_taken(verdicts, at),
        answered=None if any(c is None for c in calls) else of([c for c in calls if c is not None]),
    )


def _taken(columns: list[Mask | None], at: Ints) -> Mask | None:
    """(T,) of each program the column `at` that it took; None where one is not known."""
    known = [own for own in columns if own is not None]
    if len(known) < len(columns):
        return None
    found: Mask = np.stack(known)[at, np.arange(len(at))]
    return found


def _waited(parents: list[Added], needs: int, count: int) -> tuple[Ints, Ints]:
    """(T, K) nodes that a joint waits for, and (T,) how many of them must be over."""
    waits = _each_once([w for p in parents for w in p.waits])
    nodes = np.stack(waits, axis=1) if waits else np.full((count, 1), NONE, np.int64)
    return nodes, np.minimum(needs, (nodes >= 0).sum(1))


def _is_call(graph: ProgramGraph, nodes: Ints) -> Mask:
    found: Mask = (nodes >= 0) & (graph["kind"][nodes] == CALL)
    return found


def _first_source(parents: list[Added], count: int) -> Ints:
    """(T,) the call that the first parent with a history goes on from."""
    out = np.full(count, NONE, np.int64)
    for p in parents:
        out = np.where(out < 0, p.source, out)
    return out


def _results(parents: list[Added], count: int) -> Ints:
    out = np.zeros(count, np.int64)
    for p in parents:
        out = out + p.results
    return out


def _tokens(spec: int | Lengths, count: int, seed: int, which: int) -> Ints:
    return lengths.draw(spec, count, seed, which).astype(np.int64)
