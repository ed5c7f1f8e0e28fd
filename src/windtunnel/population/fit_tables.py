"""Beta laws from published tables: pass@k, pass^k, or pass@1 alone.

A table is fitted in logits: each entry has an error of `READ`, small, so that a law of two entries goes through both.
The interval adds what such tables were off by elsewhere (`FORM`, `ANY_TEMPERATURE`) and the spread of few problems;
docs/internals/population.md has the coverage on models left out. Reliability of agents (pass^k) is that of attempts of
which a share fails whatever the task (`SPOILED`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.population.beta import Beta, Laws, from_mean
from windtunnel.population.fit import DRAWS, Fit, LogDensity, posterior
from windtunnel.population.pass_at_k import all_of_k, pass_at_k

READ = 0.01
"""Error of an entry in logits, for the law itself."""
FORM = {"pass_at_k": 0.06, "all_of_k": 0.015}
"""Error of an entry in logits, for the interval."""
ANY_TEMPERATURE = 0.2
"""The same where no temperature is stated: published tables choose one for each k, and their pass@100 is above what
their pass@1 and pass@10 give."""
SPOILED = 0.04
"""Share of attempts at agent benchmarks that fail whatever the task: simulated users and tools err too. Without it laws
through pass^1 and pass^2 are too high at pass^4 in every domain of τ²-bench's leaderboard, by 2.6 to 8.9 %."""
PROBLEMS = 100
"""Problems of a benchmark that does not say."""
OF_FEW_PROBLEMS = 1 / 3
"""Share of the standard error of few problems that is left for the form: shares at several k are of the same problems
and err together."""
Share = Callable[[Laws, Floats], Floats]


def fit_pass_at_k(table: Mapping[int, float], problems: int | None = None, *, one_temperature: bool = False) -> Fit:
    """A law from shares of problems that one of k attempts solves, by k.

    Args:
        table: share of problems by k.
        problems: of the benchmark; absent: 100.
        one_temperature: whether all entries are known to be of one temperature; otherwise the interval is wider.
    """
    found = _fit(table, pass_at_k, FORM["pass_at_k"] if one_temperature else ANY_TEMPERATURE, problems)
    if one_temperature or len(table) == 1:
        return found
    note = "no temperature stated: the interval holds tables that choose one for each k"
    return replace(found, notes=(*found.notes, note))


def fit_all_of_k(table: Mapping[int, float], problems: int | None = None, spoiled: float = SPOILED) -> Fit:
    """A law from shares of problems that all of k attempts solve (pass^k), by k.

    p is at most 1 − spoiled, or leaves half of the failures of the best entry where those are fewer.

    Args:
        table: share of problems by k.
        problems: of the benchmark; absent: 100.
        spoiled: share of attempts that fail whatever the task.
    """
    best = max(share ** (1 / k) for k, share in table.items())
    most = 1.0 - min(spoiled, (1.0 - best) / 2)
    return _fit(table, all_of_k, FORM["all_of_k"], problems, most)


def fit_pass_1(mean: float, concentration: float | None = None, problems: int | None = None) -> Fit:
    """A law from pass@1 alone: the spread over problems is the stated one, or the prior's with a wide interval.

    Args:
        mean: share of right attempts, between 0 and 1.
        concentration: a + b; absent: min(a, b) is that of other tasks (`population.fit.PRIOR_MEDIAN`).
        problems: of the benchmark; absent: 100.
    """
    if concentration is None:
        found = _fit({1: mean}, pass_at_k, FORM["pass_at_k"], problems)
        return replace(found, why="pass@1 alone; how success is spread over problems is assumed, from other tasks")
    law = from_mean(mean, concentration)
    from scipy.special import expit, logit, ndtri

    error = 1.0 / np.sqrt(mean * (1 - mean) * (1 + concentration) * (problems or PROBLEMS))
    means = expit(logit(mean) + error * ndtri((np.arange(DRAWS) + 0.5) / DRAWS))
    draws = tuple(from_mean(float(m), concentration) for m in means)
    return Fit(law=law, draws=draws, grade="assumed", why="pass@1 with a stated a + b")


def _fit(table: Mapping[int, float], share: Share, form: float, problems: int | None, most: float = 1.0) -> Fit:
    """The mode with small errors of reading, draws with the errors of the form and of few problems."""
    k = np.array(sorted(table), np.float64)
    count = problems or PROBLEMS
    scale = most**k if most < 1 else 1.0
    told = np.clip(np.array([table[int(x)] for x in k], np.float64), 0.05 / count, 1 - 0.05 / count)

    def likelihood(error: Floats) -> LogDensity:
        def density(a: Floats, b: Floats) -> Floats:
            shape = (..., np.newaxis)
            shares = share(Laws(np.asarray(a)[shape], np.asarray(b)[shape]), k) * scale
            off = (_logit(shares) - _logit(told)) / error
            total: Floats = -0.5 * (off * off).sum(axis=-1)
            return total

        return density

    mean = float(told[0] ** (1 / k[0])) if share is all_of_k else float(told[0])
    start = Beta(0.3, 0.3 * (1 - mean) / mean) if mean < 0.5 else Beta(0.3 * mean / (1 - mean), 0.3)
    law, _ = posterior(likelihood(np.full(len(k), READ)), start)
    few = 1.0 / np.sqrt(told * (1 - told) * count)
    _, draws = posterior(likelihood(np.hypot(form, OF_FEW_PROBLEMS * few)), law)
    if most < 1:
        law, draws = replace(law, most=most), tuple(replace(x, most=most) for x in draws)
    name = "pass@k" if share is pass_at_k else "pass^k"
    why = f"Beta law through {name} at k = {', '.join(f'{int(x)}' for x in k)}"
    notes = () if len(k) > 1 else (f"one {name} does not say how success is spread over problems: assumed",)
    return Fit(law=law, draws=draws, grade="fitted" if len(k) > 1 else "assumed", why=why, notes=notes)


def _logit(share: Floats) -> Floats:
    inside = np.clip(share, 1e-12, 1 - 1e-12)
    logit: Floats = np.log(inside / (1 - inside))
    return logit
