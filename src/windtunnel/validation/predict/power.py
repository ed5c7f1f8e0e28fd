"""Predict measured power and energy of served models: from our own times, and from the time between tokens as given."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from windtunnel import catalog
from windtunnel.cost.serving import serving_coefficients
from windtunnel.cost.serving_power import PowerCoefficients
from windtunnel.errors import ProblemList, WindtunnelError
from windtunnel.serving.iteration.instance_shape import Shape, shape_of
from windtunnel.serving.iteration.iteration_model import IterationModel, iteration_model
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.serving.iteration.power_work import WorkTable, work_table
from windtunnel.serving.results.power import SUMS, PowerModel, PowerReport, power_report
from windtunnel.specs.cluster import ClusterRef, ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import ServingPlan, ServingPrecision
from windtunnel.validation.predict.report import RowOutcome, relative_error
from windtunnel.validation.rows.parsing.loose_values import number
from windtunnel.validation.rows.parsing.power import PowerCase, read_power

_MOST_TOKENS = 16384
FAMILY = "power"


@dataclass(frozen=True, slots=True)
class Served:
    """One configuration, priced."""

    model: ModelSpec
    cluster: ClusterSpec
    shape: Shape
    iteration: IterationModel
    work: WorkTable

    def report(self, totals: dict[str, Any], coefficients: PowerCoefficients | None = None) -> PowerReport:
        """Power of a run that was never idle."""
        seconds = float(totals["busy_s"][0])
        instance = PowerModel(
            model=self.model,
            cluster=self.cluster,
            shape=self.shape,
            iteration=self.iteration,
            work=self.work,
            coefficients=coefficients,
        )
        return power_report(instance, totals, seconds, time_grade="fitted")


def served(case: PowerCase) -> Served:
    """The instance of a row; rows of one configuration share it.

    Raises:
        BadInput: the plan does not fit the model or the device.
    """
    return _served(case.model, case.cluster, case.plan, case.precision)


@lru_cache(maxsize=128)
def _served(model: ModelSpec, ref: ClusterRef, plan: ServingPlan, precision: ServingPrecision) -> Served:
    cluster = catalog.resolve_cluster(ref)
    problems = ProblemList()
    shape = shape_of(model, cluster, plan, precision, "plan", problems)
    problems.raise_if_any()
    c = serving_coefficients("vllm", "", cluster.device)
    layers = Layers(model, cluster, shape, c)
    iteration = iteration_model(layers, most_tokens=_MOST_TOKENS)
    return Served(model, cluster, shape, iteration, work_table(layers, iteration))


def steady(case: PowerCase, iteration: IterationModel, itl_s: float | None = None) -> dict[str, Any]:
    """Sums of the loop over one mean answer of a full batch: a new request takes the place of each sequence that ends.

    Args:
        case: the row.
        iteration: of its instance.
        itl_s: median time between tokens where it is given; absent: as predicted.
    """
    steps, batch = case.answer_tokens, case.batch
    prompts = steps * -math.expm1(-batch / steps)  # steps that some of the `batch` new prompts fall into
    sums = dict.fromkeys(SUMS, 0.0) | {
        "iterations": steps,
        "prompt_iterations": prompts,
        "prompt_tokens": batch * case.prompt_tokens,
        "prompt_pairs": batch * 0.5 * case.prompt_tokens**2,
        "decode_tokens": batch * steps,
        "kv_tokens": batch * steps * case.resident_tokens,
        "busy_s": 1.0,
    }
    totals: dict[str, Any] = {k: np.array([v]) for k, v in sums.items()}
    mean, median = step_seconds(case, iteration)
    # Times of steps lean to the right: a mean below the median comes from counting prompts as all alike.
    totals["busy_s"] = np.array([steps * (mean if itl_s is None else itl_s + max(mean - median, 0.0))])
    return totals


def step_seconds(case: PowerCase, iteration: IterationModel) -> tuple[float, float]:
    """Mean and median seconds of a step: as many prompts fall into one as arrive by chance (Poisson)."""
    batch, each = case.batch, case.prompt_tokens
    rate = batch / case.answer_tokens
    count = np.arange(int(rate + 8.0 * math.sqrt(rate) + 4.0))
    logs = count * math.log(rate) - rate - np.array([math.lgamma(k + 1.0) for k in count])
    chance = np.exp(logs) / np.exp(logs).sum()
    kv, window = batch * case.resident_tokens, batch * min(case.resident_tokens, float(iteration.window))
    seconds = np.array(
        [
            iteration.seconds(
                batch + k * each,
                pairs=k * 0.5 * each**2,
                prompt_tokens=k * each,
                kv=kv,
                window_kv=window,
                sequences=batch + k,
            )
            for k in count.tolist()
        ]
    )
    return float(chance @ seconds), float(seconds[np.searchsorted(np.cumsum(chance), 0.5)])


def itl_of(row: dict[str, Any]) -> float | None:
    """Median seconds between tokens that a row reports."""
    found = number(row.get("median_itl_ms"))
    return found / 1e3 if found else None


def outcomes(row: dict[str, Any], device: str) -> list[RowOutcome]:
    """Watts of all devices and joules per token of a row, from our own times and given its time between tokens."""
    blank = RowOutcome(
        id=str(row.get("id") or ""),
        row_kind="power",
        family=FAMILY,
        device=device,
        metric="",
        unit="",
        measured=0.0,
        predicted=None,
        interval=None,
        error=None,
        grade="assumed",
        assumed=(),
        reason="",
    )
    watts, joules = number(row.get("avg_power_W_reported")), number(row.get("energy_per_token_J"))
    measured = [
        replace(blank, metric=metric, unit=unit, measured=value)
        for metric, unit, value in (("avg_power", "W", watts), ("energy_per_token", "J", joules))
        if value
    ]
    itl = itl_of(row)
    case = read_power(row)
    try:
        instance = case if isinstance(case, str) else served(case)
    except WindtunnelError as error:
        instance = " ".join(str(error).split())[:300]
    if isinstance(case, str) or isinstance(instance, str):
        return [replace(one, reason=str(instance)) for one in measured]
    out = []
    for given in (None, itl) if itl else (None,):
        report = instance.report(steady(case, instance.iteration, given))
        known = _watts_and_joules(report, given_itl=given is not None)
        if known is None:
            reason = f"the data sheet of {device} states no board power"
            return [replace(one, reason=reason) for one in measured]
        for one in measured:
            value, low, high = known[one.metric]
            out.append(
                replace(
                    one,
                    metric=one.metric + (" given ITL" if given else ""),
                    predicted=value,
                    interval=dict(report.interval or {}, low=low, high=high),
                    error=relative_error(value, one.measured),
                    grade=report.grades["energy_j"],
                    assumed=case.assumed,
                    devices=report.num_devices,
                    group=f"{case.model.name} @ {device}",
                )
            )
    if itl:
        value = 1e3 * step_seconds(case, instance.iteration)[1]
        out.append(
            replace(
                blank,
                metric="median_itl",
                unit="ms",
                measured=1e3 * itl,
                predicted=value,
                error=relative_error(value, 1e3 * itl),
                grade="fitted",
                assumed=case.assumed,
                group=f"{case.model.name} @ {device}",
            )
        )
    return out


def _watts_and_joules(report: PowerReport, *, given_itl: bool) -> dict[str, tuple[float, float, float]] | None:
    """Metric → value with the low and the high end of its interval; None where the board's power is not known.

    Args:
        report: power of the run.
        given_itl: whether the time between tokens was given; the interval of joules is then that of watts.
    """
    mean, each = report.mean_w_per_device, report.energy_per_output_token_j
    band, own = report.interval, report.energy_interval
    if mean is None or each is None or band is None or own is None:
        return None
    low, high = band["low"] / mean, band["high"] / mean
    below, above = (low, high) if given_itl else (own["low"] / each, own["high"] / each)
    watts = mean * report.num_devices
    return {
        "avg_power": (watts, watts * low, watts * high),
        "energy_per_token": (each, each * below, each * above),
    }
