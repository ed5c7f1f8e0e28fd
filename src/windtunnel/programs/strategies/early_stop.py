"""Early stop: attempts and their thinking end as soon as what is known says that more would not change the answer.

Five rules:

* `certain`: n attempts at once; those still running are cancelled once no further vote can change who wins. The answer
  is that of the whole vote.
* `likely`: the same once the leader is ahead of the second with a probability `certainty` (Aggarwal et al. 2023).
* `rounds`: attempts follow in rounds of `round`, each when the one before has ended, until 1 less the entropy of the
  answers so far, in that of answers that all differ, is at least `certainty` (Dynasor's certaindex of votes). With
  `rest` they are asked once: all that are left follow the first round together.
* `probe`: each chain of thought is asked for its answer after every `interval` tokens and ends when `agree` answers in
  a row are the same. A chain has settled on its answer at a share of its tokens, a Beta law of mean `settles` and
  concentration 2 (mean 1/2: uniform); probes before that differ. A probe is a call that goes on from the chain.
* `confidence`: after `warmup` full chains the others end where the lowest confidence of a group of `interval` tokens
  falls below a threshold: the quantile of the warm-up's lowest that keeps the share `keep`. Votes of chains that ended
  so do not count. Confidence of groups is normal, `programs.verifier.separation` apart between right and wrong chains,
  and a share `correlation` of its variance is a chain's own.

Sources: Aggarwal et al. 2023 (arXiv 2305.11860); Fu et al. 2024 (arXiv 2412.20993), Dynasor, sections 3 and 4; github
hao-ai-lab/Dynasor, README: probes each 32 tokens; Fu et al. 2025 (arXiv 2508.15260), DeepConf, section 3.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.errors import ProblemList
from windtunnel.population import majority
from windtunnel.programs.choose_attempt import by_majority
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Banded, Built, Knobs, Strategy
from windtunnel.programs.votes import certain_after, labels, likely_after, over_points, settled_after, winner_right
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.techniques.base import Knob

RULES = ("certain", "likely", "rounds", "probe", "confidence")
PROBE_ANSWER_TOKENS, PROBE_PROMPT_TOKENS = 20, 22
"""Of a probe: what it generates, and the words that ask for an answer (github hao-ai-lab/Dynasor, dynasor/core/cot.py;
tokens of its words are counted by eye)."""
_CONCENTRATION = 2.0
_MOST_GROUPS = 4096


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Nodes by the rule; what ends early is drawn before."""
    match knobs["rule"]:
        case "probe":
            return _probed(graph, work, knobs)
        case "confidence":
            return _by_confidence(graph, work, knobs)
        case "rounds":
            return _in_rounds(graph, work, knobs)
    return _voted(graph, work, knobs)


def success(p: Floats, knobs: Knobs, quality: Quality) -> Floats | Banded:
    """As the vote of all attempts where the rule cannot change it; else as drawn, by success probability."""
    n = knobs["n"]
    if n == 1:
        return p
    if knobs["rule"] in ("certain", "probe"):
        return by_majority(p, n, quality)
    known = quality.wrong_answers or (majority.USUAL_WRONG,)
    own = _drawn_success(p, knobs, quality, known)
    if quality.wrong_answers:
        return own
    ends = [_drawn_success(p, knobs, quality, (majority.WRONG_BAND[at],)) for at in (0, -1)]
    why = "wrong answers are assumed: state population.wrong_answers for votes"
    return Banded(mean=own, low=np.minimum.reduce([own, *ends]), high=np.maximum.reduce([own, *ends]), why=why)


def _voted(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Attempts of a problem begin together: they end in the order of their lengths, and votes are counted in that."""
    n, questions = knobs["n"], work.questions(graph)
    problem = np.repeat(work.problems, n)
    right = work.attempts(problem)
    tokens = work.answer_tokens(right)
    order = np.argsort(tokens.reshape(-1, n), axis=1, kind="stable")
    given = labels(np.take_along_axis(right.reshape(-1, n), order, 1), _known(work.quality), work.random(42))
    needs = certain_after(given) if knobs["rule"] == "certain" else likely_after(given, knobs["certainty"])
    attempts = graph.call(problem, context=questions[problem], output=tokens).reshape(-1, n)
    ends = graph.join(work.problems, after=attempts, needs=needs, cancels=(attempts[:, 0], attempts[:, -1]))
    return Built(ends=ends)


def _in_rounds(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Attempts of a round at once, behind the whole of the round before."""
    n, each, questions = knobs["n"], knobs["round"], work.questions(graph)
    problem = np.repeat(work.problems, n)
    right = work.attempts(problem)
    tokens = work.answer_tokens(right).reshape(-1, n)
    given = labels(right.reshape(-1, n), _known(work.quality), work.random(45))
    stops = _stops(given, knobs)
    ends = np.full(len(questions), NONE)
    starts = [0, each] if knobs["rest"] and each < n else list(range(0, n, each))
    for first, last in pairwise([*starts, n]):
        on = np.flatnonzero(stops > first)
        if not len(on):
            break
        size = last - first
        own = np.repeat(on, size)
        calls = graph.call(
            own,
            context=questions[own],
            output=tokens[on, first : first + size].ravel(),
            after=ends[own] if first else None,
        )
        ends[on] = graph.join(on, after=calls.reshape(-1, size))
    return Built(ends=ends)


def _stops(given: Ints, knobs: Knobs) -> Ints:
    """(M,) attempts of votes in rounds."""
    stops = settled_after(given, knobs["certainty"], knobs["round"])
    return np.where(stops > knobs["round"], given.shape[1], stops) if knobs["rest"] else stops


def settled(random: Generator, mean: float, count: int) -> Floats:
    """(count,) shares of a chain's tokens after which its answer stays."""
    found: Floats = random.beta(mean * _CONCENTRATION, (1 - mean) * _CONCENTRATION, count)
    return found


def stops_at(tokens: Ints, share: Floats, interval: int, agree: int) -> Ints:
    """(B,) tokens after which chains end: so many probes agree once a chain has settled, or it is over anyway."""
    first = np.ceil(tokens * share / interval).astype(np.int64)
    found: Ints = np.minimum(tokens, np.maximum(first + agree - 1, agree) * interval)
    return found


def _probed(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """A chain is a row of calls of `interval` tokens, each going on from the one before, with a probe behind each."""
    n, interval, questions = knobs["n"], knobs["interval"], work.questions(graph)
    problem = np.repeat(work.problems, n)
    tokens = work.answer_tokens(work.attempts(problem))
    share = settled(work.random(43), knobs["settles"], len(problem))
    left = stops_at(tokens, share, interval, knobs["agree"])
    asked = left < tokens
    at, probes = questions[problem].copy(), np.full(len(problem), NONE)
    whole = np.flatnonzero(tokens <= interval)
    at[whole] = graph.call(problem[whole], context=at[whole], output=tokens[whole])
    left[whole] = 0
    on = np.flatnonzero(left > 0)
    while len(on):
        part = np.minimum(left[on], interval)
        at[on] = graph.call(problem[on], context=at[on], output=part)
        left[on] -= part
        full = on[part == interval]
        probes[full] = graph.call(
            problem[full],
            context=at[full],
            new=PROBE_PROMPT_TOKENS,
            output=np.full(len(full), PROBE_ANSWER_TOKENS),
        )
        on = on[left[on] > 0]
    ends = np.where(asked, probes, at)
    return Built(ends=graph.join(work.problems, after=ends.reshape(-1, n)))


def lowest_confidence(
    right: Mask, groups: Ints, separation: float, correlation: float, random: Generator
) -> tuple[Floats, Floats]:
    """(B, G) confidence of the groups of chains, NaN behind their ends, and (B,) the lowest of each."""
    most = int(groups.max(initial=1))
    own = np.sqrt(correlation) * random.standard_normal(right.size)[:, None]
    confidence = own + np.sqrt(1 - correlation) * random.standard_normal((right.size, most))
    confidence += np.where(right.ravel(), separation / 2, -separation / 2)[:, None]
    confidence[np.arange(most)[None, :] >= groups.ravel()[:, None]] = np.nan
    return confidence, np.nanmin(confidence, axis=1)


def drawn_lowest(right: Mask, groups: Ints, separation: float, correlation: float, random: Generator) -> Floats:
    """(B,) lowest confidence of chains, of the law of `lowest_confidence` and without its groups.

    The least of G normal numbers lies below x with 1 − (1 − Φ(x))^G, so one uniform number u gives Φ⁻¹(1 − u^(1/G)).
    """
    from scipy.special import ndtri

    own = np.sqrt(correlation) * random.standard_normal(right.size)
    least = ndtri(-np.expm1(np.log(random.random(right.size)) / groups.ravel()))
    shift = np.where(right.ravel(), separation / 2, -separation / 2)
    return np.asarray(own + np.sqrt(1 - correlation) * least + shift, np.float64)


def _by_confidence(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """The warm-up, then all others at once with the tokens that the threshold leaves them."""
    n, questions = knobs["n"], work.questions(graph)
    warm = min(knobs["warmup"], n)
    problem = np.repeat(work.problems, n)
    right = work.attempts(problem)
    tokens = work.answer_tokens(right)
    groups = _groups(tokens, knobs["interval"])
    confidence, lowest = lowest_confidence(
        right, groups, work.quality.separation, knobs["correlation"], work.random(44)
    )
    least = np.quantile(lowest.reshape(-1, n)[:, :warm], 1 - knobs["keep"], axis=1)
    under = confidence < least[problem][:, None]
    cut = np.where(under.any(1), (under.argmax(1) + 1) * knobs["interval"], tokens)
    shape = (len(questions), n)
    kept = np.minimum(cut, tokens).reshape(shape)
    kept[:, :warm] = tokens.reshape(shape)[:, :warm]
    first = np.repeat(work.problems, warm)
    ends = graph.call(first, context=questions[first], output=kept[:, :warm].ravel()).reshape(-1, warm)
    if warm == n:
        return Built(ends=graph.join(work.problems, after=ends))
    known = graph.join(work.problems, after=ends)
    rest = np.repeat(work.problems, n - warm)
    others = graph.call(rest, context=questions[rest], output=kept[:, warm:].ravel(), after=known[rest])
    return Built(ends=graph.join(work.problems, after=others.reshape(-1, n - warm)))


def _groups(tokens: Ints, interval: int) -> Ints:
    return np.minimum(-(-tokens // interval), _MOST_GROUPS)


def _drawn_success(p: Floats, knobs: Knobs, quality: Quality, wrong: Any) -> Floats:
    n = knobs["n"]

    def likely(chance: float, draws: int, random: Generator) -> float:
        given = labels(random.random((draws, n)) < chance, wrong, random)
        after = likely_after(given, knobs["certainty"])
        return float(winner_right(given, counted=np.arange(n)[None, :] < after[:, None]).mean())

    def agreed(chance: float, draws: int, random: Generator) -> float:
        given = labels(random.random((draws, n)) < chance, wrong, random)
        after = _stops(given, knobs)
        return float(winner_right(given, counted=np.arange(n)[None, :] < after[:, None]).mean())

    def confident(chance: float, draws: int, random: Generator) -> float:
        right = random.random((draws, n)) < chance
        given = labels(right, wrong, random)
        tokens = np.full(draws * n, knobs["interval"])
        if quality.attempts is not None:
            tokens = quality.attempts.draw(right.ravel(), random)
        groups = _groups(tokens, knobs["interval"])
        lowest = drawn_lowest(right, groups, quality.separation, knobs["correlation"], random).reshape(draws, n)
        warm = min(knobs["warmup"], n)
        least = np.quantile(lowest[:, :warm], 1 - knobs["keep"], axis=1)
        return float(winner_right(given, counted=lowest >= least[:, None]).mean())

    chance = {"likely": likely, "rounds": agreed}.get(knobs["rule"], confident)
    return over_points(p, chance, n, known_as=f"early_stop {sorted(knobs.items())} {quality}")


def _known(quality: Quality) -> Any:
    return quality.wrong_answers or (majority.USUAL_WRONG,)


def _check(knobs: Knobs, problems: ProblemList, field: str) -> None:
    if knobs.get("rule") == "confidence" and knobs["n"] <= knobs["warmup"] and knobs["n"] > 1:
        problems.add(f"{field}.warmup", knobs["warmup"], f"must be below n {knobs['n']}: nothing is left to stop")


STRATEGIES.add(
    "early_stop",
    Strategy(
        id="early_stop",
        summary="attempts and their thinking end once votes, probes or confidence settle the answer",
        build=build,
        success=success,
        knobs={
            "n": Knob(16, 1, 10_000, doc="attempts at each problem, at most"),
            "rule": Knob("certain", choices=RULES, doc="what ends them"),
            "certainty": Knob(
                0.95, 0.0, 1.0, doc="likely: chance that the leader is ahead; rounds: how far answers agree"
            ),
            "round": Knob(4, 1, 10_000, doc="rounds: attempts of a round"),
            "rest": Knob(False, doc="rounds: whether all that are left follow the first round together"),
            "interval": Knob(32, 1, 1_000_000, doc="probe, confidence: tokens between probes, or of a group"),
            "agree": Knob(3, 1, 1000, doc="probe: equal answers in a row that end a chain"),
            "settles": Knob(0.5, 0.01, 0.99, doc="probe: mean share of a chain after which its answer stays"),
            "warmup": Knob(16, 1, 10_000, doc="confidence: chains that run in full"),
            "keep": Knob(0.1, 0.0, 1.0, doc="confidence: share of the warm-up's chains above the threshold"),
            "correlation": Knob(0.5, 0.0, 1.0, doc="confidence: share of the variance that is a chain's own"),
        },
        check=_check,
        source="arXiv 2305.11860, 2412.20993, 2508.15260",
    ),
)
