"""Measured rows as configurations: rows that the simulator cannot tell apart count once, at their median."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from windtunnel.cost.coefficients import Coefficients, resolve, with_entry
from windtunnel.cost.sites import Where, where_of
from windtunnel.training.uncertainty.comparable_runs import COLUMNS, describe
from windtunnel.validation.rows.identity import plan_key, row_group
from windtunnel.validation.rows.read_row import RowCase, read
from windtunnel_lab.fit.with_coefficients import predict_with


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One scenario that was measured once or more. Its first metric holds the median."""

    ids: tuple[str, ...]
    group: str
    """What folds never split."""
    case: RowCase
    software: str
    device: str
    generation: str
    kind: str
    """gpu, tpu …"""
    where: Where
    """Site and fabric of its cluster, as far as coefficients depend on them."""
    row: tuple[Any, ...]
    """Its entry of the residual file without errors: the columns of `training.uncertainty.comparable_runs.Residual`."""

    @property
    def release(self) -> str:
        """Software with the release that its first row states; empty where none is stated."""
        scenario = self.case.scenario
        version = scenario.training.framework_version if scenario and scenario.training else ""
        return f"{self.software} {version}" if version else ""

    def without_fit(self, *, unseen: bool = False) -> Coefficients:
        """Coefficients of its software on its device without any fit.

        Args:
            unseen: whether the software's own starting values are left out too, because they came from its rows.
        """
        return resolve(
            self.software,
            self.device,
            self.generation,
            self.kind,
            where=self.where,
            fits=False,
            unseen=unseen,
            pooled={},
        )


def configurations(rows: list[dict[str, Any]]) -> list[Configuration]:
    """Every configuration whose step time was measured and can be predicted, in the order of first appearance.

    Repeats are rows of one family whose scenarios agree in everything but the software's release, which coefficients
    do not tell apart.
    """
    groups: dict[tuple[str, str], list[tuple[dict[str, Any], RowCase]]] = {}
    for row in rows:
        case = read(row)
        if case.scenario is None or case.scenario.training is None or not case.metrics:
            continue
        if "memory" not in case.metrics[0].metric and case.metrics[0].metric != "oom":
            groups.setdefault((case.family, plan_key(case.scenario)), []).append((row, case))
    out = []
    for same in groups.values():
        first, case = same[0]
        target = case.metrics[0]
        alike = [(r, c) for r, c in same if c.metrics[0].metric == target.metric]
        median = statistics.median(c.metrics[0].measured for _, c in alike)
        case = replace(case, metrics=(replace(target, measured=median), *case.metrics[1:]))
        if not math.isfinite(predict_with(case, {})):
            continue
        out.append(_configuration(tuple(r["id"] for r, _ in alike), row_group(first), case))
    return out


def _configuration(ids: tuple[str, ...], group: str, case: RowCase) -> Configuration:
    from windtunnel.training.predict import prepare

    assert case.scenario is not None
    prepared, _ = prepare(case.scenario)
    about = describe(prepared.training, prepared.cluster, prepared.model, prepared.plan)
    row = (*about.columns(), case.family, list(ids))
    device = prepared.cluster.device
    return Configuration(
        ids=ids,
        group=group,
        case=case,
        software=prepared.training.framework,
        device=device.id,
        generation=device.generation,
        kind=device.kind,
        where=where_of(prepared.training.framework, prepared.cluster),
        row=row,
    )


def laid_over(base: Coefficients, values: Mapping[str, float]) -> Coefficients:
    """Coefficients with some values replaced; `gemm_fraction.bf16` is one entry of a table."""
    for name, value in values.items():
        base = with_entry(base, name, value, "fitted")
    return base


def site_names(sites: Sequence[Sequence[str]]) -> dict[str, str]:
    """Family → name of its site, for families that share one with others."""
    return {family: "+".join(names) for names in sites for family in names}


def measured_as(c: Configuration) -> tuple[Any, ...]:
    """What a configuration measured, whatever its software is called: its columns but software and root.

    One measurement may stand in two documents under two labels of one engine; it leaves a fit under both.
    """
    return c.row[2 : len(COLUMNS)]
