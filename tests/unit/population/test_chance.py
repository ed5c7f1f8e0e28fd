"""What chance leaves between an entry of a table and the law through two others, beside drawn tables."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.population.beta import Beta
from windtunnel.population.chance import spread_of_entry
from windtunnel.population.fit_tables import fit_all_of_k, fit_pass_at_k
from windtunnel.population.pass_at_k import all_of_k, at_least_one, estimate_pass_at_k, pass_at_k


def table(correct: np.ndarray, attempts: int, ks: tuple[int, ...], kind: str) -> dict[int, float]:
    wrong, total = attempts - correct, np.full(len(correct), attempts)
    if kind == "pass_at_k":
        return {k: estimate_pass_at_k(correct, total, k) for k in ks}
    return {k: 1.0 - estimate_pass_at_k(wrong, total, k) for k in ks}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "kind", "ks", "attempts"),
    [
        (Beta(0.8, 0.4), "all_of_k", (1, 2, 4), 4),
        (Beta(0.6, 0.5, 0.96), "all_of_k", (1, 2, 3), 4),
        (Beta(0.3, 0.9), "pass_at_k", (1, 5, 20), 20),
    ],
)
def test_the_spread_is_that_of_drawn_tables(law, kind, ks, attempts):
    rng, problems, off = np.random.default_rng(5), 150, []
    share, fit = (all_of_k, fit_all_of_k) if kind == "all_of_k" else (pass_at_k, fit_pass_at_k)
    for _ in range(120):
        correct = rng.binomial(attempts, law.most * rng.beta(law.a, law.b, problems))
        drawn = table(correct, attempts, ks, kind)
        found = fit({k: drawn[k] for k in ks[:2]}, problems).law
        off.append(drawn[ks[2]] - float(share(found, ks[2])))
    told = spread_of_entry(law, ks[:2], ks[2], kind=kind, attempts=attempts, problems=problems)
    assert np.std(off) == pytest.approx(told, rel=0.25)
    assert told < 0.5 * np.sqrt(float(share(law, ks[2])) * (1 - float(share(law, ks[2]))) / problems)


def test_more_problems_leave_less():
    law = Beta(0.8, 0.4)
    few, many = (spread_of_entry(law, (1, 2), 4, kind="all_of_k", attempts=4, problems=n) for n in (50, 200))
    assert few == pytest.approx(2 * many, rel=1e-9)


def test_a_law_below_one():
    law = Beta(0.6, 0.5, 0.9)
    points = law.points()
    assert points.max() <= 0.9 and points.mean() == pytest.approx(law.mean, rel=1e-9)
    for k in (1, 3, 50):
        assert float(all_of_k(law, k)) == pytest.approx(float((points**k).mean()), rel=1e-2)
        assert float(pass_at_k(law, k)) == pytest.approx(float(at_least_one(points, k).mean()), rel=1e-9)
    assert pass_at_k(law, np.array([1.0, 4.0])).shape == (2,)
