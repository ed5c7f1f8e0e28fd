"""Errors of step times at sites that nobody measured: a hierarchical model of whole families that were left out.

A family is a site with its software. With y = log(predicted / measured) of a run whose family took no part,

    y = m + Σ_k a_k[level of the run in k] + e,    a_k ~ N(0, σ_k²),  e ~ N(0, σ²)

where k runs over `LEVELS`: vendor, device generation, software, engine with and without experts, the cell (generation ×
format × software), what one site measured of a cell, and one model on one cluster. A generation or an engine of which
no row sets a coefficient adds an effect of its own, σ_u². The centre of a new run's interval is the best linear
unbiased prediction from all residuals: effects of measured levels, shrunk by how much their rows say. An effect of a
level without rows is 0 and keeps its whole variance, so that a cell that nobody measured widens the interval. The
half-width is the standard error s of that prediction, times the quantile of |y − centre| / s of the measured runs that
are like the run (`step_time_interval`), each predicted without its own family.

Variances are estimated by restricted maximum likelihood, from families, devices and software that were left out
(`windtunnel_lab.fit.hierarchy`). Sources: Henderson 1975 (best linear unbiased prediction), Harville 1977 (restricted
likelihood), Gelman and Hill 2007, chapter 12 (partial pooling); Lei et al. 2018, section 5.2 (quantiles of scaled
residuals that were left out).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats
from windtunnel.one_thread import one_thread
from windtunnel.training.uncertainty.comparable_runs import Residual, Subject, residuals, shipped_variances

LEVELS = ("vendor", "generation", "software", "engine", "cell", "site_cell", "group")
"""Kinds of levels whose effects runs share; the last two are of one site, and a new run shares them with nobody."""
OF_A_SITE = ("site_cell", "group")
UNMEASURED = ("new_generation", "new_engine")
"""Effects of what no row sets a coefficient of."""
VARIANCES = (*LEVELS, *UNMEASURED, "row")
_EACH = 12
"""Rows of one site and cell that take part: every n-th where it has more."""


def number_format(precision: str) -> str:
    """The class of formats that a training precision multiplies in: 16, fp8, fp4, or the precision itself."""
    if precision in ("bf16", "fp16"):
        return "16"
    return next((name for name in ("fp4", "fp8") if name in precision), precision)


def levels(subject: Subject, site: str) -> tuple[str, ...]:
    """The level of a run in each of `LEVELS`."""
    cell = f"{subject.generation}|{number_format(subject.precision)}|{subject.software}"
    return (
        subject.vendor,
        subject.generation,
        subject.software,
        f"{subject.root}|{subject.mixture}",
        cell,
        f"{site}|{cell}|{subject.mixture}",
        f"{site}|{subject.signature}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Generations and engines of which rows set coefficients."""

    generations: frozenset[str]
    engines: frozenset[str]

    @classmethod
    def of(cls, members: Sequence[Residual]) -> Measured:
        """Those of the rows that took part in a fit."""
        setting = [r.subject for r in members if r.error("fold") is not None]
        return cls(generations=frozenset(s.generation for s in setting), engines=frozenset(s.root for s in setting))

    def new(self, subject: Subject) -> tuple[bool, bool]:
        """Whether a run's generation is none of them, and whether its engine is none: in the order of `UNMEASURED`."""
        return subject.generation not in self.generations, subject.root not in self.engines


@dataclass(frozen=True, slots=True)
class Predicted:
    """Centre of log(predicted / measured) of one run at a new site."""

    centre: float
    error: float
    """Its standard error as a prediction of the run."""
    new: tuple[str, ...] = ()
    """Entries of `UNMEASURED` that widen it."""


class Record:
    """Residuals of families that were left out, from which a new run's interval is predicted."""

    def __init__(self, members: Sequence[Residual], measured: Measured | None = None) -> None:
        """Take the residuals that have an error with their family left out.

        Args:
            members: Residuals.
            measured: What rows set coefficients of; absent: what `members` say.
        """
        known = [r for r in members if r.error("family") is not None]
        self.measured = Measured.of(members) if measured is None else measured
        self.rows = tuple(known[i] for i in thinned([levels(r.subject, r.site) for r in known]))
        self.errors = np.log1p(np.array([r.error("family") for r in self.rows], dtype=np.float64))
        self._names: list[dict[str, int]] = [{} for _ in LEVELS]
        own = [[self._code(k, level) for k, level in enumerate(levels(r.subject, r.site))] for r in self.rows]
        self._codes = np.array(own, dtype=np.int64).reshape(len(self.rows), len(LEVELS))
        self._signatures = frozenset(r.subject.signature for r in self.rows)
        self._solved: dict[tuple[object, ...], tuple[Floats, Floats, Floats]] = {}

    def _code(self, kind: int, level: str) -> int:
        return self._names[kind].setdefault(level, len(self._names[kind]))

    @cached_property
    def _same(self) -> npt.NDArray[np.bool_]:
        """Whether two rows share a level, shape (levels, rows, rows)."""
        return np.array([own[:, None] == own[None, :] for own in self._codes.T])

    def covariance(self, variances: Mapping[str, float]) -> Floats:
        """Covariance of the rows' errors, shape (rows, rows)."""
        out = np.eye(len(self.rows)) * variances["row"]
        for name, same in zip(LEVELS, self._same, strict=True):
            out += variances[name] * same
        new = np.array([self.measured.new(r.subject) for r in self.rows], dtype=np.float64)
        of_one = np.array([r.site for r in self.rows])
        together = of_one[:, None] == of_one[None, :]
        for name, own in zip(UNMEASURED, new.T, strict=True):
            out += variances[name] * (own[:, None] * own[None, :]) * together
        return out

    def _solve(self, variances: Mapping[str, float], signature: str) -> tuple[Floats, Floats, Floats]:
        """(inverse covariance, the same times ones, times errors), rows of one model and cluster left out."""
        key = (signature if signature in self._signatures else "", *variances.values())
        if key not in self._solved:
            used = np.array([r.subject.signature != signature for r in self.rows])
            inverse = np.zeros((len(used), len(used)))
            if used.any():
                inverse[np.ix_(used, used)] = np.linalg.inv(self.covariance(variances)[np.ix_(used, used)])
            if len(self._solved) > 8:
                self._solved.clear()
            self._solved[key] = inverse, inverse.sum(axis=1), inverse @ self.errors
        return self._solved[key]

    def predict(self, subject: Subject, variances: Mapping[str, float]) -> Predicted:
        """Centre of a run at a new site; rows of its own model and cluster take no part.

        Args:
            subject: The run.
            variances: Entry of `VARIANCES` → variance.
        """
        with one_thread():
            return self._predict(subject, variances)

    def _predict(self, subject: Subject, variances: Mapping[str, float]) -> Predicted:
        inverse, ones, errors = self._solve(variances, subject.signature)
        shared = np.zeros(len(self.rows))
        for k, (name, level) in enumerate(zip(LEVELS, levels(subject, ""), strict=True)):
            if name not in OF_A_SITE and (code := self._names[k].get(level)) is not None:
                shared += variances[name] * (self._codes[:, k] == code)
        total = ones.sum()
        mean = float(errors.sum() / total) if total > 0.0 else 0.0
        centre = mean + float(shared @ (errors - mean * ones))
        new = tuple(n for n, is_new in zip(UNMEASURED, self.measured.new(subject), strict=True) if is_new)
        own = sum(variances[name] for name in (*LEVELS, "row", *new))
        rest = 1.0 - float(shared @ ones)
        variance = own - float(shared @ inverse @ shared) + (rest * rest / total if total > 0.0 else 0.0)
        return Predicted(centre, math.sqrt(max(variance, variances["row"])), new)


def thinned(own: Sequence[tuple[str, ...]], most: int = _EACH) -> list[int]:
    """Indices of the rows that take part: so many of each site and cell, drawn evenly.

    Args:
        own: Levels of each row.
        most: Rows of a site and cell.
    """
    at = LEVELS.index("site_cell")
    total, seen = Counter(row[at] for row in own), Counter[str]()
    out = []
    for i, row in enumerate(own):
        if seen[row[at]] % max(1, -(-total[row[at]] // most)) == 0:
            out.append(i)
        seen[row[at]] += 1
    return out


@cache
def shipped_record() -> Record:
    """The residuals of the catalogue."""
    return Record(residuals())


@lru_cache(maxsize=64)
def predicted_error(subject: Subject) -> Predicted:
    """Centre of a run's error from the residuals that ship; without any parameters, no error of any size."""
    return shipped_record().predict(subject, shipped_variances()) if shipped_variances() else Predicted(0.0, 1.0)
