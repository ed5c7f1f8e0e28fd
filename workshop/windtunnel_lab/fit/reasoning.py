"""Coefficients of populations from measured rows, and predictions of each model by coefficients of the others.

What a second attempt after feedback is worth (`population.revision`), what a higher temperature costs
(`population.temperature_per_k`), how far reward models separate (`population.selectors`), how many attempts of agents
fail whatever the task (`population.fit_tables.SPOILED`), and what sampling costs next to greedy (`population.greedy`).
On the rows, the functions `fit_…` give the constants of those modules; `left_out` refits them without each model, or
without each task where all rows are of one model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.population.beta import from_mean
from windtunnel.population.chance import spread_of_entry
from windtunnel.population.fit_tables import FORM, fit_all_of_k, fit_pass_1
from windtunnel.population.greedy import FEWEST_RIGHT, sampled_means
from windtunnel.population.pass_at_k import all_of_k, pass_at_k
from windtunnel.population.population import over_laws
from windtunnel.population.revision import CONCENTRATION, Feedback
from windtunnel.population.reward_model import best_of_n, separation_from_accuracy
from windtunnel.population.temperature_per_k import ERROR, chooses, fit_best_temperatures
from windtunnel.validation.predict.program_sums import problems_of, size_of
from windtunnel.validation.predict.reasoning import second_attempts
from windtunnel.validation.rows.parsing.loose_values import number

Row = dict[str, Any]
_QUANTILES = 41
_SPREAD_PRIOR = (np.log(0.6), 0.5)
"""Weak normal prior of ln log_sd: few runs of one model do not show a spread of their own."""
_COSTS = np.arange(0.05, 0.305, 0.01)
_SPOILED = np.arange(0.0, 0.105, 0.01)
_Z80 = 1.2816


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One figure next to what coefficients of other models say of it."""

    what: str
    """Coefficient and task."""
    measured: float
    predicted: float
    low: float
    high: float


def fit_feedback(rows: Sequence[Row]) -> Feedback:
    """Ln κ ~ N(ln worth, log_sd) over rows of two attempts of one task, at the greatest likelihood of their counts."""
    from scipy.optimize import minimize
    from scipy.special import ndtri

    counted = [c for c in map(_two_attempts, rows) if c is not None]
    z = ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)

    def cost(x: Floats) -> float:
        worths = np.exp(x[0] + np.exp(x[1]) * z)
        total = -0.5 * ((x[1] - _SPREAD_PRIOR[0]) / _SPREAD_PRIOR[1]) ** 2
        for mean, missed, right in counted:
            reached = pass_at_k(from_mean(mean, CONCENTRATION), 1.0 + worths)
            p = np.clip((reached - mean) / (1 - mean), 1e-9, 1 - 1e-9)
            log = right * np.log(p) + (missed - right) * np.log1p(-p)
            total += float(np.log(np.mean(np.exp(log - log.max()))) + log.max())
        return -float(total)

    found = minimize(cost, [1.0, np.log(0.6)], method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-3})
    families = {model_of(row) for row in rows}
    models = len(families) if len(families) > 1 else 0  # rows of one family are runs of it
    return Feedback(float(np.exp(found.x[0])), float(np.exp(found.x[1])), len(counted), models)


def _two_attempts(row: Row) -> tuple[float, float, float] | None:
    """Share right at first, cases that were wrong then, and those of them that are right after feedback."""
    cases, first, second = (number(row.get(name)) for name in ("cases", "pass_1_percent", "pass_2_percent"))
    if not cases or first is None or second is None:
        return None
    mean = float(np.clip(first / 100, 0.5 / cases, 1 - 0.5 / cases))
    missed = float(round(cases * (1 - mean)))
    return mean, missed, float(np.clip(round(cases * (second / 100 - mean)), 0, missed))


def fit_cost(rows: Sequence[Row]) -> float:
    """Cost of a higher temperature at which logits of pass@100 are off least, from pass@1 and pass@10."""
    squares = [sum(x * x for row in rows if (x := _off(row, float(cost))) is not None) for cost in _COSTS]
    return round(float(_COSTS[int(np.argmin(squares))]), 2)


def _off(row: Row, cost: float) -> float | None:
    from scipy.special import logit

    table = {int(k): float(x) / 100 for k, x in row["percent"].items()}
    found = fit_best_temperatures({k: table[k] for k in (1, 10)}, chooses(row["task"]) or "", cost)
    return None if found is None else float(logit(found.pass_at_k(100)) - logit(table[100]))


def fit_separation(rows: Sequence[Row]) -> tuple[float, float]:
    """Mean and standard deviation of separations of reward models, from pass@1 and what the best of n solve."""
    found = [d for row in rows for d in _separations(row)]
    return float(np.mean(found)), float(np.std(found, ddof=1))


def _separations(row: Row) -> list[float]:
    points = fit_pass_1(row["percent"]["pass@1"] / 100, None, problems_of(row) or 500).law.points()
    out = []
    for name, value in row["percent"].items():
        selector, _, n = name.partition("@")
        if selector not in ("pass", "maj"):
            d = separation_from_accuracy(points, float(n), value / 100)
            out += [] if d is None else [d]
    return out


def fit_sampling(rows: Sequence[Row]) -> tuple[float, float]:
    """Mean and spread over models of the logits between greedy and sampled pass@1 (`population.greedy`)."""
    from scipy.optimize import minimize
    from scipy.special import expit, logit, ndtri

    pairs = [pair for row in rows for pair in greedy_pairs(row)]
    z = ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)

    def cost(x: Floats) -> float:
        total = -0.5 * ((x[1] - np.log(0.4)) / 0.5) ** 2
        for right, problems, mean in pairs:
            p = np.clip(expit(logit(mean) + x[0] + np.exp(x[1]) * z), 1e-9, 1 - 1e-9)
            log = right * np.log(p) + (problems - right) * np.log1p(-p)
            total += float(np.log(np.mean(np.exp(log - log.max()))) + log.max())
        return -float(total)

    found = minimize(cost, [0.5, np.log(0.4)], method="Nelder-Mead")
    return float(found.x[0]), float(np.exp(found.x[1]))


def greedy_pairs(row: Row) -> Iterator[tuple[float, int, float]]:
    """Problems that the greedy attempt solved, problems, and the mean share of sampled ones."""
    for name, value in row["percent"].items():
        task, greedy, _ = name.partition("_pass1_greedy")
        problems = size_of(task)
        for other, mean in row["percent"].items():
            if greedy and problems and other.startswith(task + "_mean") and 0 < mean < 100:
                yield float(round(value / 100 * problems)), problems, mean / 100


def fit_spoiled(rows: Sequence[Row]) -> float:
    """Share of attempts of agents that fail whatever the task, where pass^3 and pass^4 are off least, in deviations."""
    squares = [sum(_squares(row, float(s)) for row in rows) for s in _SPOILED]
    return round(float(_SPOILED[int(np.argmin(squares))]), 2)


def _squares(row: Row, spoiled: float) -> float:
    table = {int(at): float(x) for at, x in row["fraction"].items()}
    law = fit_all_of_k({1: table[1], 2: table[2]}, row["tasks"], spoiled).law
    total = 0.0
    for k in (3, 4):
        chance = spread_of_entry(law, (1, 2), k, kind="all_of_k", attempts=4, problems=row["tasks"])
        share = float(all_of_k(law, k))
        total += (share - table[k]) ** 2 / (chance**2 + (FORM["all_of_k"] * share * (1 - share)) ** 2)
    return total


def left_out(rows: Iterable[Row]) -> Iterator[LeftOut]:
    """Each figure that a coefficient was fitted on, from coefficients without its model (reward models: its task)."""
    by_kind: dict[str, list[Row]] = {}
    for row in rows:
        by_kind.setdefault(str(row.get("kind")), []).append(row)
    for task, own in _grouped(by_kind.get("two_attempts", []), lambda r: str(r["task"])).items():
        runs = len({model_of(row) for row in own}) == 1
        for others, held in _folds(own, (lambda r: str(r["model"])) if runs else model_of):
            feedback = fit_feedback(others)
            for row in held:
                value, low, high = second_attempts(row["pass_1_percent"] / 100, float(row["cases"]), feedback)
                yield LeftOut(f"second attempt, {task}", row["pass_2_percent"] / 100, value, low, high)
    tables = [r for r in by_kind.get("pass_at_k", []) if chooses(r["task"]) and {"1", "10", "100"} <= set(r["percent"])]
    for others, held in _folds(tables, model_of):
        yield from (_pass_at_100(row, fit_cost(others)) for row in held)
    for others, held in _folds(by_kind.get("single_attempt", []), lambda r: str(r["model"])):
        yield from (x for row in held for x in _sampled(row, *fit_sampling(others)))
    for others, held in _folds(by_kind.get("verifier_selection", []), lambda r: str(r["task"])):
        for row in held:
            yield from _selected(row, *fit_separation(others))


def model_of(row: Row) -> str:
    """The family of a row's model, by the beginning of its name; a run of a model where rows are runs of one."""
    name = str(row["model"]).strip('"').casefold()
    return name if "quantisations" in str(row.get("task")) else name.split(" ")[0].split("/")[-1][:5]


def _pass_at_100(row: Row, cost: float) -> LeftOut:
    from scipy.special import expit, logit

    table = {int(k): float(x) / 100 for k, x in row["percent"].items()}
    found = fit_best_temperatures({k: table[k] for k in (1, 10)}, chooses(row["task"]) or "", cost)
    share = table[10] if found is None else found.pass_at_k(100)
    low, high = expit(logit(share) + np.array([-_Z80, _Z80]) * ERROR)
    return LeftOut(f"pass@100, {row['task']}", table[100], share, float(low), float(high))


def _sampled(row: Row, cost: float, spread: float) -> Iterator[LeftOut]:
    for right, problems, mean in greedy_pairs(row):
        if not FEWEST_RIGHT <= right <= problems - FEWEST_RIGHT:
            continue
        low, middle, high = np.quantile(sampled_means(right, problems, cost, spread), [0.1, 0.5, 0.9])
        yield LeftOut("mean of samples from a greedy attempt", mean, float(middle), float(low), float(high))


def _selected(row: Row, d: float, spread: float) -> Iterator[LeftOut]:
    found = fit_pass_1(row["percent"]["pass@1"] / 100, None, problems_of(row) or 500)
    for name, value in row["percent"].items():
        selector, _, n = name.partition("@")
        if selector in ("pass", "maj"):
            continue
        chosen = [partial(best_of_n, n=float(n), separation=d + z * spread) for z in (-1.28, -0.52, 0.0, 0.52, 1.28)]
        low, high = np.quantile(np.concatenate([over_laws(found.draws, f) for f in chosen]), [0.1, 0.9])
        share = float(best_of_n(found.law.points(), float(n), d).mean())
        yield LeftOut(f"best of {n} by a reward model, {row['task']}", value / 100, share, float(low), float(high))


def _grouped(rows: Iterable[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _folds(rows: Sequence[Row], key: Callable[[Row], str]) -> Iterator[tuple[list[Row], list[Row]]]:
    """The other rows, and those of one key, for each key that leaves others."""
    groups = _grouped(rows, key)
    for name, held in groups.items():
        others = [row for other, own in groups.items() if other != name for row in own]
        if others:
            yield others, held
