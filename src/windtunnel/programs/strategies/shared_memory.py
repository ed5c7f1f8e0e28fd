"""Parallel teams of agents that share a memory: entries of useful steps shorten programs and lengthen contexts.

Teams work on one problem side by side, step by step. A share of their steps concern sub-problems that the other teams
may meet too, each team in an order of its own. A controller scores every step that was worked out and admits it to the
memory or not; a team that comes to a sub-problem whose entry was admitted at an earlier step asks for it by a short
call and reads it, in place of a call and its tool. Keys of the entries of other teams are added to a team's context as
they come, and a useless entry is opened now and then: both are what lax admission costs.

Scores are normal with a separation d between steps that others may meet and steps that they do not. Of useless steps
the share `admission` is admitted, of useful ones Φ(d + Φ⁻¹(admission)). The controller is the verifier of `programs`: a
call that reads the question and the step, next to the team's own work; an entry is there once it has answered.

Source: Fioresi et al. 2026, Learning to share (arXiv 2602.05965). What sharing does to success is not known here:
accuracy is not stated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Ints, Mask
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.techniques.base import Knob

SUBJECTS, ADMITTED, OPENED = 49, 50, 51
"""Streams of random numbers: what steps are about, what is admitted, which useless entries are opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Teams:
    """What the steps of P problems are about, drawn before serving."""

    subject: Ints
    """(P, T, S) number of a sub-problem that other teams may meet; −1 for a step of this team alone."""
    admitted: Mask
    """(P, T, S) whether the controller would admit the step's entry."""


class _Memory:
    """Entries of P problems as steps go by."""

    def __init__(self, problems: int, teams: int, steps: int) -> None:
        self.owner: Ints = np.full((problems, steps), NONE, np.int64)
        """Node that an entry of a sub-problem is there after; −1: there is none."""
        self.entries: Ints = np.zeros((problems, teams), np.int64)
        """Admitted entries, by the team that they come from."""
        self.useless: Ints = np.zeros((problems, teams), np.int64)
        """Of these, entries about what no other team meets."""
        self.shown: Ints = np.zeros((problems, teams), np.int64)
        """Entries of others whose keys a team has read."""


def drawn(work: Workload, knobs: Knobs) -> _Teams:
    """Draw what steps are about and what is admitted; the same for every admission but for what is admitted."""
    from scipy.special import ndtr, ndtri

    shape = (len(work.p), knobs["teams"], knobs["steps"])
    random = work.random(SUBJECTS)
    order = random.random(shape).argsort(2)
    common = random.random(shape) < knobs["overlap"]
    useless = knobs["admission"]
    useful = float(ndtr(knobs["separation"] + ndtri(useless))) if 0.0 < useless < 1.0 else useless
    admitted = work.random(ADMITTED).random(shape) < np.where(common, useful, useless)
    return _Teams(subject=np.where(common, order, NONE), admitted=admitted)


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Step by step, all teams of all problems."""
    problems, questions = work.problems, work.questions(graph)
    own, memory = drawn(work, knobs), _Memory(len(work.p), knobs["teams"], knobs["steps"])
    ends = [questions.copy() for _ in range(knobs["teams"])]
    pending: list[tuple[Ints, Ints]] = [_nothing(problems) for _ in range(knobs["teams"])]
    for step in range(knobs["steps"]):
        learned = []
        for team in range(knobs["teams"]):
            found = _found(own.subject[:, team, step], memory)
            ends[team], pending[team], worked = _step(
                graph, work, knobs, memory, team, found, (questions, ends[team], pending[team])
            )
            learned.append(_judged(graph, work, knobs, questions, worked, own.admitted[:, team, step]))
        for team, entry in enumerate(learned):
            _remember(memory, team, own.subject[:, team, step], entry)
    reading = np.stack(ends, axis=1)
    last = [one[:, None] for _, one in pending]
    new = sum(tokens for tokens, _ in pending)
    answer = work.answer_tokens(work.attempts(problems))
    waits = np.concatenate(last, axis=1)
    return Built(ends=graph.call(problems, context=questions, joined=reading, new=new, output=answer, after=waits))


def _nothing(problems: Ints) -> tuple[Ints, Ints]:
    return np.zeros(len(problems), np.int64), np.full(len(problems), NONE, np.int64)


def _found(subject: Ints, memory: _Memory) -> Ints:
    """(P,) nodes after which entries of these sub-problems are there; −1 where the step must be worked out."""
    rows = np.arange(len(subject))
    return np.where(subject >= 0, memory.owner[rows, np.maximum(subject, 0)], NONE)


def _step(
    graph: ProgramGraph,
    work: Workload,
    knobs: Knobs,
    memory: _Memory,
    team: int,
    found: Ints,
    before: tuple[Ints, Ints, tuple[Ints, Ints]],
) -> tuple[Ints, tuple[Ints, Ints], Ints]:
    """One step of one team.

    Args:
        graph: gets the nodes.
        work: the problems.
        knobs: of the strategy.
        memory: as the step begins.
        team: its number.
        found: (P,) nodes of entries, −1 for steps that must be worked out.
        before: questions, (P,) last nodes of the team, and tokens to add with the nodes that bring them.

    Returns:
        Last nodes, what is to be added to the next prompt and when, and nodes of steps that were worked out (−1: none).
    """
    _, context, (new, wait) = before
    problems, hit = work.problems, found >= 0
    others = memory.entries.sum(1) - memory.entries[:, team]
    keys = (others - memory.shown[:, team]) * knobs["key_tokens"]
    memory.shown[:, team] = others
    strange = memory.useless.sum(1) - memory.useless[:, team]
    opened = work.random(OPENED).binomial(strange, knobs["misread"])
    new = new + keys
    on = np.flatnonzero(opened > 0)
    if len(on):  # asks for entries that do not help, and reads them
        context = context.copy()
        context[on] = graph.call(on, context=context[on], new=new[on], output=knobs["query_tokens"], after=wait[on])
        new, wait = new.copy(), wait.copy()
        new[on], wait[on] = opened[on] * knobs["entry_tokens"], NONE
    output = np.where(hit, knobs["query_tokens"], knobs["output_tokens"])
    ends = graph.call(problems, context=context, new=new, output=output, after=wait)
    brought = np.asarray(np.where(hit, knobs["entry_tokens"], knobs["result_tokens"]), np.int64)
    after = found.copy()
    alone = np.flatnonzero(~hit)
    after[alone] = graph.tool(
        alone,
        seconds=work.tool_seconds("environment", len(problems))[alone],
        after=ends[alone],
        server=work.tool_class("environment"),
    )
    return ends, (brought, after), np.where(hit, NONE, ends)


def _judged(graph: ProgramGraph, work: Workload, knobs: Knobs, questions: Ints, worked: Ints, admitted: Mask) -> Ints:
    """(P,) nodes after which the entry of a step is there; −1 where it is not admitted.

    Where something but not everything is admitted the controller reads every step that was worked out.
    """
    on = np.flatnonzero(worked >= 0)
    there = worked.copy()
    if knobs["controller"] and 0.0 < knobs["admission"] < 1.0 and len(on):
        there[on] = work.score(graph, on, questions[on], worked[on])
    return np.where(admitted, there, NONE)


def _remember(memory: _Memory, team: int, subject: Ints, entry: Ints) -> None:
    """Add entries of one team's step; of a sub-problem the first one stays."""
    known, common = entry >= 0, subject >= 0
    memory.entries[known, team] += 1
    memory.useless[known & ~common, team] += 1
    first = np.flatnonzero(known & common & (_found(subject, memory) < 0))
    memory.owner[first, subject[first]] = entry[first]


def scores(knobs: Knobs) -> bool:
    """Whether a controller reads steps."""
    return bool(knobs["controller"]) and 0.0 < knobs["admission"] < 1.0


STRATEGIES.add(
    "shared_memory",
    Strategy(
        id="shared_memory",
        summary="parallel teams that read what others have worked out, from a memory with admission",
        build=build,
        knobs={
            "teams": Knob(4, 1, 100, doc="teams side by side"),
            "steps": Knob(20, 1, 1000, doc="steps of a team"),
            "overlap": Knob(0.5, 0.0, 1.0, doc="share of steps about sub-problems that other teams may meet"),
            "admission": Knob(0.1, 0.0, 1.0, doc="share of useless steps that are admitted; 0: no memory"),
            "separation": Knob(1.5, 0.0, 20.0, doc="of the controller's scores of useful and useless steps"),
            "misread": Knob(0.005, 0.0, 1.0, doc="chance that a step opens a useless entry, for each"),
            "output_tokens": Knob(250, 1, 10**6, doc="tokens of a step"),
            "result_tokens": Knob(600, 0, 10**7, doc="tokens of a tool's result"),
            "entry_tokens": Knob(600, 0, 10**7, doc="tokens of an entry"),
            "key_tokens": Knob(40, 0, 10**6, doc="tokens of an entry's key, which all other teams read"),
            "query_tokens": Knob(30, 1, 10**6, doc="tokens of a call that asks for an entry"),
            "controller": Knob(True, doc="whether calls of the verifier decide what is admitted"),
        },
        scores=scores,
        tools=("environment",),
        samples=lambda knobs: knobs["teams"],
        source="Fioresi et al. 2026 (arXiv 2602.05965)",
    ),
)
