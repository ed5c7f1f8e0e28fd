"""Fit the power of serving devices: `python -m windtunnel.validation.fit_serving_power ROWS`.

Rows are measured power of served models (`validation/reading/power.py`). For each generation four shares of the board's
power are fitted to watts, given the time between tokens, so that an error of our times does not go into them. Errors
are those of models left out, every size, format and task of one architecture together. Writes
`catalog/coefficients/serving/power.yaml`; rows themselves are not shipped.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from windtunnel.cost.serving_power import FITTED, PowerCoefficients, Use, watts
from windtunnel.serving.power import phases
from windtunnel.specs.device import DeviceSpec
from windtunnel.validation.power_rows import itl_of, served, steady
from windtunnel.validation.reading.power import is_power_row, read_power
from windtunnel.validation.reading.values import number
from windtunnel.validation.run import load_rows

Floats = npt.NDArray[np.float64]
PRIOR = {"awake": (0.40, 0.5), "kernel": (0.25, 1.0), "attention": (0.35, 1.0), "matrix": (0.9, 0.5)}
"""Share and standard deviation of its logarithm. Awake: 250–350 W of a 700 W board between kernels; kernel and
attention: 2–3 times the energy of the bytes alone; matrix: products at 0.7–0.8 of peak hold a board at its limit."""
NOISE = 0.10
"""Standard deviation of a good row's log residual; rows beyond it count ever less."""
_OUT = Path(__file__).resolve().parents[1] / "catalog" / "coefficients" / "serving" / "power.yaml"


@dataclass(frozen=True, slots=True)
class Sample:
    """One row: what its device does, and what it drew."""

    model: str
    device: DeviceSpec
    uses: tuple[tuple[float, Use], ...]
    """(share of the time, use)."""
    watts: float
    """Measured, of one device."""

    def predicted(self, c: PowerCoefficients) -> float:
        """Watts of one device."""
        return sum(share * watts(self.device, c, use) for share, use in self.uses)


def samples(rows: Sequence[dict[str, Any]]) -> list[Sample]:
    """Rows that can be read and state power and time between tokens."""
    out = []
    for row in rows:
        case = read_power(row) if is_power_row(row) else ""
        measured, itl = number(row.get("avg_power_W_reported")), itl_of(row)
        if isinstance(case, str) or not measured or not itl:
            continue
        x = served(case)
        parts = phases(steady(case, x.iteration, itl), x.iteration)
        whole = sum(p.iterations * p.seconds for p in parts)
        uses = tuple(
            (p.iterations * p.seconds / whole, p.use(x.work, x.iteration, x.cluster.device))
            for p in parts
            if p.iterations
        )
        out.append(Sample(case.model.name, x.cluster.device, uses, measured / case.plan.num_devices))
    return out


def _at(x: Floats) -> PowerCoefficients:
    awake, kernel, attention, matrix = (float(v) for v in np.exp(x))
    return PowerCoefficients(awake, kernel, attention, matrix, 0.0, "fitted", "")


def residuals(found: Sequence[Sample], x: Floats) -> Floats:
    """log(predicted / measured) at logarithms of the coefficients."""
    c = _at(x)
    return np.array([math.log(s.predicted(c) / s.watts) for s in found])


def fit(found: Sequence[Sample]) -> tuple[Floats, Floats]:
    """Logarithms of the coefficients, largest a posteriori, and their standard errors (Gauss–Newton, soft L1)."""
    prior = np.log([PRIOR[k][0] for k in FITTED])
    sigma = np.array([PRIOR[k][1] for k in FITTED])
    x = prior.copy()

    def objective(r: Floats, at: Floats) -> float:
        return float((2.0 * (np.sqrt(1.0 + (r / NOISE) ** 2) - 1.0)).sum() + (((at - prior) / sigma) ** 2).sum())

    r = residuals(found, x)
    best, h = objective(r, x), np.eye(len(x))
    for _ in range(30):
        jacobian = np.stack([(residuals(found, x + 0.02 * e) - r) / 0.02 for e in np.eye(len(x))], axis=1)
        w = 1.0 / np.sqrt(1.0 + (r / NOISE) ** 2) / NOISE**2
        h = jacobian.T @ (w[:, None] * jacobian) + np.diag(1.0 / sigma**2)
        step = -np.linalg.solve(h, jacobian.T @ (w * r) + (x - prior) / sigma**2)
        before = best
        for scale in (1.0, 0.5, 0.2, 0.05):
            other = residuals(found, x + scale * step)
            value = objective(other, x + scale * step)
            if value < best:
                x, r, best = x + scale * step, other, value
                break
        if before - best < 1e-4:
            break
    return x, np.sqrt(np.diag(np.linalg.inv(h)))


def left_out(found: Sequence[Sample], predict: Callable[[list[Sample], list[Sample]], Floats]) -> Floats:
    """Errors (predicted / measured − 1) of every sample when its model took no part.

    Args:
        found: all samples of a generation.
        predict: watts of the second list, from a fit of the first.
    """
    out = np.zeros(len(found))
    for model in sorted({s.model for s in found}):
        own = [i for i, s in enumerate(found) if s.model == model]
        rest = [s for s in found if s.model != model]
        held = [found[i] for i in own]
        out[own] = predict(rest, held) / np.array([s.watts for s in held]) - 1.0
    return out


def by_fit(rest: list[Sample], held: list[Sample]) -> Floats:
    """The form of `cost.serving_power`."""
    c = _at(fit(rest)[0])
    return np.array([s.predicted(c) for s in held])


def by_constant(rest: list[Sample], held: list[Sample]) -> Floats:
    """One number of watts, the one with the least mean error on the other models."""
    known = np.sort([s.watts for s in rest])
    best = min(known, key=lambda w: float(np.abs(w / known - 1.0).mean()))
    return np.full(len(held), best)


def by_board(_: list[Sample], held: list[Sample]) -> Floats:
    """The board's power of the data sheet."""
    return np.array([s.device.tdp_w or math.nan for s in held])


def main(arguments: Sequence[str]) -> int:
    """Fit every generation that has rows; print errors and write the coefficients."""
    rows = load_rows(Path(arguments[0]))
    found = samples(rows)
    sections: dict[str, dict[str, Any]] = {}
    fits: dict[str, tuple[list[Sample], Floats]] = {}
    for generation in sorted({s.device.generation for s in found}):
        own = [s for s in found if s.device.generation == generation]
        x, errors = fit(own)
        out = left_out(own, by_fit)
        fits[generation] = (own, x)
        models = len({s.model for s in own})
        source = f"{len(own)} rows of {models} architectures, ML.ENERGY Leaderboard v3.0, vLLM"
        sections[generation] = {
            k: {
                "value": float(f"{math.exp(v):.4g}"), "grade": "fitted", "relative_error": float(f"{e:.2g}"),
                "prior": PRIOR[k][0], "source": source,
            }
            for k, v, e in zip(FITTED, x, errors, strict=True)
        }  # fmt: skip
        sections[generation]["spread"] = {"value": float(f"{np.log1p(out).std():.2g}"), "grade": "fitted"}
        inside = np.abs(np.expm1(residuals(own, x)))
        print(f"{generation}: {len(own)} rows, {models} models; in sample {_shown(inside)}")
        for name, way in (("this form", by_fit), ("one constant", by_constant), ("board power", by_board)):
            print(f"  {name}, models left out: {_shown(np.abs(out if way is by_fit else left_out(own, way)))}")
        shares = zip(FITTED, x, errors, strict=True)
        print("  " + ", ".join(f"{k} {math.exp(v):.3f} ± {100 * e:.0f} %" for k, v, e in shares))
    default = _default(fits)
    print(f"default: {default}")
    _write({"default": default, **sections})
    return 0


def _default(fits: dict[str, tuple[list[Sample], Floats]]) -> dict[str, Any]:
    """What devices without rows take: the mean of the generations, judged on each by the mean of the others."""
    errors = []
    for generation, (own, _) in fits.items():
        others = [np.exp(x) for name, (_, x) in fits.items() if name != generation]
        if others:
            errors.append(residuals(own, np.log(np.mean(others, axis=0))))
    middle = np.mean([np.exp(x) for _, x in fits.values()], axis=0)
    out: dict[str, Any] = {
        k: {"value": float(f"{v:.2g}"), "grade": "assumed", "source": "mean of the generations that were fitted"}
        for k, v in zip(FITTED, middle, strict=True)
    }
    wide = float(np.sqrt(np.mean(np.concatenate(errors) ** 2))) if errors else 0.3
    source = "each generation by the other's shares"
    return out | {"spread": {"value": float(f"{wide:.2g}"), "grade": "assumed", "source": source}}


def _shown(errors: Floats) -> str:
    return f"{100 * errors.mean():.1f} % (median {100 * float(np.median(errors)):.1f} %)"


def _write(coefficients: dict[str, dict[str, Any]]) -> None:
    import yaml

    about = (
        "Shares of (board power - idle) that a serving device draws: docs/serving.md, 'Power, energy, money'. Written "
        "by `python -m windtunnel.validation.fit_serving_power`; `spread`: standard deviation of the log error of "
        "models left out. `relative_error`: one standard error, priors included."
    )
    data = {"about": about, "coefficients": coefficients}
    _OUT.write_text(yaml.safe_dump(data, sort_keys=False, width=120))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
