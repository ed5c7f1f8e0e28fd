"""How far predictions of serving have been from measured rows: multiplicative bands from out-of-sample residuals.

Rows of the same release line on the same generation come first; where they are fewer than `ENOUGH`, those of the same
kind of model on any engine, then all. A band's own (model, device) group is left out.

A group that nobody measured is off by as much as some other group is, its median, and its rows scatter about that as
rows of any group do: a band holds the sums of all medians and all scatter.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.specs.model import ModelSpec

LEVEL, ENOUGH = 0.8, 20
TAIL = 0.05
"""Share of those sums beyond each end of a band. Medians of a few groups do not show the worst: with this share 81 % of
all measured values lie inside bands that their whole group is left out of (70 % with 0.1)."""
FULL_CACHE = 0.9
"""Share of the cache in use from which on waiting depends on its exact size."""
COLUMNS = (
    "release",
    "generation",
    "kind",
    "measure",
    "group",
    "error",
    "error_in_sample",
    "family",
    "form",
    "cache_full",
)
"""Columns of `catalog/residuals/serving.json`; errors are log(predicted / measured), the first with the row's whole
group left out of the fit; `form`: one pool (whole) or two (split); `cache_full`: waiting depends on its size."""


def kind_of(model: ModelSpec) -> str:
    """dense, moe or mla: what rows of one kind have in common."""
    if model.is_mla:
        return "mla"
    return "moe" if model.num_experts else "dense"


def measure_of(metric: str) -> str:
    """ttft, tpot, e2e or throughput, by the name of a metric."""
    name = metric.lower()
    for start, measure in (
        ("ttft", "ttft"),
        ("first_token", "ttft"),
        ("prompt", "ttft"),
        ("tpot", "tpot"),
        ("itl", "tpot"),
        ("token_time", "tpot"),
        ("e2e", "e2e"),
    ):
        if name.startswith(start):
            return measure
    return "throughput"


@cache
def _residuals() -> tuple[tuple[Any, ...], ...]:
    path = resources.files("windtunnel") / "catalog/residuals/serving.json"
    if not path.is_file():
        return ()
    return tuple(tuple(row) for row in json.loads(path.read_text("utf-8"))["rows"])


@dataclass(frozen=True, slots=True)
class Band:
    """Factors on a prediction between which a measurement lies with probability `level`."""

    low: float
    high: float
    basis: str
    grade: str
    level: float = LEVEL

    def around(self, predicted: float, least: float = 0.0) -> dict[str, Any]:
        """The interval of a prediction, as results and validation write it.

        Args:
            predicted: the central value.
            least: what no measurement can be below: the roofline.
        """
        return {
            "level": self.level,
            "low": max(predicted * self.low, min(least, predicted)),
            "high": predicted * self.high,
            "basis": self.basis,
            "grade": self.grade,
        }


def band(
    release: str,
    generation: str,
    model: ModelSpec,
    metric: str,
    group: str = "",
    form: str = "whole",
    *,
    cache_full: bool = False,
) -> Band | None:
    """The band of a prediction; None without any residual of its measure.

    Args:
        release: line of the engine.
        generation: of the device.
        model: what is served.
        metric: name of the measure.
        group: (model, device) whose residuals are left out: those of the scenario itself.
        form: `whole`, or `split` where prefill and decode have pools of their own.
        cache_full: the cache fills, so that waiting depends on its size: first tokens that did count too.
    """
    measure, kind = measure_of(metric), kind_of(model)
    known = [row for row in _residuals() if row[3] == measure and row[4] != group and row[8] == form]
    known = known if cache_full else [row for row in known if not row[9]]
    steps = (
        (f"{release} on {generation}, {kind}", "fitted", lambda r: r[:3] == (release, generation, kind)),
        (f"{release} on {generation}", "fitted", lambda r: r[:2] == (release, generation)),
        (f"{release}, {kind}", "analytic", lambda r: (r[0], r[2]) == (release, kind)),
        (f"{generation}, {kind}", "analytic", lambda r: r[1:3] == (generation, kind)),
        ("all engines and devices", "assumed", lambda r: True),
    )
    for name, grade, same in steps:
        errors = [(str(row[4]), float(row[5])) for row in known if same(row)]
        if len(errors) >= ENOUGH or (grade == "assumed" and errors):
            low, high = np.exp(-np.quantile(of_a_new_group(errors), [1.0 - TAIL, TAIL]))
            words = f"residuals of {len(errors)} measured values left out of the fit: {name}"
            return Band(float(low), float(high), words, grade)
    return None


def of_a_new_group(errors: Sequence[tuple[str, float]]) -> Floats:
    """Errors that rows of another group may have: every median of a group plus every distance from one.

    Args:
        errors: (group, error) of known rows.
    """
    groups: dict[str, list[float]] = defaultdict(list)
    for group, error in errors:
        groups[group].append(error)
    medians = np.array([np.median(own) for own in groups.values()])
    scatter = np.concatenate([np.array(own) - np.median(own) for own in groups.values()])
    sums: Floats = np.add.outer(medians, scatter)
    return sums.ravel()


@cache
def paired_band(measure: str, form: str = "whole") -> Band | None:
    """Factors on the ratio of two predictions of one model on one device, each with its group left out of the fit.

    Two rows of one group share what the prediction gets wrong about model, device and engine, so that ratios are judged
    by differences of residuals inside groups; each group counts once. None without a group of two rows.

    Args:
        measure: ttft, tpot, e2e or throughput.
        form: `whole` or `split`.
    """
    groups: dict[str, list[float]] = defaultdict(list)
    for row in _residuals():
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
