"""What coefficients share across software, device generations and engines: one fit of all sites together.

The logarithm of a coefficient is that of its value without a fit plus normal effects, in units of the coefficient's
prior width: of the root engine, of the software, of the generation, of the engine on that generation, and of the site
that was measured. All rows set all effects in one weighted regression, so that a site with many rows says much about
itself and little about others. The effects of sites stay behind; the rest is what a site takes that nobody measured.
Source: hierarchical regression (Gelman and Hill 2007, chapter 12), soft-L1 weights as in `fit.training`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.coefficients import entry_of
from windtunnel.cost.pooled import KINDS, keys
from windtunnel.cost.sites import SITE_COEFFICIENTS
from windtunnel.stacks.stack_files import lineage
from windtunnel_lab.fit.configurations import Configuration
from windtunnel_lab.fit.derivatives import Derivatives

SCALES = {"root": 0.5, "software": 0.3, "generation": 0.3, "cell": 0.3, "site": 0.6}
"""Standard deviation of each kind of effect, in prior widths of the coefficient. Set, not fitted: what
other settings give is in docs/development/adr/0029-one-regression-of-all-sites.md."""
_NOISE = 0.04
"""Standard deviation of a good row's log residual; rows beyond it count ever less."""
_MOST = 80
"""Configurations of one site that take part: every n-th of a site with more."""
_ROUNDS = 8
_LEAST = 5e-5
"""Effects below this logarithm are left out of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFit:
    """Configurations and derivatives from which shared effects are estimated."""

    found: Sequence[Configuration]
    derivatives: Derivatives
    defaults: dict[str, Any]
    """Coefficient → {sigma, low, high}, as in `priors.yaml`."""
    site_of: dict[str, str]
    """Family → site, where it differs from the family's name."""

    def site(self, c: Configuration) -> str:
        """The site that a configuration was measured at."""
        return self.site_of.get(c.case.family, c.case.family)

    def effects(self, chosen: Sequence[int], unseen: frozenset[str] = frozenset()) -> dict[str, Any]:
        """Effects by coefficient, natural logarithms, as `fitted/pooled.yaml` has them.

        Args:
            chosen: indices of the configurations that may speak.
            unseen: software of which nothing is left: its own starting values are left out as well.
        """
        kept = self._thinned(chosen)
        labels = [self._labels(self.found[i]) for i in kept]
        groups = sorted({label for own in labels for label in own})
        design, offset = self._design(kept, labels, groups, unseen)
        weights = np.sqrt([len(self.found[i].ids) for i in kept]) / _NOISE**2
        spread = np.repeat([SCALES[kind] for kind, _ in groups], len(self.derivatives.names)) ** 2
        solution = np.zeros(design.shape[1])
        covariance = (design * spread) @ design.T
        for _ in range(_ROUNDS):
            residual = offset + design @ solution
            soft = weights / np.sqrt(1.0 + (residual / _NOISE) ** 2)
            solution = -spread * (design.T @ np.linalg.solve(covariance + np.diag(1.0 / soft), offset))
        by_group = solution.reshape(len(groups), len(self.derivatives.names))
        return self._table(groups, by_group, len(kept))

    def _thinned(self, chosen: Sequence[int]) -> list[int]:
        total = Counter(self.site(self.found[i]) for i in chosen)
        seen: Counter[str] = Counter()
        out = []
        for i in chosen:
            site = self.site(self.found[i])
            if seen[site] % max(1, -(-total[site] // _MOST)) == 0:
                out.append(i)
            seen[site] += 1
        return out

    def _labels(self, c: Configuration) -> list[tuple[str, str]]:
        own = keys(lineage(c.software)[-1], c.software, c.generation)
        return [*((kind, own[kind]) for kind in KINDS), ("site", self.site(c))]

    def _design(
        self,
        kept: list[int],
        labels: list[list[tuple[str, str]]],
        groups: list[tuple[str, str]],
        unseen: frozenset[str],
    ) -> tuple[Floats, Floats]:
        """Derivatives by the effects, shape (rows, groups × coefficients), and residuals without any, shape (rows,)."""
        d, k = self.derivatives, len(self.derivatives.names)
        sigma = np.array([float(self.defaults[name]["sigma"]) for name in d.names])
        at = {group: index for index, group in enumerate(groups)}
        design, offset = np.zeros((len(kept), len(groups) * k)), np.zeros(len(kept))
        for row, i in enumerate(kept):
            plain = self._without_fit(self.found[i], unseen)
            moves = (plain > 0.0) & (d.values[i] > 0.0)
            shift = np.zeros(k)
            shift[moves] = np.log(plain[moves] / d.values[i][moves])
            offset[row] = d.residuals[i] + d.slopes[i] @ shift
            slopes = np.where(moves, d.slopes[i] * sigma, 0.0)
            for label in labels[row]:
                design[row, at[label] * k : (at[label] + 1) * k] = slopes
        return design, offset

    def _without_fit(self, c: Configuration, unseen: frozenset[str]) -> Floats:
        """Coefficients of a configuration without any fit."""
        base = c.without_fit(unseen=c.software in unseen)
        return np.array([entry_of(base, name) or 0.0 for name in self.derivatives.names])

    def _table(self, groups: list[tuple[str, str]], by_group: Floats, rows: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for j, name in enumerate(self.derivatives.names):
            default = self.defaults[name]
            entry: dict[str, Any] = {}
            for (kind, label), effects in zip(groups, by_group, strict=True):
                effect = float(effects[j]) * float(default["sigma"])
                if kind != "site" and abs(effect) >= _LEAST:
                    entry.setdefault(kind, {})[label] = round(effect, 4)
            if entry:
                bounds = {"low": float(default["low"]), "high": float(default["high"])}
                out[name] = {kind: entry[kind] for kind in KINDS if kind in entry} | bounds | {"set_by": rows}
        return out


def shared_names(defaults: dict[str, Any]) -> tuple[str, ...]:
    """Coefficients with shared effects: all that may be fitted but those of one site's wiring and hosts."""
    return tuple(name for name in defaults if name.partition(".")[0] not in SITE_COEFFICIENTS)
