"""Out-of-sample residuals as data: what `training.uncertainty` compute their intervals from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from windtunnel.training.uncertainty.comparable_runs import COLUMNS, WAYS, read_residual
from windtunnel_lab.fit.configurations import Configuration, site_names
from windtunnel_lab.fit.hierarchy import best_level, fit_variances, scaled_errors
from windtunnel_lab.fit.interval_width import best_distances


def table(
    found: Sequence[tuple[Configuration, dict[str, float]]],
    sites: Sequence[Sequence[str]],
    assumed: Mapping[tuple[str, ...], tuple[float, float]],
    composed: Collection[str] = (),
    known_distances: dict[str, float] | None = None,
) -> dict[str, Any]:
    """Columns of the residual file, one entry per predicted configuration, sorted so that the file is reproducible.

    Args:
        found: configurations with way of leaving out → predicted / median of the measured − 1.
        sites: families that share a site.
        assumed: rows of a configuration → what its assumed settings add to an interval, where they add anything.
        composed: families whose values were computed from fewer measurements (`measurements`).
        known_distances: distances between runs; absent: those that make intervals narrow and right.
    """
    together = site_names(sites)
    each = measurements([c for c, _ in found], composed)
    rows = []
    for c, errors in found:
        family, ids = c.row[len(COLUMNS) :]
        own = [None if way not in errors else round(errors[way], 5) for way in WAYS]
        rows.append(
            [
                *c.row[: len(COLUMNS)],
                family,
                together.get(family, family),
                ids,
                each[c.ids],
                assumed.get(c.ids, (0.0, 0.0)),
                *own,
            ]
        )
    rows.sort(key=str)
    return with_intervals(rows, known_distances)


def with_intervals(rows: list[list[Any]], known_distances: dict[str, float] | None = None) -> dict[str, Any]:
    """The residual file of some configurations, with the parameters of intervals that their errors give.

    Args:
        rows: lines of the file without scaled errors.
        known_distances: distances between runs; absent: those that make intervals narrow and right.
    """
    columns = [*COLUMNS, "family", "site", "ids", "measurements", "assumed", *(f"error_{way}" for way in WAYS)]
    members = [read_residual(row) for row in rows]
    apart, variances = known_distances or best_distances(members), fit_variances(members)
    scaled = scaled_errors(members, variances)
    return {
        "columns": [*columns, "scaled"],
        "distances": apart | {"level_family": best_level(scaled, apart, variances)},
        "variances": variances,
        "rows": [[*row, r.scaled] for row, r in zip(rows, scaled, strict=True)],
    }


def measurements(found: Sequence[Configuration], composed: Collection[str]) -> dict[tuple[str, ...], float]:
    """Rows of a configuration → how many measurements it stands for.

    Step times of a composed family follow from one stage of its model, tensor axis, depth and micro-batch, whatever the
    replicas and micro-batches: configurations that share these share one measurement.
    """
    stage = {c.ids: _stage(c) if c.case.family in composed else c.ids for c in found}
    count = Counter(stage.values())
    return {ids: round(1.0 / count[key], 5) for ids, key in stage.items()}


def _stage(c: Configuration) -> tuple[str, ...]:
    assert c.case.scenario is not None
    plan, model = c.case.scenario.plan, str(c.row[COLUMNS.index("signature")]).partition("|")[0]
    return c.case.family, model, str(plan.tp), str(plan.pp), str(plan.mbs)


def lines(data: dict[str, Any]) -> str:
    """JSON with one row a line, so that differences are readable."""
    rows = ",\n".join(json.dumps(row) for row in data["rows"])
    head = {k: v for k, v in data.items() if k != "rows"}
    return json.dumps(head)[:-1] + ', "rows": [\n' + rows + "\n]}\n"
