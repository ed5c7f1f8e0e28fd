"""How far predictions of serving have been from measured rows: multiplicative intervals from out-of-sample residuals.

Cases of the same release line on the same generation come first; where they are fewer than enough, those of the same
kind of model on any engine, then all. An interval's own (model, device) group is left out.

A site that nobody measured is off as a whole next to that, by as much as whole sets of rows (one record of one release
line on one device) are when no row of theirs is in the fit. That deviation between sets is estimated from them
(`windtunnel_lab.fit.serving_leave_out`), stands in the residual file and is part of each draw, unless a row of the same
set is in the record, or the machine's own measurements stand above the fits.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import numpy as np

from windtunnel.serving.results.joint_draws import LEVEL, Band, Draws, joint_draws
from windtunnel.serving.results.measured_residuals import (
    CACHE_FULL,
    FORM,
    GROUP,
    NOWHERE,
    Place,
    Site,
    deviation_of,
    known_residuals,
)


def draws(
    place: Place,
    group: str = "",
    form: str = "whole",
    *,
    cache_full: bool = False,
    site: Site = NOWHERE,
) -> Draws | None:
    """What a server may do that nobody measured; None without any residual of the form.

    Args:
        place: release line of the engine, generation of the device, kind of model.
        group: (model, device) whose residuals are left out: those of the scenario itself.
        form: `whole`, or `split` where prefill and decode have pools of their own.
        cache_full: the cache fills, so that waiting depends on its size: first tokens that did count too.
        site: where it runs; by default somewhere that no row was measured.
    """
    rows = known_residuals()
    asked = (place, group, form, cache_full, site)
    known = _KNOWN.get(asked)
    if known is not None and known[0] is rows:
        return known[1]
    every = [row for row in rows if row[FORM] == form and (cache_full or not row[CACHE_FULL])]
    deviation = None if site.known(place[0], every) else deviation_of(form)
    found = joint_draws([row for row in every if row[GROUP] != group], place, deviation)
    if len(_KNOWN) < _MOST_KNOWN:
        _KNOWN[asked] = rows, found
    return found


_KNOWN: dict[tuple[Place, str, str, bool, Site], tuple[object, Draws | None]] = {}
"""What was asked for in this process, with the rows that it was drawn from: a front or a sweep asks for the same again
and again."""
_MOST_KNOWN = 512


@cache
def paired_band(measure: str, form: str = "whole") -> Band | None:
    """Factors on the ratio of two predictions of one model on one device, each with its group left out of the fit.

    Two rows of one group share what the prediction gets wrong about model, device and engine, so that ratios are
    evaluated by differences of residuals inside groups; each group counts once. None without a group of two rows.

    Args:
        measure: ttft, tpot, e2e or throughput.
        form: `whole` or `split`.
    """
    groups: dict[str, list[float]] = defaultdict(list)
    for row in known_residuals():
        if row[3] == measure and row[8] == form and not row[9]:
            groups[f"{row[0]} {row[4]}"].append(float(row[5]))
    pairs = [np.subtract.outer(own, own)[~np.eye(len(own), dtype=bool)] for own in groups.values() if len(own) > 1]
    if not pairs:
        return None
    errors = np.concatenate(pairs)
    weights = np.concatenate([np.full(len(own), 1.0 / len(own)) for own in pairs])
    order = np.argsort(errors)
    share = (np.cumsum(weights[order]) - 0.5 * weights[order]) / weights.sum()
    low, high = np.exp(np.interp([(1.0 - LEVEL) / 2, (1.0 + LEVEL) / 2], share, errors[order]))
    words = f"{len(errors) // 2} pairs of measured rows in {len(pairs)} groups of one engine, model and device"
    return Band(float(low), float(high), words, "fitted")
