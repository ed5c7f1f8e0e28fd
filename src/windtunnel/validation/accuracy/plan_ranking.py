"""Does the simulator order plans as the measurements do? Kendall's tau and the regret of the plan it would pick."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.validation.predict.report import RowOutcome

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

    Plans compete by device-seconds per token. One plan measured under several releases counts once, at the median.
    """
    groups: dict[tuple[str, str], dict[str, list[RowOutcome]]] = {}
    for row in rows:
        if row.row_kind != "training" or row.metric != "step_time" or row.predicted is None or not row.tokens:
            continue
        key = (row.family, f"{row.group}, {row.devices} devices, s {row.seq_len}")
        groups.setdefault(key, {}).setdefault(row.plan, []).append(row)
    out = []
    for (family, group), plans in groups.items():
        if len(plans) < smallest:
            continue
        members = list(plans.values())
        measured = np.array([np.median([r.measured * r.devices / r.tokens for r in same]) for same in members])
        predicted = np.array([(same[0].predicted or 0.0) * same[0].devices / same[0].tokens for same in members])
        tau, pairs = kendall_tau(predicted, measured)
        pick = int(np.argmin(predicted))
        place = 1 + int((measured < measured[pick]).sum())
        regret = float(measured[pick] / measured.min() - 1)
        out.append(
            Ranking(family=family, group=group, n=len(members), pairs=pairs, tau=tau, regret=regret, taken=place)
        )
    return tuple(out)
