"""Compute-optimal allocation: problems are sorted into bins by difficulty; each bin gets the strategy that pays most.

Difficulty is estimated: the logit of p with normal errors of standard deviation `noise`. Bins hold equal shares of
estimates. Each bin gets best of m or beam search of width m, for m a power of two up to 8·n, so that the expected
accuracy of all is greatest at n attempts a problem in the mean; ties of cost are settled by a Lagrange multiplier, and
best of n for all is among the choices, so that the plan never expects less. With `even` every bin gets n
attempts, as the paper has it, and bins differ in the strategy alone.

Source: Snell et al. 2024 (arXiv 2408.03314), sections 3 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.programs.beam_chances import beam_success
from windtunnel.programs.choose_attempt import SELECTORS, SEPARATIONS, chosen, is_scored
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Banded, Built, Knobs, Strategy
from windtunnel.programs.tree import padded, search
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.serving.traffic.trajectories.base import METHODS
from windtunnel.specs.trajectories import Trajectories
from windtunnel.techniques.base import Knob

MOST_OVER = 8
_MOST_BEAM = 64
_NOISE_POINTS = 31


@dataclass(frozen=True, slots=True)
class Option:
    """What a bin may get."""

    kind: str
    """best_of_n or beam."""
    n: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Bins of estimated difficulty with what each gets."""

    edges: Floats
    """(B − 1,) logits of estimates between bins."""
    options: tuple[Option, ...]
    """(B,) from the hardest bin to the easiest."""
    noise: float

    def shares(self, p: Floats) -> Floats:
        """(Q, B) chance that a problem of success p is put into each bin."""
        from scipy.special import ndtr

        x = _logit(p)[:, None]
        if self.noise == 0:
            below = (x < self.edges[None, :]).astype(np.float64)
        else:
            below = np.asarray(ndtr((self.edges[None, :] - x) / self.noise), np.float64)
        ones, zeros = np.ones((len(p), 1)), np.zeros((len(p), 1))
        return np.diff(np.concatenate([zeros, below, ones], axis=1), axis=1)


def plan(points: Floats, knobs: Knobs, quality: Quality) -> Plan:
    """What each bin gets, for a population of equally weighted success probabilities."""
    bins, noise, n = knobs["bins"], float(knobs["noise"]), knobs["n"]
    estimates = _estimates(points, noise)
    edges = np.quantile(estimates, np.arange(1, bins) / bins)
    empty = Plan(edges, (), noise)
    shares = empty.shares(points) / len(points)
    options = _options(knobs)
    worth = np.array([[float(shares[:, b] @ _chance(points, o, knobs, quality)) for o in options] for b in range(bins)])
    cost = shares.sum(0)[:, None] * np.array([o.n for o in options], np.float64)[None, :]
    uniform = [o.kind == "best_of_n" and o.n == n for o in options].index(True)
    best = _spread(worth, cost, float(n), uniform)
    return Plan(edges, tuple(options[at] for at in best), noise)


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Each problem by the option of the bin that its estimate falls into."""
    own = plan(work.quality.points, knobs, work.quality)
    questions = work.questions(graph)
    estimate = _logit(work.p) + own.noise * work.random(48).standard_normal(len(work.p))
    place = np.searchsorted(own.edges, estimate, side="right")
    ends = np.full(len(questions), NONE)
    for option in dict.fromkeys(own.options):
        which = np.array([o == option for o in own.options])
        some = np.flatnonzero(which[place])
        if len(some):
            ends[some] = _one(graph, work, questions, some, option, knobs)
    return Built(ends=ends)


def success(p: Floats, knobs: Knobs, quality: Quality) -> Floats | Banded:
    """Mean over the bins that a problem may be put into."""
    own = plan(quality.points, knobs, quality)
    shares = own.shares(p)

    def part(name: str) -> Floats:
        each = np.stack([_chance(p, o, knobs, quality, name) for o in own.options], axis=1)
        found: Floats = (shares * each).sum(1)
        return found

    if isinstance(chosen(p[:1], 2, knobs["selector"], quality), Banded):
        return Banded(mean=part("mean"), low=part("low"), high=part("high"), why="verifier or votes are assumed")
    return part("mean")


def _one(graph: ProgramGraph, work: Workload, questions: Ints, some: Ints, option: Option, knobs: Knobs) -> Ints:
    if option.kind == "beam":
        settings = Trajectories(method="beam", width=option.n, keep=_kept(option.n), steps=knobs["steps"])
        return search(graph, work, questions, some, METHODS.get("beam"), settings).ends
    problem = np.repeat(some, option.n)
    ends = graph.call(problem, context=questions[problem], output=work.answer_tokens(work.attempts(problem)))
    if is_scored(option.n, knobs["selector"]):
        ends = work.score(graph, problem, questions[problem], ends)
    return graph.join(some, after=padded(problem, ends, some))


def _options(knobs: Knobs) -> list[Option]:
    if knobs["even"]:
        beam = [Option("beam", knobs["n"])] if knobs["beams"] and 4 <= knobs["n"] <= _MOST_BEAM else []
        return [Option("best_of_n", knobs["n"]), *beam]
    sizes = {1 << k for k in range(int(MOST_OVER * knobs["n"]).bit_length()) if (1 << k) <= MOST_OVER * knobs["n"]}
    own = [Option("best_of_n", n) for n in sorted(sizes | {knobs["n"]})]
    if knobs["beams"]:
        own += [Option("beam", n) for n in sorted(sizes) if 4 <= n <= _MOST_BEAM]
    return own


def _kept(width: int) -> int:
    return 1 << (width.bit_length() // 2)


def _chance(p: Floats, option: Option, knobs: Knobs, quality: Quality, part: str = "mean") -> Floats:
    if option.kind == "beam":
        ends = {"low": SEPARATIONS[0], "high": SEPARATIONS[1]}
        d = quality.separation if quality.separation_stated else ends.get(part, quality.separation)
        return beam_success(p, option.n, _kept(option.n), knobs["steps"], d)
    found = chosen(p, option.n, knobs["selector"], quality)
    return getattr(found, part) if isinstance(found, Banded) else found


def _spread(worth: Floats, cost: Floats, budget: float, uniform: int) -> list[int]:
    """(B,) an option for each bin: the greatest worth at a cost of at most the budget, by a Lagrange multiplier."""
    rows = np.arange(len(worth))
    best = np.full(len(worth), uniform)
    multipliers = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, 400)])
    for multiplier in multipliers:
        own = (worth - multiplier * cost).argmax(1)
        if cost[rows, own].sum() <= budget * (1 + 1e-9) and worth[rows, own].sum() > worth[rows, best].sum():
            best = own
    return [int(x) for x in best]


def _estimates(points: Floats, noise: float) -> Floats:
    from scipy.special import ndtri

    errors = ndtri((np.arange(_NOISE_POINTS) + 0.5) / _NOISE_POINTS) * noise
    found: Floats = (_logit(points)[:, None] + errors[None, :]).ravel()
    return found


def _logit(p: Floats) -> Floats:
    inside = np.clip(p, 1e-9, 1 - 1e-9)
    found: Floats = np.log(inside) - np.log1p(-inside)
    return found


STRATEGIES.add(
    "compute_optimal",
    Strategy(
        id="compute_optimal",
        summary="best of n or beam search by the difficulty of a problem, at a mean number of attempts",
        build=build,
        success=success,
        knobs={
            "n": Knob(16, 1, 1024, doc="attempts of a problem in the mean"),
            "selector": Knob("verifier", choices=SELECTORS, doc="who chooses among attempts"),
            "bins": Knob(5, 1, 100, doc="bins of equal shares of problems"),
            "noise": Knob(0.5, 0.0, 10.0, doc="standard deviation of the estimate of difficulty, in the logit of p"),
            "beams": Knob(False, doc="whether a bin may also get beam search"),
            "steps": Knob(8, 1, 100, doc="steps of a trajectory of beam search"),
            "even": Knob(False, doc="whether every bin gets n attempts, and only what is done with them differs"),
        },
        scores=lambda knobs: knobs["beams"] or knobs["selector"] in ("verifier", "weighted"),
        source="Snell et al. 2024 (arXiv 2408.03314), sections 3 and 5",
    ),
)
