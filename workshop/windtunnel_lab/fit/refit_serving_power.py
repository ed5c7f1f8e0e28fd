"""Fit the power of serving devices: `python -m windtunnel_lab.fit.refit_serving_power ROWS`.

Rows are measured power of served models (`validation/rows/parsing/power.py`). For each generation four
shares of the board's
power are fitted to watts, given the time between tokens, so that an error of our times does not go into them. Errors
are those of models left out, every size, format and task of one architecture together. Writes
`catalog/coefficients/serving/power.yaml` and, by generation, errors (`catalog/residuals/serving_power.json`); rows
themselves are not shipped.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import windtunnel
from windtunnel.arrays import Floats
from windtunnel.cost.serving_power import FITTED, PowerCoefficients
from windtunnel.validation.rows.row_files import load_rows
from windtunnel_lab.fit import power_other_tools
from windtunnel_lab.fit.power_samples import Run, Sample, samples

PRIOR = {"awake": (0.40, 0.5), "kernel": (0.25, 1.0), "attention": (0.35, 1.0), "matrix": (0.9, 0.5)}
"""Share and standard deviation of its logarithm. Awake: 250–350 W of a 700 W board between kernels; kernel and
attention: 2–3 times the energy of the bytes alone; matrix: products at 0.7–0.8 of peak hold a board at its limit."""
NOISE = 0.10
"""Standard deviation of a good row's log residual; rows beyond it count ever less."""
_CATALOG = Path(windtunnel.__file__).parent / "catalog"
_OUT = _CATALOG / "coefficients" / "serving" / "power.yaml"
_ERRORS = _CATALOG / "residuals" / "serving_power.json"


def _at(x: Floats) -> PowerCoefficients:
    awake, kernel, attention, matrix = (float(v) for v in np.exp(x))
    return PowerCoefficients(
        awake=awake,
        kernel=kernel,
        attention=attention,
        matrix=matrix,
        spread=0.0,
        energy_spread=0.0,
        grade="fitted",
        level="",
    )


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


Fit = Callable[[list[Sample]], Callable[[Sample, Run], float]]
"""From samples to watts of a device in a run of another sample."""


def left_out(
    found: Sequence[Sample], way: Fit, *, energy: bool = False, own: bool = False, by_name: bool = False
) -> Floats:
    """Errors (predicted / measured − 1) of every sample when its architecture took no part.

    Args:
        found: all samples of a generation.
        way: fits watts to the rest.
        energy: joules per token instead of watts.
        own: with our own times instead of the given time between tokens.
        by_name: leave out one model's name only, not its whole architecture.
    """
    out = np.zeros(len(found))
    groups = [s.name if by_name else s.model for s in found]
    for group in sorted(set(groups)):
        predict = way([s for s, g in zip(found, groups, strict=True) if g != group])
        for i, s in enumerate(found):
            if groups[i] == group:
                run = s.own if own else s.given
                drawn = predict(s, run)
                out[i] = (s.devices * drawn * run.seconds_per_token / s.joules if energy else drawn / s.watts) - 1.0
    return out


def by_fit(rest: list[Sample]) -> Callable[[Sample, Run], float]:
    """The form of `cost.serving_power`."""
    c = _at(fit(rest)[0])
    return lambda s, run: s.predicted(c, run)


def main(arguments: Sequence[str]) -> int:
    """Fit every generation that has rows; print errors and write coefficients and errors."""
    found = samples(load_rows(Path(arguments[0])))
    sections: dict[str, dict[str, Any]] = {}
    fits: dict[str, tuple[list[Sample], Floats]] = {}
    table: list[dict[str, Any]] = []
    for generation in sorted({s.device.generation for s in found}):
        own = [s for s in found if s.device.generation == generation]
        x, errors = fit(own)
        fits[generation] = (own, x)
        spread = _spread(left_out(own, by_fit))
        ours = _spread(left_out(own, by_fit, energy=True, own=True))
        models = len({s.model for s in own})
        source = f"{len(own)} rows of {models} architectures, ML.ENERGY Leaderboard v3.0, vLLM"
        sections[generation] = {
            k: {
                "value": float(f"{math.exp(v):.4g}"),
                "grade": "fitted",
                "relative_error": float(f"{e:.2g}"),
                "prior": PRIOR[k][0],
                "source": source,
            }
            for k, v, e in zip(FITTED, x, errors, strict=True)
        }
        for name, value in (("spread", spread), ("energy_spread", ours)):
            sections[generation][name] = {"value": float(f"{value:.2g}"), "grade": "fitted"}
        known = zip(FITTED, x, errors, strict=True)
        shares = ", ".join(f"{k} {math.exp(v):.3f} ± {100 * e:.0f} %" for k, v, e in known)
        inside = np.abs(np.expm1(residuals(own, x)))
        print(f"{generation}: {len(own)} rows, {models} models, in sample {100 * inside.mean():.1f} %; {shares}")
        table += errors_of(own, generation, models, (spread, ours))
    for line in table:
        print("  " + "  ".join(f"{k} {v}" for k, v in line.items()))
    _write({"default": _default(fits), **sections})
    _ERRORS.write_text(json.dumps(table, indent=1) + "\n")
    return 0


def errors_of(own: list[Sample], generation: str, models: int, spreads: tuple[float, float]) -> list[dict[str, Any]]:
    """Errors of one generation by way and measure, every model left out of its own."""
    out = []
    ways: list[tuple[str, Fit]] = [("this form", by_fit), *power_other_tools.WAYS.items()]
    for name, way, by_name in [("this form", by_fit, True), *((name, way, False) for name, way in ways)]:
        for measure, energy, ours in (
            ("watts, given ITL", False, False),
            ("joules per token, given ITL", True, False),
            ("watts, own times", False, True),
            ("joules per token, own times", True, True),
        ):
            if name != "this form" and (ours or energy):
                continue
            e = left_out(own, way, energy=energy, own=ours, by_name=by_name)
            e = e[np.isfinite(e)]
            if e.size:
                spread = spreads[1] if energy and ours else spreads[0]
                count = len({s.name for s in own}) if by_name else models
                line = _line(generation, len(own), count, name, measure, e, spread)
                out.append(line | {"left_out": "name" if by_name else "architecture"})
    e = power_other_tools.ecologits(own)
    line = _line(generation, len(own), models, "EcoLogits", "joules per token, given ITL", e, None)
    out.append(line | {"left_out": "architecture"})
    return out


def _line(
    generation: str, rows: int, models: int, way: str, measure: str, e: Floats, spread: float | None
) -> dict[str, Any]:
    size = 100.0 * np.abs(e)
    inside = None if spread is None or way != "this form" else float((np.abs(np.log1p(e)) < 1.2816 * spread).mean())
    return {
        "generation": generation,
        "rows": rows,
        "models": models,
        "way": way,
        "measure": measure,
        "mean": round(float(size.mean()), 1),
        "median": round(float(np.median(size)), 1),
        "p90": round(float(np.percentile(size, 90)), 1),
        "bias": round(100.0 * float(e.mean()), 1),
        "in_band": None if inside is None else round(100.0 * inside),
    }


def _spread(errors: Floats) -> float:
    """Root mean square of log errors: what an interval around the prediction has to hold, bias included."""
    known = np.log1p(errors[np.isfinite(errors)])
    return float(np.sqrt((known**2).mean()))


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
    worst = max(_spread(left_out(own, by_fit, energy=True, own=True)) for own, _ in fits.values())
    for name, value in (("spread", wide), ("energy_spread", max(worst, wide))):
        out[name] = {"value": float(f"{value:.2g}"), "grade": "assumed", "source": source}
    return out


def _write(coefficients: dict[str, dict[str, Any]]) -> None:
    import yaml

    about = (
        "Shares of (board power - idle) that a serving device draws: docs/serving/overview.md, 'Power, energy, "
        "money'. Written "
        "by `python -m windtunnel_lab.fit.refit_serving_power`; `spread`: standard deviation of the log error "
        "of models left out. `relative_error`: one standard error, priors included."
    )
    data = {"about": about, "coefficients": coefficients}
    _OUT.write_text(yaml.safe_dump(data, sort_keys=False, width=120))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
