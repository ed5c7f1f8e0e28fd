"""Two regressions that the predictors share: ridge, and gradient-boosted trees.

Source: Hoerl and Kennard 1970; Friedman, Greedy Function Approximation: A Gradient Boosting Machine, 2001 (squared
error, shrinkage). Both are deterministic in their data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints

BINS = 32
"""Quantiles of a feature at which a tree may split."""


@dataclass(frozen=True, slots=True)
class Ridge:
    """A linear model of standardised features."""

    mean: Floats
    scale: Floats
    weights: Floats
    constant: float

    def predict(self, x: Floats) -> Floats:
        """Shape (rows,) of features of shape (rows, features)."""
        return np.asarray((x - self.mean) / self.scale @ self.weights + self.constant)


def ridge(x: Floats, y: Floats, strength: float = 1.0) -> Ridge:
    """Fit by the normal equations.

    Args:
        x: features, shape (rows, features).
        y: targets, shape (rows,).
        strength: of the penalty, on standardised features and summed errors.
    """
    mean, scale = x.mean(0), x.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    z = (x - mean) / scale
    weights = np.linalg.solve(z.T @ z + strength * np.eye(z.shape[1]), z.T @ (y - y.mean()))
    return Ridge(mean, scale, weights, float(y.mean()))


@dataclass(frozen=True, slots=True)
class Trees:
    """A sum of trees of one depth, each split stored as feature and threshold, nodes in the order of a heap."""

    constant: float
    feature: Ints
    """Shape (trees, 2^depth − 1)."""
    threshold: Floats
    leaf: Floats
    """Shape (trees, 2^depth), shrunk."""

    def predict(self, x: Floats) -> Floats:
        """Shape (rows,) of features of shape (rows, features)."""
        out = np.full(len(x), self.constant)
        rows = np.arange(len(x))
        inner = self.feature.shape[1]
        for feature, threshold, leaf in zip(self.feature, self.threshold, self.leaf, strict=True):
            at = np.zeros(len(x), np.int64)
            while int(at[0]) < inner:
                at = 2 * at + 1 + (x[rows, feature[at]] > threshold[at])
            out += leaf[at - inner]
        return out


def trees(x: Floats, y: Floats, *, count: int = 80, depth: int = 3, rate: float = 0.1, least: int = 5) -> Trees:
    """Fit boosted trees to squared error.

    Args:
        x: features, shape (rows, features), at least one row.
        y: targets, shape (rows,).
        count: trees.
        depth: splits from root to leaf.
        rate: share of each tree that is added.
        least: rows that a side of a split holds.
    """
    cuts = np.quantile(x, np.linspace(0, 1, BINS + 1)[1:-1], axis=0)
    binned = np.stack([np.searchsorted(cuts[:, f], x[:, f], side="left") for f in range(x.shape[1])], axis=1)
    inner = 2**depth - 1
    features, thresholds, leaves = [], [], []
    fitted = np.full(len(y), y.mean())
    for _ in range(count):
        error = y - fitted
        feature, threshold = np.zeros(inner, np.int64), np.full(inner, np.inf)
        at = np.zeros(len(y), np.int64)
        for node in range(inner):
            mine = np.flatnonzero(at == node)
            split = _split(binned[mine], error[mine], least)
            if split is not None:
                feature[node], threshold[node] = split[0], cuts[split[1], split[0]]
            at[mine] = 2 * node + 1 + (x[mine, feature[node]] > threshold[node])
        total = np.bincount(at - inner, error, inner + 1)
        held = np.bincount(at - inner, minlength=inner + 1)
        leaf = rate * total / np.maximum(held, 1)
        fitted += leaf[at - inner]
        features.append(feature)
        thresholds.append(threshold)
        leaves.append(leaf)
    return Trees(float(y.mean()), np.array(features), np.array(thresholds), np.array(leaves))


def _split(binned: Ints, error: Floats, least: int) -> tuple[int, int] | None:
    """(feature, cut) that lowers the squared error most; None where no cut leaves enough rows on both sides."""
    if len(error) < 2 * least:
        return None
    best, found = 1e-12, None
    whole = error.sum() ** 2 / len(error)
    for f in range(binned.shape[1]):
        held = np.bincount(binned[:, f], minlength=BINS).cumsum()[:-1]
        total = np.bincount(binned[:, f], error, BINS).cumsum()[:-1]
        rest = len(error) - held
        fits = (held >= least) & (rest >= least)
        if not fits.any():
            continue
        gain = total**2 / np.maximum(held, 1) + (error.sum() - total) ** 2 / np.maximum(rest, 1) - whole
        cut = int(np.where(fits, gain, -np.inf).argmax())
        if gain[cut] > best:
            best, found = float(gain[cut]), (f, cut)
    return found


def mean_error(found: Floats, truth: Floats) -> float:
    """Mean absolute error."""
    return float(np.abs(found - truth).mean())
