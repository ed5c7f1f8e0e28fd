"""Measured serving rows as fitting sees them: one case a scenario, what it measured, which coefficients it tells."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.serving import release_of
from windtunnel.errors import WindtunnelError
from windtunnel.serving.iteration.iteration_model import IterationModel
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.serving.results.measured_residuals import FULL_CACHE, measure_of
from windtunnel.validation.predict.serving import serving_group
from windtunnel.validation.predict.serving_run import Ready, cost, ready, run
from windtunnel.validation.rows.read_row import RowCase, read
from windtunnel.validation.rows.serving_targets import served_value
from windtunnel_lab.fit.serving_priors import scaled

SCALES = (("ttft", 0.20), ("first_token", 0.10), ("prompt_time", 0.10), ("", 0.08))
"""Log error at which a metric's weight begins to fall, by the start of its name: how far repeated runs differ."""
REPLAYED = 0.05
"""Log error at which the weight of any metric begins to fall where a row replays a recorded trace of arrivals."""
UNFIT = ("e2e_ms_median", "power")
"""Metrics that no coefficient is read from: answers of the perf-model runs ended before their nominal length."""


@dataclass(slots=True, kw_only=True)
class Case:
    """One scenario and what was measured of it (medians where it was measured more than once)."""

    block: tuple[str, str]
    """(release line, device generation): which coefficients it reads."""
    group: str
    ready: Ready
    family: str
    measured: dict[str, float]
    rows: int = 1
    ids: list[str] = field(default_factory=list)
    apart: bool = False
    """Whether it is predicted and sets nothing: separate pools, or rows that state a reason under `apart`."""


def cases_of(rows: Iterable[dict[str, Any]], folder: Path) -> list[Case]:
    """Cases of all rows that can be expressed and that fit their devices, in order of first appearance."""
    found: dict[tuple[str, bool], tuple[RowCase, dict[str, list[float]], list[str]]] = {}
    for row in rows:
        case = read(row)
        if case.row_kind != "serving" or case.scenario is None:
            continue
        text = case.family + json.dumps(case.scenario.model_dump(mode="json", exclude={"name"}), sort_keys=True)
        _, values, ids = found.setdefault((text, bool(row.get("apart"))), (case, {}, []))
        ids.append(case.id)
        for target in case.metrics:
            if target.measured > 0:
                values.setdefault(target.metric, []).append(target.measured)
    out = []
    for (_, apart), (case, values, ids) in found.items():
        assert case.scenario is not None
        try:
            own = ready(case.scenario, folder)
        except WindtunnelError:
            continue
        block = (release_of(own.serving.engine, own.serving.engine_version), own.cluster.device.generation)
        measured = {name: float(np.median(v)) for name, v in values.items()}
        apart = apart or len(own.pools) > 1
        out.append(
            Case(
                block=block,
                group=serving_group(case),
                ready=own,
                family=case.family,
                measured=measured,
                rows=len(ids),
                ids=ids,
                apart=apart,
            )
        )
    return out


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured value of a case."""

    case: int
    metric: str
    log_measured: float
    scale: float


def observations(cases: Sequence[Case], *, apart: bool = False) -> list[Observation]:
    """What fitting compares; with `apart`, cases that are predicted with what the others tell and set nothing."""
    out = []
    for i, case in enumerate(cases):
        if case.apart != apart:
            continue
        for metric, value in case.measured.items():
            if not any(text in metric for text in UNFIT):
                scale = next(s for start, s in SCALES if metric.startswith(start))
                if case.ready.serving.traffic.trace is not None:
                    scale = REPLAYED
                out.append(Observation(i, metric, math.log(value), scale))
    return out


def predict(
    cases: Sequence[Case], seen: Sequence[Observation], logs: Mapping[tuple[str, str], Mapping[str, float]]
) -> tuple[Floats, Floats]:
    """Logarithms of the predictions (nan: none), and each observation's weight: 0 where a full cache decides.

    Args:
        cases: scenarios.
        seen: what is asked of them.
        logs: set → coefficient → logarithm of its factor over the prior of each device; cases of other sets have none.
    """
    known: dict[str, IterationModel] = {}
    values, weights = np.full(len(seen), np.nan), np.ones(len(seen))
    mine: dict[int, list[int]] = {}
    for j, o in enumerate(seen):
        mine.setdefault(o.case, []).append(j)
    for i, places in mine.items():
        case = cases[i]
        if case.block not in logs:
            continue
        served = run(case.ready, costs=[_cost(case, k, logs[case.block], known) for k in _pools(case)])
        for j in places:
            found = served_value(seen[j].metric, served)
            if found and found > 0:
                values[j] = math.log(found)
            if served.cache_used >= FULL_CACHE and measure_of(seen[j].metric) == "ttft":
                weights[j] = 0.0
    return values, weights


def _pools(case: Case) -> range:
    return range(len(case.ready.pools))


_BUILT: dict[str, Layers] = {}
"""Blocks by what they are built from: coefficients change with every step of a fit, blocks do not."""


def _cost(case: Case, k: int, logs: Mapping[str, float], known: dict[str, IterationModel]) -> IterationModel:
    pool = case.ready.pools[k]
    key = f"{case.block}{case.ready.cluster.device.id}{case.ready.model.name}{case.ready.cluster.name}"
    key += f"{pool.instance.shape}{pool.most_tokens}"
    key += f"{pool.instance.drafting}"
    key += f"{pool.instance.cuda_graphs}{case.ready.serving.expert_skew}"
    if key not in known:
        own, ready = scaled(case.ready.coefficients(fitted=False), logs), case.ready
        if key not in _BUILT:
            _BUILT[key] = Layers(ready.model, ready.cluster, pool.instance.shape, own, ready.serving.expert_skew)
        known[key] = cost(ready, pool, own, engine=False, layers=_BUILT[key])
    return known[key]
