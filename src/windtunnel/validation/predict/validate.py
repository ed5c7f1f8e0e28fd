"""Predict measured rows and report the error."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from windtunnel import catalog
from windtunnel.errors import WindtunnelError
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.training.uncertainty.band_terms import with_terms
from windtunnel.training.uncertainty.comparable_runs import known_families
from windtunnel.validation.predict.assumed_terms import terms_of_row
from windtunnel.validation.predict.kernels_and_collectives import predict_micro
from windtunnel.validation.predict.report import RowOutcome, ValidationReport, relative_error, summarise
from windtunnel.validation.predict.serving import serving_outcomes
from windtunnel.validation.rows.identity import fingerprint, plan_key, scenario_group, work_key
from windtunnel.validation.rows.outcome_rows import outcome_kind
from windtunnel.validation.rows.read_row import RowCase, read
from windtunnel.validation.rows.row_files import load_rows, shipped_rows
from windtunnel.validation.rows.serving_targets import Served
from windtunnel.validation.rows.targets import Target, at_step_time


class Simulate(Protocol):
    """A simulator of one scenario."""

    def __call__(
        self, scenario: Scenario, *, site_known: bool = False, left_open: frozenset[str] = frozenset()
    ) -> TrainingResult:
        """Predict a scenario.

        Args:
            scenario: What a row says.
            site_known: Whether its site's rows are part of the record.
            left_open: Settings that the row leaves open.
        """


Progress = Callable[[int, int], None]


def simulate_row(
    scenario: Scenario, *, site_known: bool = False, left_open: frozenset[str] = frozenset()
) -> TrainingResult:
    """One scenario through the simulator.

    Args:
        scenario: what a row says.
        site_known: whether the row's family is part of the record: its interval has no spread between sites then, and
            what its rows leave open is part of its residuals.
        left_open: settings that the row leaves open (`RowCase.assumed_fields`); alternatives widen the interval.
    """
    from windtunnel.training.prepare_step import prepare
    from windtunnel.training.simulate_step import interval_of_step, simulate_step

    assert isinstance(scenario.model, ModelSpec) and scenario.training is not None
    cluster = catalog.resolve_cluster(scenario.cluster)
    prepared = prepare(scenario.model, cluster, scenario.training, scenario.plan)
    found = simulate_step(prepared, name=scenario.name)
    if site_known:
        return replace(found, interval=interval_of_step(prepared, found.step_time_s, found.breakdown, site_known=True))
    terms = terms_of_row(prepared, scenario, found.step_time_s, left_open, memory_fits=found.memory_fits)
    return replace(found, interval=with_terms(found.interval, found.step_time_s, terms))


def validate(
    rows: Sequence[dict[str, Any]] | str | Path | None = None,
    *,
    families: Iterable[str] = (),
    progress: Progress | None = None,
    simulate: Simulate = simulate_row,
) -> ValidationReport:
    """Predict every row; what cannot be predicted comes back with a reason, none is dropped.

    Args:
        rows: Measured rows, or the JSON file that holds them; absent: the rows we ship.
        families: Only these families; all when empty.
        progress: Called with (done, total) after each row.
        simulate: The simulator; identical scenarios are simulated once.
    """
    begun = time.perf_counter()
    folder = Path(rows).parent if isinstance(rows, (str, Path)) else Path()
    if rows is None:
        rows = shipped_rows()
    elif isinstance(rows, (str, Path)):
        rows = load_rows(Path(rows))
    wanted = set(families)
    cache: dict[str, TrainingResult | str] = {}
    served: dict[str, Served | str] = {}
    outcomes: list[RowOutcome] = []
    for index, row in enumerate(rows):
        case = read(row)
        if (not wanted or case.family in wanted) and case.row_kind == "serving" and case.metrics:
            outcomes += serving_outcomes(case, folder, served)
        elif not wanted or case.family in wanted:
            outcomes += _outcomes(row, case, cache, simulate)
        if progress is not None:
            progress(index + 1, len(rows))
    return ValidationReport(tuple(outcomes), summarise(outcomes), len(cache) + len(served), time.perf_counter() - begun)


def _outcomes(
    row: dict[str, Any], case: RowCase, cache: dict[str, TrainingResult | str], simulate: Simulate
) -> list[RowOutcome]:
    targets = case.metrics or (Target("none", "", float("nan"), lambda r: float("nan")),)
    if case.row_kind in ("collective", "kernel"):
        return [_micro(row, case, target) for target in targets]
    if outcome_kind(row) is not None:
        from windtunnel.validation.predict import outcomes as outcome_rows

        return outcome_rows.outcomes(row, case.device)
    if case.row_kind == "power":
        from windtunnel.validation.predict import power as power_rows

        return power_rows.outcomes(row, case.device)
    if case.scenario is None:
        return [_missing(case, target, case.reason) for target in targets]
    known = case.family in known_families()
    key = f"{known} {sorted(case.assumed_fields)} {fingerprint(case.scenario)}"
    if key not in cache:
        try:
            cache[key] = simulate(case.scenario, site_known=known, left_open=case.assumed_fields)
        except WindtunnelError as error:
            cache[key] = " ".join(str(error).split())[:300]
        except Exception as error:  # our own bug: every other row still gets its answer, this one says what broke
            cache[key] = f"the simulator failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    found = cache[key]
    if isinstance(found, str):
        return [_missing(case, target, found) for target in targets]
    return [_predicted(case, target, found) for target in targets]


def _measured(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _missing(case: RowCase, target: Target, reason: str) -> RowOutcome:
    return RowOutcome(
        id=case.id,
        row_kind=case.row_kind,
        family=case.family,
        device=case.device,
        metric=target.metric,
        unit=target.unit,
        measured=_measured(target.measured),
        predicted=None,
        interval=None,
        error=None,
        grade="assumed",
        assumed=case.assumed,
        reason=reason or "not expressed",
        group=scenario_group(case.scenario) if case.scenario else "",
    )


def _predicted(case: RowCase, target: Target, result: TrainingResult) -> RowOutcome:
    value = target.convert(result)
    if not math.isfinite(value):
        return _missing(case, target, f"{target.metric} cannot be converted from a step time")
    assert case.scenario is not None
    band: dict[str, Any] | None = None
    if "memory" not in target.metric and target.metric != "oom":
        edges = sorted(target.convert(at_step_time(result, t)) for t in (result.interval.low, result.interval.high))
        band = {
            "level": result.interval.level,
            "low": edges[0],
            "high": edges[1],
            "basis": result.interval.basis,
            "grade": result.interval.grade,
        }
    return RowOutcome(
        id=case.id,
        row_kind=case.row_kind,
        family=case.family,
        device=case.device,
        metric=target.metric,
        unit=target.unit,
        measured=target.measured,
        predicted=value,
        interval=band,
        error=relative_error(value, target.measured),
        grade=result.interval.grade,
        assumed=case.assumed,
        reason="",
        group=scenario_group(case.scenario),
        devices=result.num_devices,
        tokens=result.tokens_per_s * result.step_time_s,
        flop_per_device=result.model_tflops_per_device * 1e12 * result.step_time_s,
        predicted_seconds=result.step_time_s,
        fits=result.memory_fits,
        seq_len=case.scenario.training.seq_len if case.scenario.training else 0,
        plan=plan_key(case.scenario),
        work=work_key(case.scenario),
    )


def _micro(row: dict[str, Any], case: RowCase, target: Target) -> RowOutcome:
    if case.reason:
        return _missing(case, target, case.reason)
    found = predict_micro(row, case.row_kind, target.metric)
    if found.value is None or not math.isfinite(found.value):
        return _missing(case, target, found.reason or "no finite prediction")
    return RowOutcome(
        id=case.id,
        row_kind=case.row_kind,
        family=case.family,
        device=case.device,
        metric=target.metric,
        unit=target.unit,
        measured=target.measured,
        predicted=found.value,
        interval=None,
        error=relative_error(found.value, target.measured),
        grade="fitted",
        assumed=found.assumed,
        reason="",
    )
