"""Fit coefficients of serving engines on device generations to measured rows, by request-level simulation.

Gauss–Newton on log errors with Cauchy weights, over the log factors between a set's coefficients and their priors:
what no row tells stays at its prior. In each set at most eight are free, those that explain most of the errors of
groups that they are not fitted to. Sets with one measured model come second: their priors are what the others have
found (`serving_pooling`). Derivatives are finite differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.calibration.server_priors import PRIORS
from windtunnel.cost.serving import prior_of
from windtunnel_lab.fit.serving_cases import Case, Observation, predict
from windtunnel_lab.fit.serving_pooling import Block, Known, expected
from windtunnel_lab.fit.serving_priors import value_of
from windtunnel_lab.fit.training import fold_of

Logs = dict[str, float]
FREE, STEP, TURNS, AGAIN = 8, 0.05, 8, 3
"""Free coefficients of a set at most; step of the logarithms; Gauss–Newton steps, and up to which of them derivatives
are taken anew."""
THIN = 2
"""Fewer (model, device) groups than this do not tell a set's coefficients from a model's peculiarities."""
LEAST = 0.05
"""Information of rows over that of a prior below which they say nothing of a coefficient."""
FEW = 4
"""Fewer groups than this do not tell which coefficients carry over to others."""
STEEPEST = 1.5
"""Largest derivative that is believed: where one more wave of requests fits, finite differences are steps."""


@dataclass(frozen=True, slots=True)
class BlockFit:
    """One set of coefficients, fitted."""

    block: Block
    logs: dict[str, Known]
    """Coefficient → logarithm of its factor over the prior, standard error with the prior included."""
    told: dict[str, float]
    """Share of each free coefficient's information that comes from the set's own rows."""
    rows: int


@dataclass(slots=True, kw_only=True)
class State:
    """Where a fit stands."""

    at: dict[Block, Logs]
    center: dict[Block, dict[str, Known]]
    """What each set's coefficients are held to."""
    errors: Floats
    weights: Floats
    slopes: dict[Block, Floats] = field(default_factory=dict)
    covariances: dict[Block, Floats] = field(default_factory=dict)
    whole: dict[Block, Floats] = field(default_factory=dict)
    """Derivatives by all coefficients of a set, at its priors."""
    every: dict[Block, dict[str, Known]] = field(default_factory=dict)
    """What all coefficients of a set would be, were all free."""

    def copy(self) -> State:
        """One that can be moved."""
        at = {b: dict(own) for b, own in self.at.items()}
        errors, weights = self.errors.copy(), self.weights.copy()
        return State(
            at=at,
            center=dict(self.center),
            errors=errors,
            weights=weights,
            slopes=dict(self.slopes),
            covariances=dict(self.covariances),
            whole=self.whole,
            every=dict(self.every),
        )


class Fitter:
    """Rows, priors and derivatives of all sets; a set's rows do not depend on another's coefficients."""

    def __init__(
        self, cases: Sequence[Case], seen: Sequence[Observation], say: Callable[[str], None] = lambda text: None
    ) -> None:
        self.cases, self.seen, self.say = cases, list(seen), say
        blocks = [cases[o.case].block for o in self.seen]
        self.priors = {b: prior_of(*b) for b in sorted(set(blocks))}
        self.of: dict[Block, Ints] = {
            b: np.array([j for j, own in enumerate(blocks) if own == b], np.int64) for b in self.priors
        }
        self.groups = [cases[o.case].group for o in self.seen]
        groups = {b: {self.groups[j] for j in rows} for b, rows in self.of.items()}
        self.thin = [b for b in self.priors if len(groups[b]) < THIN]
        self.thick = [b for b in self.priors if b not in self.thin]
        self.measured = np.array([o.log_measured for o in self.seen])
        self.scale = np.array([o.scale for o in self.seen])
        self.names: dict[Block, list[str]] = {}

    def errors(
        self, at: Mapping[Block, Mapping[str, float]], only: Iterable[Block] | None = None
    ) -> tuple[Floats, Floats]:
        """log(predicted / measured) and weights with these log factors; nan for sets that are not asked for."""
        sets = self.priors if only is None else only
        values, weights = predict(self.cases, self.seen, {b: at.get(b, {}) for b in sets})
        return values - self.measured, weights

    def fit(self) -> State:
        """All sets: thick ones, then those that lean on them."""
        errors, weights = self.errors({})
        zero = {b: {n: Known(0.0, PRIORS[n][0]) for n in self.known_names(b)} for b in self.priors}
        state = State(
            at={b: dict.fromkeys(zero[b], 0.0) for b in self.priors}, center=zero, errors=errors, weights=weights
        )
        self._choose(self.thick, state)
        every = np.ones(len(self.seen))
        self.solve(self.thick, state, every, TURNS, fresh=True)
        self._say_all(state, every)
        self._lean(state)
        self._choose(self.thin, state)
        self.solve(self.thin, state, every, TURNS, fresh=True)
        return state

    def without(self, best: State, use: Mask) -> State:
        """The fit to some of the observations, close to the fit to all: same free coefficients, same derivatives."""
        state, count = best.copy(), use.astype(np.float64)
        self.solve(self.thick, state, count, 2, fresh=False)
        self._say_all(state, count)
        self._lean(state)
        self.solve(self.thin, state, count, 3, fresh=False)
        return state

    def known_names(self, block: Block) -> list[str]:
        """Coefficients that a set has."""
        return [n for n in PRIORS if value_of(self.priors[block], n) > 0]

    def told(self, name: str, state: State) -> dict[Block, Known]:
        """What the rows of thick sets say of one coefficient, were all of them free; without its prior."""
        out = {}
        for b in self.thick:
            if name not in state.every.get(b, {}):
                continue
            own, prior = state.every[b][name], PRIORS[name][0] ** -2
            if own.error**-2 > (1.0 + LEAST) * prior:
                rows = own.error**-2 - prior
                out[b] = Known(own.log * own.error**-2 / rows, rows**-0.5)
        return out

    def _say_all(self, state: State, count: Floats) -> None:
        """One more step of each thick set with all of its coefficients free."""
        for b in self.thick:
            names = self.known_names(b)
            normal, pull = self._normal(b, state, count, state.whole[b])
            sigma = np.array([PRIORS[n][0] for n in names])
            covariance = np.linalg.inv(normal + np.diag(sigma**-2))
            at = np.array([state.at[b][n] for n in names])
            step = np.clip(-covariance @ (pull + at / sigma**2), -0.4, 0.4)
            spread = np.sqrt(covariance.diagonal())
            moved = {n: self._below_roof(b, n, float(x)) for n, x in zip(names, at + step, strict=True)}
            state.every[b] = {n: Known(moved[n], float(s)) for n, s in zip(names, spread, strict=True)}

    def _lean(self, state: State) -> None:
        """Thin sets start from what thick ones have found, and are held to it."""
        found = {n: self.told(n, state) for n in PRIORS}
        for b in self.thin:
            state.center[b] = {
                n: Known(expected(n, PRIORS[n][0], b, found[n]).log, PRIORS[n][0]) for n in self.known_names(b)
            }
            state.at[b] = {n: self._below_roof(b, n, own.log) for n, own in state.center[b].items()}
        errors, weights = self.errors(state.at, self.thin)
        for b in self.thin:
            state.errors[self.of[b]], state.weights[self.of[b]] = errors[self.of[b]], weights[self.of[b]]

    def _choose(self, blocks: Sequence[Block], state: State) -> None:
        """Free coefficients, one after another: those that explain most of the errors of groups left out."""
        names = {b: self.known_names(b) for b in blocks}
        slopes = self.slopes(state.at, state.errors, names)
        for b, own in names.items():
            rows = self.of[b]
            known = np.isfinite(state.errors[rows]) & (state.weights[rows] > 0)
            w = _weight(state.errors[rows][known], self.scale[rows][known])
            sigma = np.array([state.center[b][n].error for n in own])
            _, groups = np.unique([self.groups[j] for j in rows[known]], return_inverse=True)
            picked = _forward(slopes[b][known], state.errors[rows][known], w, sigma, groups.astype(np.int64))
            self.names[b] = [own[i] for i in picked]
            state.slopes[b], state.whole[b] = slopes[b][:, picked], slopes[b]
            self.say(f"{b}: {len(rows)} values, free {', '.join(self.names[b])}")

    def slopes(
        self, at: Mapping[Block, Logs], base: Floats, names: Mapping[Block, Sequence[str]]
    ) -> dict[Block, Floats]:
        """Derivatives of the errors by log factors, from below: a roof may be near. All sets move in the same pass."""
        out = {b: np.zeros((len(self.of[b]), len(own))) for b, own in names.items()}
        for k in range(max((len(own) for own in names.values()), default=0)):
            moved = {b: {**at[b], own[k]: at[b][own[k]] - STEP} for b, own in names.items() if k < len(own)}
            found, _ = self.errors(moved, list(moved))
            for b in moved:
                rise = np.nan_to_num((base - found)[self.of[b]] / STEP)
                out[b][:, k] = np.clip(rise, -STEEPEST, STEEPEST)
        return out

    def solve(self, blocks: Sequence[Block], state: State, count: Floats, turns: int, *, fresh: bool) -> None:
        """Gauss–Newton on some sets; `state` is moved."""
        size = dict.fromkeys(blocks, 1.0)
        for turn in range(turns):
            if fresh and 0 < turn < AGAIN:
                state.slopes |= self.slopes(state.at, state.errors, {b: self.names[b] for b in blocks})
            moved = {}
            for b in blocks:
                step, _ = self._step(b, state, count)
                moved[b] = dict(state.at[b])
                for n, move in zip(self.names[b], size[b] * step, strict=True):
                    moved[b][n] = self._below_roof(b, n, moved[b][n] + float(np.clip(move, -0.4, 0.4)))
            errors, weights = self.errors(moved, blocks)
            for b in blocks:
                before = self._loss(b, state.at[b], state, state.errors, state.weights * count)
                if self._loss(b, moved[b], state, errors, weights * count) < before:
                    rows = self.of[b]
                    state.at[b], state.errors[rows], state.weights[rows] = moved[b], errors[rows], weights[rows]
                else:  # too far: half as far next time, from where it was best
                    size[b] *= 0.5
            self.say(f"turn {turn}: median |error| {np.nanmedian(np.abs(state.errors[count > 0])):.4f}")
        for b in blocks:
            _, state.covariances[b] = self._step(b, state, count)

    def _below_roof(self, b: Block, name: str, log: float) -> float:
        roof = PRIORS[name][1]
        return min(log, max(math.log(roof / value_of(self.priors[b], name)), 0.0)) if math.isfinite(roof) else log

    def _loss(self, b: Block, at: Logs, state: State, errors: Floats, weights: Floats) -> float:
        """What a fit of one set lowers: Cauchy loss of its errors, and squares of the priors."""
        rows = self.of[b]
        e, s, w = errors[rows], self.scale[rows], weights[rows]
        known = np.isfinite(e) & (w > 0)
        rest = sum(((at[n] - state.center[b][n].log) / state.center[b][n].error) ** 2 for n in self.names[b])
        return float(4.0 * np.log1p((e[known] / s[known] / 2.0) ** 2).sum() + 10.0 * (~known & (w > 0)).sum() + rest)

    def _step(self, b: Block, state: State, count: Floats) -> tuple[Floats, Floats]:
        """One Gauss–Newton step and the covariance of the logarithms."""
        center = [state.center[b][n] for n in self.names[b]]
        normal, pull = self._normal(b, state, count, state.slopes[b])
        prior = np.array([own.error**-2 for own in center])
        off = np.array([state.at[b][n] - own.log for n, own in zip(self.names[b], center, strict=True)])
        covariance: Floats = np.asarray(np.linalg.inv(normal + np.diag(prior)))
        return np.asarray(-covariance @ (pull + prior * off)), covariance

    def _normal(self, b: Block, state: State, count: Floats, slopes: Floats) -> tuple[Floats, Floats]:
        """Normal matrix and pull of a set's rows."""
        rows = self.of[b]
        w = (state.weights * count)[rows]
        known = np.isfinite(state.errors[rows]) & (w > 0)
        e, j, s = state.errors[rows][known], slopes[known], self.scale[rows][known]
        w = w[known] * _weight(e, s)
        return np.asarray((j * w[:, None]).T @ j), np.asarray((j * w[:, None]).T @ e)

    def summary(self, state: State) -> list[BlockFit]:
        """What the catalogue keeps of a fit."""
        out = []
        for b, at in state.at.items():
            logs = {n: Known(at[n], own.error) for n, own in state.center[b].items() if at[n] or n in self.names[b]}
            spread = np.sqrt(state.covariances[b].diagonal())
            free = {n: Known(at[n], float(x)) for n, x in zip(self.names[b], spread, strict=True)}
            told = {n: 1.0 - (own.error / state.center[b][n].error) ** 2 for n, own in free.items()}
            rows = sum(self.cases[i].rows for i in {self.seen[j].case for j in self.of[b]})
            out.append(BlockFit(b, logs | free, told, rows))
        return out


def _weight(errors: Floats, scale: Floats) -> Floats:
    """Weights of a Cauchy loss: rows whose stated configuration cannot be what ran hardly pull."""
    return np.asarray(1.0 / (1.0 + (errors / scale / 2.0) ** 2) / scale**2)


def _forward(slopes: Floats, errors: Floats, weights: Floats, sigma: Floats, groups: Ints) -> list[int]:
    """Up to `FREE` columns, each the one that helps groups most that it is not fitted to, next to those before it.

    What is compared are squares of the linearised errors: each group's with columns fitted to the others' and held to
    their priors, or, of few groups, their own.
    """
    own = [groups == g for g in np.unique(groups)]
    normals = np.stack([(slopes[k] * weights[k, None]).T @ slopes[k] for k in own])
    pulls = np.stack([(slopes[k] * weights[k, None]).T @ errors[k] for k in own])
    normal, pull = normals.sum(axis=0), pulls.sum(axis=0)
    inner = 0.0 if len(own) < FEW else 1.0

    def loss(columns: list[int]) -> float:
        at, out = np.ix_(columns, columns), 0.0
        for mine, pulled in zip(normals, pulls, strict=True):
            rest = (normal - inner * mine)[at] + np.diag(sigma[columns] ** -2.0)
            x = -np.linalg.solve(rest, (pull - inner * pulled)[columns])
            out += 2.0 * float(pulled[columns] @ x) + float(x @ mine[at] @ x)
            out += (1.0 - inner) * float(((x / sigma[columns]) ** 2).sum())
        return out

    picked: list[int] = []
    reached = 0.0
    while len(picked) < FREE:
        left = [i for i in range(len(sigma)) if i not in picked and np.abs(slopes[:, i]).max(initial=0.0) > 0]
        if not left:
            break
        losses = [loss([*picked, i]) for i in left]
        best = int(np.argmin(losses))
        if not reached - losses[best] > 1.0:
            break
        picked.append(left[best])
        reached = losses[best]
    return picked


def out_of_sample(fitter: Fitter, best: State, folds: int = 5) -> Floats:
    """Errors of each observation with its whole (model, device) group left out of the fit, in every set."""
    fold = np.array([fold_of(group, folds) for group in fitter.groups])
    out = np.full(len(fitter.seen), np.nan)
    for k in range(folds):
        left = fold == k
        if left.any():
            out[left] = fitter.without(best, ~left).errors[left]
    return out
