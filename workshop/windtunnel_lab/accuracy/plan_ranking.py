"""Does the simulator order plans as the measurements do? Kendall's tau and the regret of the plan it would pick."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.errors import BadInput
from windtunnel.validation.predict.report import RowOutcome
from windtunnel.validation.rows.read_row import row_kind

CLOSE = 0.03
"""Measurements closer than this are ties: the record's own noise is 1–10 %."""
SMALLEST_GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Order of the plans of one (family, model, cluster)."""

    family: str
    group: str
    n: int
    pairs: int
    """Pairs whose measurements differ by more than `CLOSE`."""
    tau: float
    """(concordant − discordant) / pairs; a predicted tie counts neither way."""
    regret: float
    """Measured time of the predicted best over the measured best, minus one."""
    taken: int
    """1-based place of the pick in the measured order."""


def kendall_tau(predicted: Floats, measured: Floats, close: float = CLOSE) -> tuple[float, int]:
    """Tau over pairs whose measurements differ by more than `close` relative to the smaller, and their number."""
    first, second = np.triu_indices(len(measured), 1)
    low = np.minimum(measured[first], measured[second])
    counted = np.abs(measured[first] - measured[second]) > close * low
    if not counted.any():
        return float("nan"), 0
    agreement = np.sign(measured[first] - measured[second]) * np.sign(predicted[first] - predicted[second])
    return float(agreement[counted].mean()), int(counted.sum())


def rank_groups(rows: Iterable[RowOutcome], smallest: int = SMALLEST_GROUP) -> tuple[Ranking, ...]:
    """Rankings of every (family, model, cluster, device count, sequence length) with enough plans.

    Plans compete by device-seconds per token, whatever their batch and precision.
    """
    return _rankings(rows, smallest, lambda row: f"{row.group}, {row.devices} devices, s {row.seq_len}")


def rank_plans(rows: Iterable[RowOutcome], smallest: int = 2) -> tuple[Ranking, ...]:
    """Rankings of rows that differ in their plan alone: what a planner chooses between."""
    return _rankings(
        rows, smallest, lambda row: f"{row.group}, {row.devices} devices, s {row.seq_len}, work {row.work}"
    )


def _rankings(rows: Iterable[RowOutcome], smallest: int, name: Callable[[RowOutcome], str]) -> tuple[Ranking, ...]:
    """Rankings of the plans of one family under one name.

    One plan measured under several releases counts once, at the median. The pick is the fastest plan as predicted,
    among those that are predicted to fit where any is.
    """
    groups: dict[tuple[str, str], dict[str, list[RowOutcome]]] = {}
    for row in rows:
        if row.row_kind != "training" or not row.predicted or not row.predicted_seconds or not row.tokens:
            continue
        if "memory" in row.metric or row.metric == "oom" or not row.measured > 0.0:
            continue
        groups.setdefault((row.family, name(row)), {}).setdefault(row.plan, []).append(row)
    out = []
    for (family, group), plans in groups.items():
        if len(plans) < smallest:
            continue
        members = list(plans.values())
        measured = np.array([np.median([_measured_seconds(r) * r.devices / r.tokens for r in own]) for own in members])
        predicted = np.array([own[0].predicted_seconds * own[0].devices / own[0].tokens for own in members])
        tau, pairs = kendall_tau(predicted, measured)
        fitting = np.array([own[0].fits is not False for own in members])
        pick = int(np.argmin(np.where(fitting | (not fitting.any()), predicted, np.inf)))
        place = 1 + int((measured < measured[pick]).sum())
        regret = float(measured[pick] / measured.min() - 1)
        out.append(
            Ranking(family=family, group=group, n=len(members), pairs=pairs, tau=tau, regret=regret, taken=place)
        )
    return tuple(out)


def _measured_seconds(row: RowOutcome) -> float:
    """Step time of a row from what it measured: rates fall as the step grows."""
    assert row.predicted is not None
    time = row.metric.startswith(("step_time", "iteration_time", "time_"))
    ratio = row.measured / row.predicted
    return row.predicted_seconds * (ratio if time else 1.0 / ratio)


def regret_text(rows: Sequence[RowOutcome]) -> str:
    """The regret of the planner over measured plans, in a sentence."""
    found = rank_plans(rows)
    if not found:
        return "No two rows differ in their plan alone."
    by_family: dict[str, list[float]] = {}
    for one in found:
        by_family.setdefault(one.family, []).append(one.regret)
    families = float(np.mean([np.mean(own) for own in by_family.values()]))
    number = len(by_family)
    regrets = np.array([one.regret for one in found])
    text = (
        f"Regret of the planner over measured plans: {regrets.mean():.1%} in the mean of {len(found)} groups of rows "
        f"that differ in their plan alone, {families:.1%} in the mean of {number} families, {regrets.max():.1%} "
        f"at most; the plan that is picked was measured fastest in {int((regrets <= 0.0).sum())}."
    )
    return text.replace("%", " %")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the regret of the planner over the measured plans of rows, out of fold, and the worst groups."""
    from windtunnel.validation.predict.validate import validate
    from windtunnel.validation.rows.row_files import load_rows, with_shipped
    from windtunnel_lab.accuracy.out_of_sample import out_of_fold

    parser = argparse.ArgumentParser(prog="python -m windtunnel_lab.accuracy.plan_ranking", description=main.__doc__)
    parser.add_argument("rows", type=Path, nargs="*", help="JSON lists of measured rows, beside those that ship")
    parser.add_argument("--worst", type=int, default=10, help="groups to list")
    options = parser.parse_args(arguments)
    try:
        rows = with_shipped([row for path in options.rows for row in load_rows(path)])
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    training = [row for row in rows if row_kind(row) == "training"]
    found = out_of_fold(validate(training))
    print(regret_text(found))
    for one in sorted(rank_plans(found), key=lambda r: -r.regret)[: options.worst]:
        if one.regret > 0.0:
            print(f"{one.regret:7.1%}  place {one.taken} of {one.n}  {one.family}: {one.group}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
