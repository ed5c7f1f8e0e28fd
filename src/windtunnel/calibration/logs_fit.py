"""Coefficients from a user's own step times, through the real simulator.

Logarithms of predicted over measured step times are brought to zero by regularised least squares (Gauss-Newton; every
coefficient is held to the catalogue's value by a Gaussian prior on its logarithm), so that what the rows do not tell
apart stays where it was. Leave-one-out errors re-solve without a row at the last derivatives and simulate that row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Mask
from windtunnel.calibration.logs import Logged
from windtunnel.cost.coefficients import Coefficients, coefficients
from windtunnel.cost.provenance import provenance
from windtunnel.errors import BadInput, Problem
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.device import DeviceSpec, MeasuredValue, Profile
from windtunnel.training.prepare_step import prepare
from windtunnel.training.simulate_step import simulate_step
from windtunnel.training.step_setup import PreparedStep

Progress = Callable[[int, int], None]
ROW_SIGMA = 0.04
"""Standard deviation of one logged step around a perfect fit, in logs: runs of one job lie 1 to 3 % apart, and the
median of what the model leaves over after a fit is about 4 % (docs/accuracy/training.md)."""
SPREAD: dict[str, tuple[float, float, float]] = {
    "gemm_fraction": (0.08, 0.05, 0.98),
    "attention_fraction": (0.20, 0.02, 0.95),
    "memory_fraction": (0.15, 0.05, 0.98),
    "grouped_fraction": (0.20, 0.1, 1.0),
    "host_kernel_s": (0.40, 2e-7, 1e-3),
    "scale_up_scale": (0.15, 0.1, 1.2),
    "scale_out_scale": (0.25, 0.05, 1.2),
}
"""How far machines and releases of one kind lie apart in logs, and physical limits; the widths under which the shipped
coefficients were fitted (`windtunnel_lab/fit/priors.yaml`). The wider of this and the standard error of the catalogue
holds."""
INFORMED = 0.7
"""A coefficient counts as informed by the rows once its standard error is below this share of its prior's."""
_STEP, _ROUNDS, _SILENT = 0.02, 4, 0.25
_OUTLIER = 4.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A coefficient that may move."""

    name: str
    prior: float
    width: float
    """Standard deviation of the prior, in logs."""
    low: float
    high: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRow:
    """One logged step next to its predictions. Errors are predicted over measured, less 1."""

    label: str
    line: int
    measured_s: float
    before_s: float
    after_s: float
    left_out_s: float | None
    """Predicted by a fit to the other rows."""
    memory: tuple[float, float] | None
    """Predicted and measured peak bytes, where the log states it."""

    def error(self, which: str) -> float:
        """Relative error of the prediction `before`, `after` or `left_out`."""
        return float(getattr(self, f"{which}_s") or math.nan) / self.measured_s - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFit:
    """A profile fitted to logs, and how well it does."""

    device: DeviceSpec
    moved: dict[str, MeasuredValue]
    """What the rows inform by themselves."""
    together: tuple[str, ...]
    """Moved as well, but the rows do not tell these apart: their sum of effects is known, their shares are not."""
    silent: tuple[str, ...]
    """What no row depends on: the catalogue's value stays."""
    priors: dict[str, Candidate]
    rows: tuple[FittedRow, ...]
    warnings: tuple[str, ...]
    cluster: dict[str, Any]
    """Network and nodes of the first row, for scenarios that name the profile and nothing else."""

    def median_error(self, which: str) -> float:
        """Median absolute relative error over the rows of the prediction `before`, `after` or `left_out`."""
        return float(np.median([abs(r.error(which)) for r in self.rows]))


def fit_logs(rows: Sequence[Logged], source: str, report: Progress | None = None) -> LogFit:
    """Fit the few coefficients that the rows inform.

    Args:
        rows: of one device.
        source: what the rows came from, for the profile.
        report: called with simulations done and expected.

    Raises:
        BadInput: rows that cannot be simulated, all of them.
    """
    before = _simulated(rows)
    device = rows[0].cluster.device
    found = _candidates(rows, before)
    work = _Work(rows, found, device, report)
    start = np.zeros(len(found))
    theta, jacobian, acting = _solved(work, start, work.seconds(start))
    after = work.seconds(theta)
    residual = work.residual(after)
    spread, errors = _errors(jacobian, residual, found, acting)
    left_out = _left_out(work, theta, jacobian, residual, acting, spread)
    together = tuple(found[k].name for k in np.flatnonzero(acting) if not errors[k] < INFORMED * found[k].width)
    moved = {
        c.name: MeasuredValue(
            value=float(c.prior * np.exp(shift)),
            grade="fitted",
            relative_error=round(float(error), 4),
            source=f"{len(rows)} rows of {source}; prior {c.prior:.4g} ± {c.width:.0%}"
            + ("; not told apart from others" if c.name in together else ""),
        )
        for c, shift, error, acts in zip(found, theta, errors, acting, strict=True)
        if acts
    }
    profile = _over(device.profile, moved, {"rows": len(rows), "spread": round(spread, 4), "source": source})
    warnings = _warnings(rows, residual, spread)
    return LogFit(
        device=device.model_copy(update={"profile": profile}),
        moved=moved,
        together=together,
        silent=tuple(found[k].name for k in np.flatnonzero(~acting)),
        priors={c.name: c for c in found},
        rows=tuple(
            FittedRow(
                label=r.label,
                line=r.line,
                measured_s=r.step_time_s,
                before_s=b.step_time_s,
                after_s=float(a),
                left_out_s=None if o is None else float(o),
                memory=None if r.peak_memory_bytes is None else (b.peak_bytes, r.peak_memory_bytes),
            )
            for r, b, a, o in zip(rows, before, after, left_out, strict=True)
        ),
        warnings=warnings,
        cluster=_surroundings(rows[0].cluster),
    )


def _surroundings(cluster: ClusterSpec) -> dict[str, Any]:
    data = cluster.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    kept = ["scale_up", "scale_out", "devices_per_node", "host_memory_bytes", "power_cap_w"]
    if cluster.scale_up_domain != cluster.devices_per_node:
        kept.append("scale_up_domain")
    return {key: data[key] for key in kept if key in data}


@dataclass(frozen=True, slots=True)
class _Before:
    prepared: PreparedStep
    step_time_s: float
    peak_bytes: float


def _simulated(rows: Sequence[Logged]) -> list[_Before]:
    """Every row with the catalogue's coefficients; what cannot be simulated is reported at once."""
    out, problems = [], []
    for row in rows:
        try:
            prepared = prepare(row.model, row.cluster, row.training, row.plan, row.techniques)
            result = simulate_step(prepared)
        except BadInput as error:
            for p in error.problems:
                problems.append(Problem(p.field, f"{p.rule} (row of line {row.line})", p.value, p.nearest))
            continue
        out.append(_Before(prepared, result.step_time_s, float(result.peak_memory_allocated_bytes)))
    if problems:
        raise BadInput(problems)
    return out


def _over(base: Profile | None, moved: dict[str, MeasuredValue], conditions: dict[str, str | int | float]) -> Profile:
    """A profile with values laid over what it had."""
    known = base or Profile()
    return known.model_copy(
        update={
            "coefficients": {**known.coefficients, **moved},
            "conditions": {**known.conditions, **conditions},
        }
    )


def _value(c: Coefficients, name: str) -> float | None:
    key, _, entry = name.partition(".")
    found = getattr(c, key)
    return found.get(entry) if isinstance(found, dict) else float(found)


def _names(rows: Sequence[Logged], before: Sequence[_Before]) -> list[str]:
    """What may matter to the rows; derivatives decide."""
    out = []
    for row, b in zip(rows, before, strict=True):
        fractions = b.prepared.coefficients.gemm_fraction
        wide = row.training.precision if row.training.precision in fractions else "bf16"
        narrow = [k for k in ("fp8", "fp4", "int8") if k in fractions and k in row.training.precision]
        out += [f"gemm_fraction.{k}" for k in (wide, *narrow)]
        if row.training.precision in ("mxfp8", "nvfp4"):
            out.append("gemm_fraction.fp8" if row.training.precision == "mxfp8" else "gemm_fraction.fp4")
        out.append(f"attention_fraction.{b.prepared.behaviour.attention}")
        if row.model.num_experts:
            out.append("grouped_fraction")
    return [*dict.fromkeys(out), "memory_fraction", "host_kernel_s", "scale_up_scale", "scale_out_scale"]


def _candidates(rows: Sequence[Logged], before: Sequence[_Before]) -> list[Candidate]:
    out = []
    device = rows[0].cluster.device
    for name in _names(rows, before):
        key = name.partition(".")[0]
        owner = next((b for b in before if _value(b.prepared.coefficients, name)), None)
        if owner is None:
            continue
        prior = float(_value(owner.prepared.coefficients, name) or 0.0)
        if key == "gemm_fraction":  # a profile states it at the full clock
            prior /= owner.prepared.clock
        if key == "host_kernel_s" and (
            plain := coefficients(owner.prepared.training.framework, device, rows[0].cluster).host_kernel_s
        ):
            prior = plain  # a job over several nodes sees a multiple
        spread, low, high = SPREAD[key]
        known = provenance(owner.prepared.training.framework, device, rows[0].cluster).get(name)
        width = max(spread, known.relative_error or 0.0) if known else spread
        if known is not None and known.grade == "measured" and known.relative_error:
            width = known.relative_error
        source = known.source if known else ""
        out.append(Candidate(name, prior, width, min(low, prior), max(high, prior), source))
    return out


class _Work:
    """Rows under a candidate profile."""

    def __init__(
        self, rows: Sequence[Logged], found: Sequence[Candidate], device: DeviceSpec, report: Progress | None
    ) -> None:
        self.rows, self.found, self.device, self.report = rows, found, device, report
        self.measured = np.array([row.step_time_s for row in rows])
        self.width = np.array([c.width for c in found])
        self.bounds = np.log([[c.low / c.prior, c.high / c.prior] for c in found]).T
        self.done, self.expected = 0, len(rows) * (2 * len(found) + 6)

    def one(self, row: Logged, theta: Floats) -> float:
        """Predicted seconds of a row, as the written profile will give them."""
        values = {
            c.name: MeasuredValue(value=float(c.prior * np.exp(t)), grade="fitted")
            for c, t in zip(self.found, theta, strict=True)
            if t != 0.0
        }
        device = self.device.model_copy(update={"profile": _over(self.device.profile, values, {})})
        cluster = row.cluster.model_copy(update={"device": device})
        prepared = prepare(row.model, cluster, row.training, row.plan, row.techniques)
        self.done += 1
        if self.report is not None:
            self.report(min(self.done, self.expected), self.expected)
        return simulate_step(prepared, memory=False).step_time_s

    def seconds(self, theta: Floats) -> Floats:
        """Predicted step time of every row, shape (rows,)."""
        return np.array([self.one(row, theta) for row in self.rows])

    def residual(self, seconds: Floats) -> Floats:
        """Logarithms of predicted over measured."""
        return np.asarray(np.log(seconds / self.measured))

    def jacobian(self, theta: Floats, seconds: Floats, columns: Mask) -> Floats:
        """Derivatives of the logarithms by the coefficients' logarithms, towards the side that has room."""
        out = np.zeros((len(self.rows), len(self.found)))
        for k in np.flatnonzero(columns):
            moved = theta.copy()
            step = -_STEP if theta[k] + _STEP > self.bounds[1, k] else _STEP
            moved[k] += step
            out[:, k] = np.log(self.seconds(moved) / seconds) / step
        return out

    def objective(self, theta: Floats, seconds: Floats) -> float:
        """Sum of squares of what is minimised."""
        return float(np.sum((self.residual(seconds) / ROW_SIGMA) ** 2) + np.sum((theta / self.width) ** 2))


def _solved(work: _Work, theta: Floats, seconds: Floats) -> tuple[Floats, Floats, Mask]:
    """Minimum, derivatives there, and which coefficients the rows depend on at all."""
    every = np.ones(len(theta), bool)
    jacobian = work.jacobian(theta, seconds, every)
    acting = (np.abs(jacobian) * work.width).max(axis=0) > _SILENT * ROW_SIGMA
    best = work.objective(theta, seconds)
    for round_ in range(_ROUNDS):
        step = _newton(jacobian, work.residual(seconds), theta, work.width, acting)
        for share in (1.0, 0.5, 0.2):
            tried = np.clip(theta + share * step, *work.bounds)
            times = work.seconds(tried)
            if (value := work.objective(tried, times)) < best:
                break
        else:
            return theta, jacobian, acting
        gain, best = best - value, value
        theta, seconds = tried, times
        if gain < 0.01 * best + 0.01 or round_ == _ROUNDS - 1:
            break
        jacobian = work.jacobian(theta, seconds, acting)
    return theta, jacobian, acting


def _newton(jacobian: Floats, residual: Floats, theta: Floats, width: Floats, acting: Mask) -> Floats:
    """Step to the minimum of the linear model with its prior."""
    a = jacobian[:, acting] / ROW_SIGMA
    inverse = np.diag(1.0 / width[acting] ** 2)
    step = np.zeros(len(theta))
    right = a.T @ (residual / ROW_SIGMA) + inverse @ theta[acting]
    step[acting] = -np.linalg.solve(a.T @ a + inverse, right)
    return step


def _errors(jacobian: Floats, residual: Floats, found: Sequence[Candidate], acting: Mask) -> tuple[float, Floats]:
    """Spread of the rows around the fit, and standard errors of logarithms with the prior in them."""
    width = np.array([c.width for c in found])
    prior = np.diag(1.0 / width**2)
    a = np.where(acting, jacobian, 0.0) / ROW_SIGMA
    used = float(np.trace(np.linalg.solve(a.T @ a + prior, a.T @ a)))
    spread = math.sqrt(float(np.sum(residual**2)) / max(len(residual) - used, 1.0))
    wide = max(spread, ROW_SIGMA)
    a *= ROW_SIGMA / wide
    return spread, np.sqrt(np.diag(np.linalg.inv(a.T @ a + prior)))


def _left_out(
    work: _Work, theta: Floats, jacobian: Floats, residual: Floats, acting: Mask, spread: float
) -> list[float | None]:
    """Each row as a fit to the others predicts it."""
    if len(work.rows) < 2:
        return [None] * len(work.rows)
    out: list[float | None] = []
    for i, row in enumerate(work.rows):
        kept = np.arange(len(work.rows)) != i
        step = _newton(jacobian[kept], residual[kept], theta, work.width, acting)
        out.append(work.one(row, np.clip(theta + step, *work.bounds)))
    return out


def _warnings(rows: Sequence[Logged], residual: Floats, spread: float) -> tuple[str, ...]:
    out = []
    for row, r in zip(rows, residual, strict=True):
        if abs(r) > _OUTLIER * ROW_SIGMA:
            out.append(
                f"line {row.line} ({row.label}) is predicted {np.expm1(r):+.0%} off even after the fit: no coefficient "
                "within its limits explains it; check the row's scenario"
            )
    if len(rows) < 3:
        out.append(f"{len(rows)} row{'s' if len(rows) > 1 else ''}: three or more, of unlike shapes, tell more apart")
    if spread > 2 * ROW_SIGMA:
        out.append(f"rows lie {spread:.0%} around the fit (usual: {ROW_SIGMA:.0%}); standard errors are widened by it")
    frameworks = sorted({row.training.framework for row in rows})
    if len(frameworks) > 1:
        out.append(f"rows of {', '.join(frameworks)}: one profile stands for all of them; a profile each says more")
    return tuple(out)
