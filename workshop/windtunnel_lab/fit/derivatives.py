"""How every measured configuration's error moves with every coefficient, at the coefficients that the catalogue has.

The shared effects of software and generations (`shared_effects`) and fits without a family are linear problems in
these derivatives: one pass over all rows serves every way of leaving rows out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel import catalog
from windtunnel.arrays import Floats
from windtunnel.cost.coefficients import coefficients, entry_of
from windtunnel_lab.fit.configurations import Configuration, configurations
from windtunnel_lab.fit.training import log_residuals

_STEP = -0.05
"""Change of a coefficient's logarithm from which its derivative is taken: fractions stay below 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivatives:
    """Errors of configurations and their derivatives, in the order of the configurations."""

    names: tuple[str, ...]
    """Coefficients, as `gemm_fraction.bf16`."""
    residuals: Floats
    """log(predicted / measured), shape (configurations,)."""
    slopes: Floats
    """Derivatives of the residuals by the logarithm of each coefficient, shape (configurations, coefficients)."""
    values: Floats
    """Coefficients at which the derivatives hold, shape (configurations, coefficients); 0 where one has no effect."""


def derivatives(rows: list[dict[str, Any]], names: Sequence[str], workers: int = 2) -> Derivatives:
    """Errors and derivatives of every configuration of measured rows, in the order of `configurations(rows)`.

    Args:
        rows: measured rows of JSON.
        names: coefficients.
        workers: processes.
    """
    with ProcessPoolExecutor(workers) as executor:
        parts = list(executor.map(_part, [(rows, tuple(names), k, workers) for k in range(workers)]))
    lines = [
        line for part in zip(*(_padded(p, parts) for p in parts), strict=True) for line in part if line is not None
    ]
    table = np.array(lines)
    n = len(names)
    return Derivatives(names=tuple(names), residuals=table[:, 0], slopes=table[:, 1 : 1 + n], values=table[:, 1 + n :])


def _padded(part: list[list[float]], parts: list[list[list[float]]]) -> list[list[float] | None]:
    return [*part, *[None] * (max(map(len, parts)) - len(part))]


def _part(job: tuple[list[dict[str, Any]], tuple[str, ...], int, int]) -> list[list[float]]:
    """Every n-th configuration: its residual, derivatives and coefficients in one line."""
    rows, names, first, step = job
    out: list[list[float]] = []
    idle: list[str] = []
    for c in configurations(rows)[first::step]:
        line = _line(c, names, idle)
        idle = [name for name, slope in zip(names, line[1:], strict=False) if slope == 0.0]
        out.append(line)
    return out


def _line(c: Configuration, names: tuple[str, ...], idle: Sequence[str]) -> list[float]:
    """The line of one configuration.

    Args:
        c: the configuration.
        names: coefficients.
        idle: coefficients that may not act in it; one simulation with all of them moved tells whether that is so.
    """
    scenario = c.case.scenario
    assert scenario is not None and scenario.training is not None
    cluster = catalog.resolve_cluster(scenario.cluster)
    base = coefficients(scenario.training.framework, cluster.device, cluster)
    values = {name: entry_of(base, name) or 0.0 for name in names}
    residual = float(log_residuals([c.case], {})[0])

    def change(*moved: str) -> float:
        return float(log_residuals([c.case], {name: values[name] * math.exp(_STEP) for name in moved})[0]) - residual

    still = {name for name, value in values.items() if value == 0.0}
    suspects = [name for name in idle if name not in still]
    if suspects and change(*suspects) == 0.0:
        still.update(suspects)
    slopes = [0.0 if name in still else change(name) / _STEP for name in names]
    return [residual, *slopes, *values.values()]
