"""Fit coefficients of serving engines on device generations to measured rows, by request-level simulation.

Gauss–Newton on log errors with Cauchy weights and log-normal priors: what no row tells stays at its prior. In each
set at most eight are free, those that explain most of its errors; the derivatives are finite differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from windtunnel.cost.serving import ServingCoefficients
from windtunnel.validation.fitting import fold_of
from windtunnel.validation.serving_cases import Case, Observation, predict

Floats = npt.NDArray[np.float64]
Block = tuple[str, str]
FREE, STEP, TURNS = 8, 0.05, 6
STEEPEST = 1.5
"""Largest derivative that is believed: where one more wave of requests fits, finite differences are steps."""
PRIORS: dict[str, tuple[float, float]] = {
    "weight_bytes_fraction": (0.07, 0.95), "matrix_fraction.bf16": (0.12, 0.97), "matrix_fraction.fp8": (0.15, 0.97),
    "matrix_fraction.fp4": (0.2, 0.97), "prefill_attention_fraction": (0.2, 0.9), "decode_kv_fraction": (0.15, 0.95),
    "expert_bytes_fraction.bf16": (0.3, 0.95), "expert_bytes_fraction.fp8": (0.3, 0.95),
    "expert_bytes_fraction.fp4": (0.3, 0.95), "expert_bytes_fraction.int4": (0.3, 0.95),
    "expert_matrix_fraction.bf16": (0.2, 1.0), "expert_matrix_fraction.fp8": (0.2, 1.0),
    "expert_matrix_fraction.fp4": (0.2, 1.0), "layer_s": (0.3, math.inf), "prompt_layer_s": (0.6, math.inf),
    "launch_layer_s": (0.4, math.inf), "quantise_layer_s": (0.3, math.inf), "all_reduce_s": (0.3, math.inf),
    "all_reduce_fraction": (0.4, 0.95), "all_to_all_s": (0.5, math.inf),
    "all_to_all_fraction": (0.3, 0.95), "host_s": (0.4, math.inf),
    "sequence_s": (0.4, math.inf), "request_s": (0.5, math.inf), "vector_attention_fraction": (0.3, 0.9),
    "memory_fraction": (0.4, 0.95),
}  # fmt: skip
"""Coefficient → (standard deviation of the prior's logarithm, largest value: never faster than the roofline)."""


def value_of(c: ServingCoefficients, name: str) -> float:
    """A coefficient by its dotted name; 0 where it has none."""
    field, _, key = name.partition(".")
    own: Any = getattr(c, field)
    return float(own.get(key, 0.0)) if key else float(own)


def with_values(c: ServingCoefficients, values: Mapping[str, float]) -> ServingCoefficients:
    """A copy with other values."""
    changed: dict[str, Any] = {}
    for name, value in values.items():
        field, _, key = name.partition(".")
        if key:
            changed[field] = {**changed.get(field, getattr(c, field)), key: value}
        else:
            changed[field] = value
    return replace(c, **changed)


@dataclass(frozen=True, slots=True)
class BlockFit:
    """One set of coefficients, fitted."""

    block: Block
    values: dict[str, float]
    errors: dict[str, float]
    """Standard errors of the logarithms, prior included."""
    told: dict[str, float]
    """Share of each coefficient's information that comes from rows (the rest is its prior)."""
    cases: int
    rows: int


class Fitter:
    """Rows, priors and derivatives of all sets; a set's rows do not depend on another's coefficients."""

    def __init__(
        self, cases: Sequence[Case], seen: Sequence[Observation], priors: Mapping[Block, ServingCoefficients],
        say: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        self.cases, self.seen, self.priors, self.say = cases, list(seen), dict(priors), say
        self.block_of = [cases[o.case].block for o in self.seen]
        self.of: dict[Block, npt.NDArray[np.int64]] = {
            b: np.array([j for j, own in enumerate(self.block_of) if own == b], np.int64) for b in self.priors
        }
        self.measured = np.array([o.log_measured for o in self.seen])
        self.scale = np.array([o.scale for o in self.seen])
        self.names: dict[Block, list[str]] = {}
        self.first: dict[Block, Floats] = {}

    def errors(
        self, at: Mapping[Block, Mapping[str, float]], only: Sequence[Block] | None = None
    ) -> tuple[Floats, Floats]:  # fmt: skip
        """log(predicted / measured) and weights with these values; nan for sets that are not asked for."""
        sets = self.priors if only is None else only
        chosen = {b: with_values(self.priors[b], at.get(b, {})) for b in sets}
        values, weights = predict(self.cases, self.seen, chosen)
        return values - self.measured, weights

    def slopes(
        self, at: Mapping[Block, Mapping[str, float]], base: Floats, names: Mapping[Block, Sequence[str]]
    ) -> dict[Block, Floats]:
        """Derivatives of the errors by logarithms of coefficients; every set is moved in the same pass."""
        out = {b: np.zeros((len(self.of[b]), len(names[b]))) for b in names}
        for k in range(max((len(n) for n in names.values()), default=0)):
            moved: dict[Block, dict[str, float]] = {b: dict(at.get(b, {})) for b in self.priors}
            for b, own in names.items():
                if k < len(own):
                    start = moved[b].get(own[k], value_of(self.priors[b], own[k]))
                    moved[b][own[k]] = start * math.exp(STEP)
            found, _ = self.errors(moved, [b for b, own in names.items() if k < len(own)])
            for b, own in names.items():
                if k < len(own):
                    out[b][:, k] = np.clip(np.nan_to_num((found - base)[self.of[b]] / STEP), -STEEPEST, STEEPEST)
        return out

    def choose(self) -> None:
        """The free coefficients of each set: those that explain most of its errors, one after another."""
        base, weights = self.errors({})
        names = {b: [n for n in PRIORS if value_of(c, n) > 0] for b, c in self.priors.items()}
        slopes = self.slopes({}, base, names)
        for b, own in names.items():
            rows = self.of[b]
            known = np.isfinite(base[rows]) & (weights[rows] > 0)
            w = _weight(base[rows][known], self.scale[rows][known])
            picked = _forward(slopes[b][known], base[rows][known], w, np.array([PRIORS[n][0] for n in own]))
            self.names[b] = [own[i] for i in picked]
            self.first[b] = slopes[b][:, picked]
            self.say(f"{b}: {len(rows)} values, free {', '.join(self.names[b])}")

    def fit(
        self, use: npt.NDArray[np.bool_] | None = None, start: Mapping[Block, Mapping[str, float]] | None = None,
        turns: int = TURNS, slopes: dict[Block, Floats] | None = None,
    ) -> tuple[dict[Block, dict[str, float]], dict[Block, Floats], Floats, dict[Block, Floats]]:  # fmt: skip
        """Values, covariances, errors and derivatives.

        Args:
            use: which observations count; absent: all.
            start: values to begin with.
            turns: Gauss–Newton steps.
            slopes: derivatives to use throughout; absent: taken anew at each step.
        """
        use = np.ones(len(self.seen), np.bool_) if use is None else use
        at: dict[Block, dict[str, float]] = {
            b: dict((start or {}).get(b) or {n: value_of(c, n) for n in self.names[b]}) for b, c in self.priors.items()
        }
        given, covariances = slopes, {}
        errors, weights = self.errors(at)
        best = {b: (self._loss(b, at[b], errors, weights * use), dict(at[b])) for b in at}
        kept, size = errors.copy(), dict.fromkeys(at, 1.0)
        for turn in range(turns):
            if given is None and turn == 0 and not start:
                slopes = self.first
            elif given is None and turn < 2:
                slopes = self.slopes(at, kept, self.names)
            now = slopes or {}
            for b, rows in self.of.items():
                own = (kept[rows], (weights * use)[rows], self.scale[rows], now[b])
                step, covariances[b] = self._step(b, at[b], *own)
                for n, move in zip(self.names[b], size[b] * step, strict=True):
                    at[b][n] = min(at[b][n] * math.exp(float(np.clip(move, -0.4, 0.4))), PRIORS[n][1])
            errors, weights = self.errors(at)
            for b, rows in self.of.items():
                loss = self._loss(b, at[b], errors, weights * use)
                if loss < best[b][0]:
                    best[b] = (loss, dict(at[b]))
                    kept[rows] = errors[rows]
                else:  # too far: half as far next time, from where it was best
                    at[b], size[b] = dict(best[b][1]), 0.5 * size[b]
            self.say(f"turn {turn}: median |error| {np.nanmedian(np.abs(kept[use])):.4f}")
        return at, covariances, kept, slopes or {}

    def _loss(self, b: Block, at: Mapping[str, float], errors: Floats, weights: Floats) -> float:
        """What a fit of one set lowers: Cauchy loss of its errors, and squares of the priors."""
        rows = self.of[b]
        e, s, w = errors[rows], self.scale[rows], weights[rows]
        known = np.isfinite(e) & (w > 0)
        rest = sum((math.log(at[n] / value_of(self.priors[b], n)) / PRIORS[n][0]) ** 2 for n in at)
        return float(4.0 * np.log1p((e[known] / s[known] / 2.0) ** 2).sum() + 10.0 * (~known & (w > 0)).sum() + rest)

    def _step(
        self, b: Block, at: Mapping[str, float], errors: Floats, weights: Floats, scale: Floats, slopes: Floats
    ) -> tuple[Floats, Floats]:
        """One Gauss–Newton step and the covariance of the logarithms."""
        names = self.names[b]
        known = np.isfinite(errors) & (weights > 0)
        e, j, s = errors[known], slopes[known], scale[known]
        w = _weight(e, s)
        prior = np.array([1.0 / PRIORS[n][0] ** 2 for n in names])
        off = np.array([math.log(at[n] / value_of(self.priors[b], n)) for n in names])
        normal = (j * w[:, None]).T @ j + np.diag(prior)
        covariance: Floats = np.asarray(np.linalg.inv(normal))
        return np.asarray(-covariance @ ((j * w[:, None]).T @ e + prior * off)), covariance

    def summary(self, at: Mapping[Block, Mapping[str, float]], covariances: Mapping[Block, Floats]) -> list[BlockFit]:
        """What the catalogue keeps of a fit."""
        out = []
        for b, own in at.items():
            names, used = self.names[b], sorted({self.seen[j].case for j in self.of[b]})
            spread = np.sqrt(np.diag(covariances[b])) if names else np.zeros(0)
            told = {n: 1.0 - float(s / PRIORS[n][0]) ** 2 for n, s in zip(names, spread, strict=True)}
            errors = {n: float(s) for n, s in zip(names, spread, strict=True)}
            rows = sum(self.cases[i].rows for i in used)
            out.append(BlockFit(b, dict(own), errors, told, len(used), rows))
        return out


def _weight(errors: Floats, scale: Floats) -> Floats:
    """Weights of a Cauchy loss: rows whose stated configuration cannot be what ran hardly pull."""
    return np.asarray(1.0 / (1.0 + (errors / scale / 2.0) ** 2) / scale**2)


def _forward(slopes: Floats, errors: Floats, weights: Floats, sigma: Floats) -> list[int]:
    """Up to `FREE` columns, each the one that lowers the penalised squares most beside those before it."""
    normal = (slopes * weights[:, None]).T @ slopes + np.diag(1.0 / sigma**2)
    pull = (slopes * weights[:, None]).T @ errors
    picked: list[int] = []
    reached = 0.0
    while len(picked) < FREE:
        gains = np.full(len(sigma), -np.inf)
        for i in range(len(sigma)):
            if i not in picked and np.abs(slopes[:, i]).max(initial=0.0) > 0:
                own = [*picked, i]
                gains[i] = pull[own] @ np.linalg.solve(normal[np.ix_(own, own)], pull[own]) - reached
        best = int(np.argmax(gains))
        if not gains[best] > 1.0:
            break
        picked.append(best)
        reached += float(gains[best])
    return picked


def out_of_sample(
    fitter: Fitter, at: Mapping[Block, Mapping[str, float]], slopes: dict[Block, Floats], folds: int = 5
) -> Floats:
    """Errors of each observation with its whole (model, device) group left out of the fit."""
    fold = np.array([fold_of(fitter.cases[o.case].group, folds) for o in fitter.seen])
    out = np.full(len(fitter.seen), np.nan)
    for k in range(folds):
        left = fold == k
        if left.any():
            _, _, errors, _ = fitter.fit(~left, at, turns=2, slopes=slopes)
            out[left] = errors[left]
    return out
