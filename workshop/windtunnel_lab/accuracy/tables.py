"""Tables of the accuracy page about rows left out of the fits: by family, by what was left out, intervals, pairs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from windtunnel.training.uncertainty.comparable_runs import distances, residuals
from windtunnel.training.uncertainty.plan_difference import Pairs, below, pairs_of, spread, weighted_band
from windtunnel.training.uncertainty.step_time_interval import LEVEL
from windtunnel.validation.predict.report import RowOutcome, ValidationReport
from windtunnel_lab.accuracy.constant_baseline import constant_errors, measured_seconds
from windtunnel_lab.accuracy.out_of_sample import WORDS, Judged, constant_band, judged, out_of_sample
from windtunnel_lab.accuracy.plots import parameters
from windtunnel_lab.fit.interval_width import sampled

Key = TypeVar("Key", bound=Hashable)
_MANY = 100
"""Rows from which a family may be composed from fewer measurements."""


def percent(value: float | None, digits: int = 1) -> str:
    """A fraction in per cent, a dash where there is none."""
    return "–" if value is None or not np.isfinite(value) else f"{100 * value:.{digits}f}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 2) -> str:
    """A Markdown table; columns after the first `words` are aligned right."""
    aligned = ["---:" if i >= words else "---" for i in range(len(head))]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join(aligned) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def grouped(found: Iterable[Judged], key: Callable[[Judged], Key]) -> dict[Key, list[Judged]]:
    """Members by key, in the order of the keys."""
    out: dict[Key, list[Judged]] = {}
    for j in found:
        out.setdefault(key(j), []).append(j)
    return {k: out[k] for k in sorted(out, key=str)}


def errors_of(members: Sequence[Judged]) -> list[str]:
    """Mean, median, 90th percentile of the size, and mean of the error."""
    if not members:
        return ["–"] * 4
    e = np.array([j.error for j in members])
    size = np.abs(e)
    return [percent(float(x)) for x in (size.mean(), np.median(size), np.quantile(size, 0.9), e.mean())]


def bands_of(members: Sequence[Judged], rival: dict[tuple[str, ...], float]) -> list[str]:
    """Coverage, mean width over mean error, score of the intervals and of one constant interval."""
    if not members:
        return ["–"] * 4
    error = float(np.mean([abs(j.error) for j in members]))
    width = float(np.mean([j.width for j in members]))
    constant = [rival[j.residual.ids] for j in members]
    return [
        percent(float(np.mean([j.inside for j in members])), 0),
        f"{width / error:.1f}" if error else "–",
        percent(float(np.mean([j.score for j in members]))),
        percent(float(np.mean(constant))),
    ]


def shown(report: ValidationReport, found: Sequence[Judged]) -> list[Judged]:
    """Those of which the report holds a row."""
    present = {r.id for r in report.rows if r.row_kind == "training"}
    return [j for j in found if present & set(j.residual.ids)]


def noise(report: ValidationReport, members: Sequence[Judged]) -> str:
    """Mean distance of repeats from their median, over the rows of configurations measured more than once."""
    measured = {r.id: r.measured for r in report.rows if r.row_kind == "training" and "memory" not in r.metric}
    away: list[float] = []
    for j in members:
        values = np.array([measured[i] for i in j.residual.ids if i in measured])
        if len(values) > 1:
            away += list(np.abs(values / np.median(values) - 1.0))
    return f"{100 * float(np.mean(away)):.1f} ({len(away)})" if away else "–"


def by_family(report: ValidationReport) -> str:
    """Errors of rows that took no part, by family, device, software and kind of model."""
    found = shown(report, out_of_sample())
    rival = dict(zip([j.residual.ids for j in found], constant_band(found), strict=True))
    outcomes: dict[str, RowOutcome] = {
        r.id: r for r in report.rows if r.row_kind == "training" and "memory" not in r.metric and r.predicted
    }
    lines = []
    for key, members in grouped(
        found,
        lambda j: (
            j.residual.family,
            j.residual.subject.device,
            j.residual.subject.software,
            "experts" if j.residual.subject.mixture else "dense",
            WORDS[j.way],
        ),
    ).items():
        own = [outcomes[i] for j in members for i in j.residual.ids if i in outcomes]
        constant = constant_errors(own)
        rows = sum(len(j.residual.ids) for j in members)
        lines.append(
            [
                *key,
                f"{rows} ({len(members)})",
                *errors_of(members),
                noise(report, members),
                percent(float(np.abs(constant).mean()) if constant.size else None),
                *bands_of(members, rival),
            ]
        )
    head = [
        "family",
        "device",
        "software",
        "kind",
        "left out",
        "rows (configurations)",
        "mean",
        "median",
        "p90",
        "bias",
        "noise (rows)",
        "constant",
        "in band",
        "width / mean",
        "Winkler",
        "constant band",
    ]
    return markdown(head, lines, 5)


def slope(members: Sequence[Judged]) -> str:
    """Change of the error per decade of the model's dense parameters, a dash below five sizes."""
    size = np.log10([parameters(j.residual) for j in members])
    if len(np.unique(size)) < 5:
        return "–"
    return percent(float(np.polyfit(size, [j.error for j in members], 1)[0]))


def families(report: ValidationReport) -> str:
    """One line a family: what the bars are about."""
    found = shown(report, out_of_sample())
    rival = dict(zip([j.residual.ids for j in found], constant_band(found), strict=True))
    lines = []
    parts = {**grouped(found, lambda j: j.residual.family), "**all**": found}
    for family, members in parts.items():
        rows = sum(len(j.residual.ids) for j in members)
        cells = [family, f"{rows} ({len(members)})", *errors_of(members), slope(members), noise(report, members)]
        lines.append([*cells, *bands_of(members, rival)])
    head = [
        "family",
        "rows (configurations)",
        "mean",
        "median",
        "p90",
        "bias",
        "slope",
        "noise (rows)",
        "in band",
        "width / mean",
        "Winkler",
        "constant band",
    ]
    return markdown(head, lines, 1) + distinct_points(found)


def distinct_points(found: Sequence[Judged]) -> str:
    """Families whose rows are composed from fewer measurements: mean error over model, tp, pp and micro-batch."""
    out = []
    for family, members in grouped(found, lambda j: j.residual.family).items():
        points: dict[tuple[str, ...], list[float]] = {}
        for j in members:
            s = j.residual.subject
            kept = [w for w in s.plan.split() if w.startswith(("tp", "pp", "mbs"))]
            points.setdefault((s.signature.partition("|")[0], s.precision, str(s.seq_len), *kept), []).append(
                abs(j.error)
            )
        if len(members) >= _MANY and len(points) < len(members) / 3:
            mean = float(np.mean([np.mean(v) for v in points.values()]))
            out.append(
                f"{family}: {percent(mean)} % over its {len(points)} distinct (model, tp, pp, micro-batch) points."
            )
    return "\n\n" + " ".join(out) if out else ""


def without_record(report: ValidationReport) -> str:
    """Rows that no record names: they took part in no fit, and the shipped coefficients predict them."""
    known = {i for j in out_of_sample() for i in j.residual.ids}
    groups: dict[tuple[str, str, str], list[RowOutcome]] = {}
    for r in report.rows:
        if r.row_kind == "training" and r.error is not None and r.id not in known and r.metric != "oom":
            if "memory" not in r.metric:
                groups.setdefault((r.family, r.device, r.metric), []).append(r)
    lines = []
    for key, members in sorted(groups.items()):
        error = np.array([r.error for r in members if r.error is not None])
        size = np.abs(error)
        inside = [r.interval["low"] <= r.measured <= r.interval["high"] for r in members if r.interval]
        cells = [float(x) for x in (size.mean(), np.median(size), np.quantile(size, 0.9), error.mean())]
        lines.append(
            [*key, str(len(members)), *map(percent, cells), percent(float(np.mean(inside)) if inside else None, 0)]
        )
    if not lines:
        return ""
    head = ["family", "device", "metric", "rows", "mean", "median", "p90", "bias", "in band"]
    words = "Rows that took part in no fit and have no record, with the shipped coefficients:"
    return f"{words}\n\n{markdown(head, lines, 3)}"


def left_out(report: ValidationReport, way: str) -> str:
    """Errors with whole devices or software left out, one line a unit."""
    found = shown(report, judged(way))
    if not found:
        return "No record."
    rival = dict(zip([j.residual.ids for j in found], constant_band(found), strict=True))

    def unit(j: Judged) -> tuple[str, ...]:
        s = j.residual.subject
        return (s.device, s.software) if way == "device" else (s.software, s.device)

    lines = []
    medians = []
    for key, members in grouped(found, unit).items():
        lines.append([*key, str(len(members)), *errors_of(members), *bands_of(members, rival)])
        medians.append(float(np.median([abs(j.error) for j in members])))
    lines.append(["**all**", "", str(len(found)), *errors_of(found), *bands_of(found, rival)])
    names = ["device", "software"] if way == "device" else ["software", "device"]
    columns = ("configurations", "mean", "median", "p90", "bias", "in band", "width / mean", "Winkler", "constant band")
    below_ten = sum(m <= 0.10 for m in medians)
    return (
        markdown([*names, *columns], lines)
        + f"\n\nMedian at most 10 % in {below_ten} of {len(medians)} lines; the median of the "
        f"lines' medians is {percent(float(np.median(medians)))} %."
    )


def paired(report: ValidationReport) -> str:
    """Differences between plans: paired errors beside what independent ones would be, and whether chances are right."""
    found = pairs_of(residuals())
    if not len(found.first):
        return "No pairs."
    errors = found.table.errors
    names = np.array([found.table.members[int(i)].family for i in found.first])
    lines = []
    for family in sorted(set(names.tolist())):
        inside = names == family
        alone = float(np.abs(errors[np.concatenate([found.first[inside], found.second[inside]])]).mean())
        near = inside & (found.settings <= 1)
        lines.append(
            [
                family,
                str(int(inside.sum())),
                str(len(set(found.group[inside].tolist()))),
                percent(alone),
                percent(2**0.5 * alone),
                percent(float(np.abs(found.error[inside]).mean())),
                percent(float(np.abs(found.error[near]).mean()) if near.any() else None),
            ]
        )
    head = [
        "family",
        "pairs",
        "groups",
        "mean error alone",
        "√2 of it",
        "mean error of the difference",
        "where one setting differs at most",
    ]
    return markdown(head, lines, 1) + "\n\n" + _chances(report, found)


_BINS = ((0.5, 0.65), (0.65, 0.8), (0.8, 0.9), (0.9, 0.97), (0.97, 1.0))


def _chances(report: ValidationReport, found: Pairs) -> str:
    """Are stated probabilities and intervals right? Each pair without its own group; every group counts once."""
    pairs = _judged_pairs(report, found)
    if not pairs:
        return "No pair of measured times in these rows."
    lines = []
    for low, high in _BINS:
        part = [x for x in pairs if low <= x.chance < high or (high == 1.0 and x.chance == 1.0)]
        total = sum(x.weight for x in part)
        if part:
            stated = sum(x.chance * x.weight for x in part) / total
            right = sum(x.weight for x in part if x.agrees) / total
            lines.append([f"{100 * low:.0f}–{100 * high:.0f} %", str(len(part)), percent(stated, 0), percent(right, 0)])
    share = sum(x.weight for x in pairs if x.in_band) / sum(x.weight for x in pairs)
    head = ["stated probability that one plan is faster", "pairs", "mean stated", "was faster"]
    return (
        f"The 80 % band of a difference holds {percent(share, 0)} % of these pairs (each group counts once, and takes "
        f"no part in its own band). Is a stated probability right?\n\n{markdown(head, lines, 1)}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _JudgedPair:
    """What was said of a pair of plans whose step times were both measured, and whether it was right."""

    in_band: bool
    """Whether the error of the predicted difference lies in its 80 % interval."""
    chance: float
    """Stated probability that the plan called faster is the faster one, 0.5 to 1."""
    agrees: bool
    """Whether it was."""
    weight: float


def _judged_pairs(report: ValidationReport, found: Pairs) -> list[_JudgedPair]:
    """Pairs of plans whose step times were both measured, each judged without its own group."""
    seconds = {r.id: measured_seconds(r) for r in report.rows if r.row_kind == "training" and "memory" not in r.metric}
    table = found.table
    pairs = []
    for p, weight in sampled(found):
        a, b = (table.members[int(side[p])] for side in (found.first, found.second))
        result = spread(a.subject, b.subject, found, distances())
        times = [np.median([seconds[i] for i in r.ids if i in seconds] or [np.nan]) for r in (a, b)]
        if result is None or not np.isfinite(times).all():
            continue
        errors, weights, effective, _ = result
        low, high = weighted_band(errors, weights, effective, LEVEL)
        predicted = float(np.log(times[1] / times[0])) - float(found.error[p])
        chance = below(errors, weights, effective, predicted)
        pairs.append(
            _JudgedPair(
                in_band=low <= float(found.error[p]) <= high,
                chance=max(chance, 1.0 - chance),
                agrees=bool((times[1] > times[0]) == (chance >= 0.5)),
                weight=weight,
            )
        )
    return pairs
