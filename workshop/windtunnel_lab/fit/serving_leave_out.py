"""Serving rows predicted as if their whole set had never been measured: what a new user's server gets.

A set is what one record measured with one release line on one device (`residual_bands.set_of`). Its rows leave the fit,
coefficients of its release line and generation are fitted to what is left, or taken from other sets where fewer than
two models are left; intervals know neither the set nor its part in the deviation between sets.

`python -m windtunnel_lab.fit.serving_leave_out [ROWS.json]` prints the table: of the residuals that ship, or of
a new fit to the rows (ten minutes); `--page` writes docs/accuracy/serving-left-out.md.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from windtunnel.arrays import Floats, Mask
from windtunnel.calibration.server_priors import PRIORS
from windtunnel.serving.results.joint_draws import Draws, RunShape, joint_draws
from windtunnel.serving.results.measured_residuals import (
    COLUMNS,
    FIRST_TOKEN_SHARE,
    FORM,
    LOAD,
    MEASURE,
    Deviation,
    Place,
    Residual,
    Set,
    known_residuals,
    set_of,
)
from windtunnel.serving.results.measured_residuals import LEFT_OUT_SET as LEFT_OUT
from windtunnel_lab.fit.serving import THIN, Fitter, State
from windtunnel_lab.fit.serving_cases import Case, Observation, predict
from windtunnel_lab.fit.serving_pooling import Known, expected


def case_set(case: Case) -> Set:
    """The set of a case: (record, release line, device)."""
    return case.family, case.block[0], case.group.rpartition(" @ ")[2]


def without_set(fitter: Fitter, best: State, use: Mask, block: tuple[str, str]) -> State:
    """The fit of one release line on one generation without some of its rows, all others as they are."""
    state = best.copy()
    left = {fitter.groups[j] for j in fitter.of[block] if use[j]}
    if len(left) < THIN:
        told = {n: {b: own for b, own in fitter.told(n, best).items() if b != block} for n in fitter.known_names(block)}
        center = {n: Known(expected(n, PRIORS[n][0], block, told[n]).log, PRIORS[n][0]) for n in told}
        state.center[block], state.at[block] = center, {n: own.log for n, own in center.items()}
        errors, weights = fitter.errors(state.at, [block])
        rows = fitter.of[block]
        state.errors[rows], state.weights[rows] = errors[rows], weights[rows]
    if left:
        fitter.solve([block], state, use.astype(np.float64), 2, fresh=False)
    return state


def left_out_sets(
    fitter: Fitter, best: State, cases: Sequence[Case], apart: Sequence[Observation]
) -> tuple[Floats, Floats]:
    """Errors of what is fitted to, and of what is only predicted, each with its whole set left out of the fit."""
    own, beyond = np.full(len(fitter.seen), np.nan), np.full(len(apart), np.nan)
    sets = [case_set(cases[o.case]) for o in fitter.seen]
    others = [case_set(cases[o.case]) for o in apart]
    measured = np.array([o.log_measured for o in apart])
    for one in sorted({*sets, *others}):
        mine, theirs = np.array([s == one for s in sets]), np.array([s == one for s in others], bool)
        block = next(case.block for case in cases if case_set(case) == one)
        state = best
        if mine.any():
            state = without_set(fitter, best, ~mine, block)
            own[mine] = state.errors[mine]
        if theirs.any():
            at = {block: state.at.get(block, {})}
            values, _ = predict(cases, [o for o, his in zip(apart, theirs, strict=True) if his], at)
            beyond[theirs] = values - measured[theirs]
        fitter.say(f"without {' '.join(one)}: {int(mine.sum() + theirs.sum())} values")
    return own, beyond


FEW_SETS = 4
"""Sets below which nothing is stated of a correlation between them."""


def between_sets(rows: Sequence[Residual]) -> float:
    """Standard deviation of the logarithm by which whole sets are off, beyond what groups inside a set differ.

    The moment estimator of DerSimonian and Laird (Controlled Clinical Trials 7, 1986) on medians of (model, device)
    groups: what the means of sets scatter more than groups inside sets explain.
    """
    groups: dict[Set, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[set_of(row)][str(row[4])].append(float(row[LEFT_OUT]))
    medians = {one: np.array([np.median(errors) for errors in own.values()]) for one, own in groups.items()}
    if len(medians) < 2:
        return 0.0
    spread = sum(float(((m - m.mean()) ** 2).sum()) for m in medians.values())
    freedom = sum(len(m) - 1 for m in medians.values())
    inside = spread / freedom if freedom else 0.0
    means = np.array([m.mean() for m in medians.values()])
    if inside == 0.0:
        return float(means.std(ddof=1))
    weights = np.array([len(m) / inside for m in medians.values()])
    middle = float((weights * means).sum() / weights.sum())
    excess = float((weights * (means - middle) ** 2).sum()) - (len(means) - 1)
    return math.sqrt(max(excess, 0.0) / float(weights.sum() - (weights**2).sum() / weights.sum()))


def correlation(rows: Sequence[Residual]) -> float:
    """Correlation between how far first tokens and steps of whole sets are off; 0 with fewer sets than `FEW_SETS`.

    Means over sets of medians of (model, device) groups, as in `between_sets`.
    """
    found: dict[Set, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in rows:
        found[set_of(row)][str(row[MEASURE])][str(row[4])].append(float(row[LEFT_OUT]))
    both = [
        [float(np.mean([np.median(errors) for errors in own[name].values()])) for name in ("ttft", "tpot")]
        for own in found.values()
        if "ttft" in own and "tpot" in own
    ]
    if len(both) < FEW_SETS:
        return 0.0
    value = float(np.corrcoef(np.array(both).T)[0, 1])
    return value if math.isfinite(value) else 0.0


def deviation(rows: Sequence[Residual]) -> Deviation:
    """By how much whole sets of one form are off."""
    measures = sorted({str(row[MEASURE]) for row in rows})
    between = {name: round(between_sets([r for r in rows if r[MEASURE] == name]), 4) for name in measures}
    return Deviation(between, round(correlation(rows), 4))


def deviations(rows: Sequence[Residual]) -> dict[str, Deviation]:
    """Form → `deviation`."""
    forms = sorted({str(r[FORM]) for r in rows})
    return {form: deviation([r for r in rows if r[FORM] == form]) for form in forms}


@dataclass(frozen=True, slots=True)
class SetResult:
    """One measure of one set, left out."""

    set: Set
    form: str
    measure: str
    errors: Floats
    """log(predicted / measured)."""
    inside: float
    """Share of the values inside their intervals."""
    width: float
    """Mean width of the intervals, as a logarithm."""


def results(rows: Sequence[Residual]) -> list[SetResult]:
    """Errors and intervals of every set, from what the others say."""
    kept: dict[tuple[Set, str], list[Residual]] = defaultdict(list)
    for row in rows:
        kept[set_of(row), str(row[FORM])].append(row)
    out = []
    for (one, form), own in sorted(kept.items()):
        others = [r for (s, f), theirs in kept.items() for r in theirs if s != one and f == form]
        told, draws = deviation(others), dict[Place, Draws | None]()
        found: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
        for row in own:
            place = (str(row[0]), str(row[1]), str(row[2]))
            if place not in draws:
                draws[place] = joint_draws(others, place, told)
            shape = RunShape(
                load=row[LOAD], **dict(zip(COLUMNS[FIRST_TOKEN_SHARE:], row[FIRST_TOKEN_SHARE:], strict=True))
            )
            drawn, error = draws[place], float(row[LEFT_OUT])
            inside, width = math.nan, math.nan
            if drawn is not None:
                band = drawn.bands(shape)[str(row[MEASURE])]
                inside = float(math.log(band.low) <= -error <= math.log(band.high))
                width = math.log(band.high / band.low)
            found[str(row[MEASURE])].append((error, inside, width))
        for measure, values in sorted(found.items()):
            errors, inside_each, widths = np.array(values).T
            out.append(SetResult(one, form, measure, errors, float(inside_each.mean()), float(widths.mean())))
    return out


def table(rows: Sequence[Residual]) -> str:
    """Markdown: every set left out, and the mean over sets, weighted equally."""
    found = with_free_cache(rows)
    lines = [
        [*one.set, one.form, one.measure, str(len(one.errors)), *_cells(one)]
        for one in sorted(found, key=lambda one: (one.form, one.measure, one.set))
    ]
    head = ["record", "release line", "device", "form", "measure", "values", "median", "mean", "inside", "width"]
    return f"{summary(found)}\n\n{markdown(head, lines, 5)}"


def with_free_cache(rows: Sequence[Residual]) -> list[SetResult]:
    """Every set left out, without first tokens that wait for room in the cache."""
    return results([r for r in rows if not r[COLUMNS.index("cache_full")]])


class SetsTogether(NamedTuple):
    """Sets weighted equally."""

    median_percent: float
    """Mean over sets of their median errors."""
    inside_percent: float
    """Share of the values inside their 80 % intervals."""
    width_over_error: float

    @classmethod
    def of(cls, sets: Sequence[SetResult]) -> SetsTogether:
        """Summary of sets that have intervals."""
        had = [one for one in sets if math.isfinite(one.inside)]
        size = np.mean([np.abs(one.errors).mean() for one in had])
        medians = [np.median(np.abs(np.expm1(one.errors))) for one in had]
        inside, width = np.mean([one.inside for one in had]), np.mean([one.width for one in had])
        return cls(float(100.0 * np.mean(medians)), float(100.0 * inside), float(width / size))


def summary(found: Sequence[SetResult]) -> str:
    """Markdown: by measure, sets weighted equally."""
    by: dict[tuple[str, str], list[SetResult]] = defaultdict(list)
    for one in found:
        if math.isfinite(one.inside):
            by[one.form, one.measure].append(one)
            by["all", ""].append(one)
    lines = []
    for (form, measure), sets in sorted(by.items()):
        own = SetsTogether.of(sets)
        cells = (f"{own.median_percent:.0f}", f"{own.inside_percent:.0f}", f"{own.width_over_error:.1f}")
        lines.append([form, measure, str(len(sets)), *cells])
    head = ["form", "measure", "sets", "mean of medians, %", "inside the 80 % band, %", "width over error"]
    return markdown(head, lines, 2)


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]], words: int) -> str:
    """A table whose first columns are words and whose others are numbers."""
    rule = ["---"] * words + ["---:"] * (len(head) - words)
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *lines])


def _cells(one: SetResult) -> tuple[str, ...]:
    size = 100.0 * np.abs(np.expm1(one.errors))
    return f"{np.median(size):.1f}", f"{size.mean():.1f}", f"{100.0 * one.inside:.0f}", f"{one.width:.2f}"


PAGE = """# Serving, whole sets left out

What a new user's server gets: a set, that is what one record measured with one release line on one device, is predicted
as if it had never been measured. Its rows leave the fit and the bands; coefficients of its release line and generation
are fitted to what is left, or taken from other sets. Sets count equally. Written by
`python -m windtunnel_lab.fit.serving_leave_out --page` from the residuals that ship;
`make leave-out BY=set ROWS=serving.json` fits anew. First tokens where the simulated cache is full are left out, as
their waiting depends on its size.

* *inside*: share of the values inside the 80 % band that a scenario gets at a site that no row was measured at: draws
  of first tokens and steps of comparable cases about their sets' medians, with the deviation between sets (DerSimonian
  and Laird), both without the set that is judged. Whole answers and tokens a second follow from the same draws: rows
  that measured answers judge them and set none.
* *width over error*: mean width of the bands over the mean error, both of logarithms.

"""


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    if list(arguments) == ["--page"]:
        print(PAGE + table(known_residuals()))
        return
    if not arguments:
        print(table(known_residuals()))
        return
    from windtunnel.validation.rows.row_files import load_rows, shipped_serving_rows
    from windtunnel_lab.fit.refit_serving import fitted_residuals

    source = Path(arguments[0])
    print(table(fitted_residuals(load_rows(source) + shipped_serving_rows(), source.parent).residuals))


if __name__ == "__main__":
    main(sys.argv[1:])
