"""Predictions of rows of reasoning, each from a stated part of its row: the law that it gives, and what follows.

`problem_successes` from 100 attempts drawn with seed 1; `pass_at_k` and `all_of_k` from the two smallest k, or from
pass@1 where a table has no third; `majority`, `two_attempts` and `verifier_selection` from their first attempt;
`parallel_threads`, `early_stop` from the run without. `program_sums` has sums of calls, tokens and dollars.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.population.beta import from_mean
from windtunnel.population.chance import Kind, spread_of_entry
from windtunnel.population.fit import FEWEST_SAMPLES, Fit, fit_counts
from windtunnel.population.fit_tables import (
    ANY_TEMPERATURE,
    FORM,
    PROBLEMS,
    fit_all_of_k,
    fit_pass_1,
    fit_pass_at_k,
)
from windtunnel.population.greedy import COST, FEWEST_RIGHT, sampled_means
from windtunnel.population.majority import USUAL_WRONG, WRONG_BAND, majority
from windtunnel.population.pass_at_k import all_of_k, all_right, at_least_one, pass_at_k
from windtunnel.population.revision import CONCENTRATION, Feedback, feedback_for
from windtunnel.population.reward_model import REWARD_MODEL_SEPARATION, REWARD_MODEL_SPREAD, best_of_n
from windtunnel.population.same_problems import pass_at_k_again, predictive_band, solved_in_all
from windtunnel.population.temperature_per_k import BROKEN, ERROR, chooses, fit_best_temperatures
from windtunnel.validation.predict.prediction import INPUT, LEVEL, Predict, Prediction
from windtunnel.validation.predict.program_sums import (
    agent_cost,
    agent_trace,
    cached_tokens,
    problems_of,
    size_of,
    threads,
)
from windtunnel.validation.rows.outcome_rows import Measured, counts, finite

ATTEMPTS, SEED = 100, 1
"""Attempts at a problem that a prediction may see."""
_LIKE = 0.02
"""Standard deviation of a difference of accuracies that a change of the run's shape does not make, in shares: about
that of repeated runs on a few hundred problems."""


def _problem_successes(row: dict[str, Any], numbers: tuple[Measured, ...]) -> dict[str, Prediction]:
    counted = counts(row)
    if counted is None:
        return {n.metric: Prediction(reason="counts of right attempts do not fit their attempts") for n in numbers}
    correct, samples = counted
    drawn = np.minimum(ATTEMPTS, samples)
    seen = np.random.default_rng(SEED).hypergeometric(correct, samples - correct, drawn)
    if np.median(drawn) < FEWEST_SAMPLES or len(seen) < 8:
        return {n.metric: Prediction(reason="too few problems or attempts for a law") for n in numbers}
    found = fit_counts(seen, drawn)
    out = {}
    for metric, of in (
        ("pass@10", partial(pass_at_k_again, correct=seen, samples=drawn, k=10)),
        ("pass@all", partial(solved_in_all, correct=seen, samples=drawn, total=samples)),
    ):
        low, high = predictive_band(found.draws, of, LEVEL)
        value = of(found.law)[0]
        basis = f"{found.why}; laws that they allow, and chance in further attempts"
        out[metric] = Prediction(value=value, low=min(low, value), high=max(high, value), grade="fitted", basis=basis)
    return out


def _table(row: dict[str, Any], numbers: tuple[Measured, ...], kind: Kind) -> dict[str, Prediction]:
    sign, scale = ("^", 1.0) if kind == "all_of_k" else ("@", 100.0)
    by_k = {int(n.metric.partition(sign)[2]): n for n in numbers if n.metric != "none"}
    shares = {k: float(by_k[k].value or 0.0) / scale for k in sorted(by_k)}
    if len(shares) == 2 and 1 in shares and 0 < shares[1] < 1:
        return _from_pass_1(row, by_k, shares[1], kind, scale)
    first = dict(list(shares.items())[:2])
    if len(first) < 2 or not all(0 <= x <= 1 for x in first.values()) or all(x in (0, 1) for x in first.values()):
        return {n.metric: Prediction(reason="needs two shares to start from") for n in numbers}
    out = {by_k[k].metric: INPUT for k in first}
    later = {k: by_k[k].metric for k in list(shares)[2:]}
    benchmark = chooses(str(row.get("task") or "")) if kind == "pass_at_k" and not _temperature(row) else None
    best = fit_best_temperatures(first, benchmark) if benchmark is not None else None
    if best is not None:
        why = "the row states none; tables of this benchmark choose the best for each k"
        chosen = ("population.temperature", "one for each k", why)
        return out | {later[k]: _in_logits(best.pass_at_k(k), ERROR, scale, chosen) for k in later}
    return out | _through(row, first, later, kind, scale)


def _through(
    row: dict[str, Any], first: dict[int, float], later: dict[int, str], kind: Kind, scale: float
) -> dict[str, Prediction]:
    """Entries of a table from the law of one temperature through two others, with the chance of few problems."""
    size = problems_of(row)
    found = fit_all_of_k(first, size) if kind == "all_of_k" else fit_pass_at_k(first, size, one_temperature=True)
    form = FORM[kind] if kind == "all_of_k" or _temperature(row) else ANY_TEMPERATURE
    drawn = row.get("samples")
    attempts = min(drawn, 1000) if isinstance(drawn, int) and drawn > 0 else max([*first, *later])
    out = {}
    for k, metric in later.items():
        share = float(all_of_k(found.law, k) if kind == "all_of_k" else pass_at_k(found.law, k))
        chance = spread_of_entry(
            found.law, tuple(first), k, kind=kind, attempts=max(k, attempts), problems=size or PROBLEMS
        )
        spread = 1.2816 * float(np.hypot(chance, form * share * (1 - share)))
        out[metric] = Prediction(
            value=scale * share,
            low=scale * max(0.0, share - spread),
            high=scale * min(1.0, share + spread),
            grade=found.grade,
            basis=f"{found.why}; chance of few problems, and what the form of the law leaves",
        )
    return out


def _from_pass_1(
    row: dict[str, Any], by_k: dict[int, Measured], mean: float, kind: Kind, scale: float
) -> dict[str, Prediction]:
    """The other entry of a table of two: the spread over problems is that of other tasks."""
    k = max(by_k)
    strategy = partial(all_right if kind == "all_of_k" else at_least_one, k=float(k))
    shares = (0.0, *BROKEN.values()) if kind == "pass_at_k" else (0.0,)
    draws, values = [], []
    for broken in (x for x in shares if mean < 1.0 - x):
        found = fit_pass_1(mean / (1.0 - broken), None, problems_of(row))
        draws.append((1.0 - broken) * _means(found, strategy))
        values.append((1.0 - broken) * float(strategy(found.law.points()).mean()))
    told = _banded(found, float(np.median(values)), np.concatenate(draws), scale, "laws that rows allow")
    why = "share of problems that no attempt passes: none, or that of other benchmarks"
    assumed = (("population.broken", ", ".join(f"{x:g}" for x in shares), why),) if len(shares) > 1 else ()
    return {by_k[1].metric: INPUT, by_k[k].metric: _with(told, *assumed)}


def _temperature(row: dict[str, Any]) -> bool:
    """Whether the row states one temperature."""
    value = row.get("temperature")
    return isinstance(value, int | float) and not isinstance(value, bool)


def _in_logits(share: float, sd: float, scale: float, *assumed: tuple[str, str, str]) -> Prediction:
    from scipy.special import expit, logit

    ends = expit(logit(share) + np.array([-1.2816, 1.2816]) * sd)
    return Prediction(
        value=scale * share,
        low=scale * float(ends[0]),
        high=scale * float(ends[1]),
        grade="fitted",
        basis="what other tables of best temperatures were off by",
        assumed=assumed,
    )


def _majority(row: dict[str, Any], numbers: tuple[Measured, ...]) -> dict[str, Prediction]:
    first, law = _first(row, numbers)
    if first is None or law is None:
        return {n.metric: Prediction(reason="needs pass@1 to start from") for n in numbers}
    return {first.metric: INPUT} | {n.metric: _vote(law, n) for n in numbers if _votes_of(n.metric, "maj")}


def _vote(found: Fit, number: Measured) -> Prediction:
    n = _votes_of(number.metric, "maj") or 1
    value = float(majority(found.law.points(), n).mean())
    kinds = [_means(found, partial(majority, n=n, wrong_answers=(kind,))) for kind in WRONG_BAND]
    why = "no row has a histogram of wrong answers; shares that AIME 2024 asks for on average"
    told = _banded(found, value, np.concatenate(kinds), 100.0, "laws and histograms of wrong answers that rows allow")
    return _with(told, ("population.wrong_answers", ", ".join(f"{w:g}" for w in USUAL_WRONG), why))


def _verifier_selection(row: dict[str, Any], numbers: tuple[Measured, ...]) -> dict[str, Prediction]:
    first, law = _first(row, numbers)
    if first is None or law is None:
        return {n.metric: Prediction(reason="needs pass@1 to start from") for n in numbers}
    out = {first.metric: INPUT}
    for number in numbers:
        if number is first:
            continue
        if _votes_of(number.metric, "maj"):
            out[number.metric] = _vote(law, number)
        elif n := _votes_of(number.metric, ""):
            out[number.metric] = _selected(law, n)
    return out


def _selected(found: Fit, n: int) -> Prediction:
    d, spread = REWARD_MODEL_SEPARATION, REWARD_MODEL_SPREAD
    value = float(best_of_n(found.law.points(), n, d).mean())
    ends = [_means(found, partial(best_of_n, n=n, separation=d + z * spread)) for z in (-1.28, -0.52, 0.0, 0.52, 1.28)]
    told = _banded(found, value, np.concatenate(ends), 100.0, "laws and separations of reward models that rows allow")
    why = "the row does not say how well the reward model separates; trained ones of 7 to 8B on mathematics"
    return _with(told, ("programs.selector.separation", f"{d:g}", why))


def _two_attempts(row: dict[str, Any], numbers: tuple[Measured, ...]) -> dict[str, Prediction]:
    by_name = {n.metric: n.value for n in numbers}
    first, cases = by_name.get("pass_1_percent"), row.get("cases")
    if first is None or not 0 <= first <= 100 or (cases := finite(cases)) is None or not 1 <= cases <= 1e9:
        return {"pass_2_percent": Prediction(reason="needs the first attempts' share, and how many cases there are")}
    feedback, known = feedback_for(str(row.get("task") or ""))
    value, low, high = second_attempts(first / 100.0, float(cases), feedback)
    why = f"fitted on {feedback.rows} rows" + ("" if known else " of other tasks")
    worth = ("programs.feedback.worth", f"{feedback.worth:.3g} independent attempts", why)
    return {
        "pass_1_percent": INPUT,
        "pass_2_percent": Prediction(
            value=100 * value,
            low=100 * low,
            high=100 * high,
            grade="fitted" if known else "assumed",
            basis="worth of feedback over models, and few cases",
            assumed=(worth, ("population.concentration", f"{CONCENTRATION:g}", "one figure does not say it")),
        ),
    }


def second_attempts(first: float, cases: float, feedback: Feedback) -> tuple[float, float, float]:
    """Share of cases that are right after the second attempt, and the ends of its interval.

    Args:
        first: share that is right after the first attempt.
        cases: of the benchmark.
        feedback: its worth, over models.
    """
    from scipy.special import ndtri

    mean = float(np.clip(first, 0.5 / cases, 1 - 0.5 / cases))
    law = from_mean(mean, CONCENTRATION)

    def second(worth: float) -> float:
        return float(pass_at_k(law, 1.0 + worth))

    ends = np.array([second(float(w)) for w in feedback.worths(40)])
    noise = np.sqrt(np.maximum((ends - mean) * (1 - ends), 0.0) / cases / max(1 - mean, 1e-9))
    values = np.clip(ends[:, np.newaxis] + noise[:, np.newaxis] * ndtri((np.arange(20) + 0.5) / 20), mean, 1.0)
    value = second(feedback.worth)
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return value, min(float(low), value), max(float(high), value)


def _single_attempt(row: dict[str, Any], numbers: tuple[Measured, ...]) -> dict[str, Prediction]:
    by_name = {n.metric: n.value for n in numbers}
    out = {}
    for name, value in by_name.items():
        task, greedy, _ = name.partition("_pass1_greedy")
        mean = next((n for n in by_name if re.fullmatch(re.escape(task) + r"_mean\d+", n)), None)
        problems = size_of(task)
        if not greedy or mean is None or problems is None or value is None or not 0 <= value <= 100:
            continue
        right = round(value / 100 * problems)
        if not FEWEST_RIGHT <= right <= problems - FEWEST_RIGHT:
            out[mean] = Prediction(
                reason=f"a greedy attempt that is right at {right} of {problems} problems says little"
            )
            continue
        means = 100 * sampled_means(float(right), problems)
        low, middle, high = (float(x) for x in np.quantile(means, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2]))
        why = "the row states none; what sampling cost other models next to greedy"
        out[name] = INPUT
        out[mean] = Prediction(
            value=middle,
            low=low,
            high=high,
            basis="one greedy attempt at few problems, and what sampling costs",
            assumed=(("population.temperature", f"{COST:g} logits below greedy", why),),
        )
    return out


def _parallel_threads(row: dict[str, Any], numbers: tuple[Measured, ...]) -> dict[str, Prediction]:
    why = "threads change the order of the same tokens; success of a problem is taken to stay"
    return _unchanged(numbers, "sequential", "threaded", why) | threads(numbers)


def _early_stop(row: dict[str, Any], numbers: tuple[Measured, ...]) -> dict[str, Prediction]:
    why = "traces stop once the vote is decided, which leaves its answer"
    return _unchanged(numbers, "baseline", "online", why, problems_of(row))


def _unchanged(
    numbers: tuple[Measured, ...], before: str, after: str, why: str, problems: int | None = None
) -> dict[str, Prediction]:
    """Accuracy after a change that leaves the success of each problem, and the figures that it starts from."""
    by_name = {n.metric: n.value for n in numbers}
    out = {name: INPUT for name in by_name if name.startswith(before + ".")}
    value = by_name.get(f"{before}.accuracy")
    if value is not None and 0 <= value <= 100:
        share = float(np.clip(value / 100, 0.01, 0.99))
        sd = 100 * max(_LIKE, float(np.sqrt(share * (1 - share) / problems)) if problems else 0.0)
        out[f"{after}.accuracy"] = Prediction(
            value=value,
            low=max(0.0, value - 1.28 * sd),
            high=min(100.0, value + 1.28 * sd),
            basis="chance of few problems",
            assumed=(("population", "unchanged", why),),
        )
    return out


def _first(row: dict[str, Any], numbers: tuple[Measured, ...]) -> tuple[Measured | None, Fit | None]:
    """The figure of single attempts, and its law."""
    first = next((n for n in numbers if n.metric == "pass@1"), None)
    if first is None or first.value is None or not 0 < first.value < 100:
        return None, None
    return first, fit_pass_1(first.value / 100.0, None, problems_of(row) or 500)


def _means(found: Fit, strategy: Any) -> Floats:
    """Mean success under each of the laws that the data allow."""
    from windtunnel.population.population import over_laws

    return over_laws(found.draws, strategy)


def _banded(found: Fit, value: float, values: Floats, scale: float, basis: str) -> Prediction:
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Prediction(
        value=scale * value,
        low=scale * min(float(low), value),
        high=scale * max(float(high), value),
        grade=found.grade,
        basis=found.why + (f"; {basis}" if basis else ""),
    )


def _with(told: Prediction, *assumed: tuple[str, str, str]) -> Prediction:
    spread = ("population.concentration", "that of other tasks", "pass@1 alone does not say it")
    return replace(told, assumed=(*assumed, spread), grade="assumed")


def _votes_of(metric: str, prefix: str) -> int | None:
    """Attempts that a metric's name states: `maj@64` of 64."""
    match = re.fullmatch(rf"{prefix or '[a-z0-9_.-]+'}@(\d+)", metric)
    return int(match.group(1)) if match and int(match.group(1)) > 0 else None


PREDICT: dict[str, Predict] = {
    "problem_successes": _problem_successes,
    "pass_at_k": partial(_table, kind="pass_at_k"),
    "all_of_k": partial(_table, kind="all_of_k"),
    "majority": _majority,
    "single_attempt": _single_attempt,
    "two_attempts": _two_attempts,
    "verifier_selection": _verifier_selection,
    "parallel_threads": _parallel_threads,
    "early_stop": _early_stop,
    "agent_trace": agent_trace,
    "agent_cost": agent_cost,
    "agent_trace_statistics": cached_tokens,
}
REASONS = {
    "problem_successes": "has too few attempts for this figure",
    "pass_at_k": "is no share over k",
    "all_of_k": "is no share over k",
    "majority": "is neither pass@1 nor a vote",
    "two_attempts": "seconds, tokens and dollars are of a hosted model whose devices and prices the row leaves out",
    "verifier_selection": "is neither a vote nor a selection among a stated number",
    "single_attempt": "how often a model is right on a task is data: no other figure of the row says it",
    "parallel_threads": "the row does not say how its chains divide into threads, or how much of each budget is used",
    "early_stop": "the row does not say how certain its traces are, or when, nor how long each is",
    "agent_trace": "is a workload as it was recorded: data, not a prediction",
    "agent_cost": "how often issues are resolved is data; the row has neither token counts nor prices",
    "agent_trace_statistics": "is a workload as it was used: data, not a prediction",
    "ray_": "rows of data pipelines need operators and their rates, which are not read from rows",
    "data_": "rows of data pipelines need operators and their rates, which are not read from rows",
    "minhash_": "rows of data pipelines need operators and their rates, which are not read from rows",
    "rl_": "rows of post-training need `training.rl`, which is not read from rows",
    "diffusion_": "rows of image and video models need `diffusion`, which is not read from rows",
}
