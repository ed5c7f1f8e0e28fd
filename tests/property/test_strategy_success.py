"""Limits of what strategies make of a population: one attempt, checkers above selectors above chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windtunnel.arrays import Floats
from windtunnel.errors import ProblemList
from windtunnel.population.beta import Beta
from windtunnel.programs.attempt_lengths import attempt_lengths
from windtunnel.programs.beam_chances import among_best, beam_success
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategies.solve_verify import best_verified
from windtunnel.programs.strategy import Banded
from windtunnel.programs.votes import weighted_vote
from windtunnel.techniques.base import Knob
from windtunnel.techniques.knobs import with_defaults

pytestmark = pytest.mark.property

WRONG = ((0.3, 0.1), (0.6,))
LAWS = attempt_lengths(None, None, None)
shapes = st.floats(0.1, 5.0)
counts = st.integers(1, 40)
separations = st.floats(0.0, 4.0)
KNOWN = [id for id, strategy in STRATEGIES.items() if strategy.success is not None and not strategy.tools]


def mean(id: str, points: Floats, quality: Quality, **given_: Any) -> float:
    found = success(id, points, quality, **given_)
    return float((found.mean if isinstance(found, Banded) else found).mean())


def success(id: str, points: Floats, quality: Quality, **given_: Any) -> Floats | Banded:
    strategy, problems = STRATEGIES.get(id), ProblemList()
    knobs = with_defaults(strategy.knobs, given_, id, problems)
    strategy.check(knobs, problems, id)
    problems.raise_if_any()
    assert strategy.success is not None
    return strategy.success(points, knobs, quality)


def known(points: Floats, separation: float = 0.6, **more: Any) -> Quality:
    return Quality(
        points=points, attempts=LAWS, separation=separation, separation_stated=True, wrong_answers=WRONG, **more
    )


@settings(max_examples=20)
@given(shapes, shapes, counts, separations)
def test_checker_is_best_and_random_is_one_attempt(a: float, b: float, n: int, d: float) -> None:
    points = Beta(a, b).points(100)
    quality = known(points, d)
    checker = mean("best_of_n", points, quality, n=n, selector="checker")
    for selector in ("majority", "verifier", "weighted"):
        assert (
            mean("best_of_n", points, quality, n=n, selector=selector)
            <= checker + 0.02 * (selector == "weighted") + 1e-9
        )
    assert mean("best_of_n", points, quality, n=n, selector="verifier") >= points.mean() - 1e-9
    assert mean("best_of_n", points, quality, n=n, selector="random") == pytest.approx(points.mean(), abs=1e-12)


@settings(max_examples=20)
@given(shapes, shapes, counts)
def test_a_verifier_that_sees_nothing_leaves_pass_at_1(a: float, b: float, n: int) -> None:
    points = Beta(a, b).points(100)
    blind = known(points, 0.0)
    for id, knobs in (("best_of_n", {"selector": "verifier"}), ("multilingual_sampling", {}), ("first_accept", {})):
        assert mean(id, points, blind, n=n, **knobs) == pytest.approx(points.mean(), abs=1e-6)
    assert mean("solve_verify", points, blind, n=min(n, 20), verifications=3) == pytest.approx(points.mean(), abs=1e-6)


@pytest.mark.parametrize(("width", "keep", "steps"), [(4, 2, 3), (9, 3, 5), (16, 4, 8)])
def test_a_beam_that_sees_nothing_leaves_pass_at_1(width: int, keep: int, steps: int) -> None:
    p = np.linspace(0.01, 0.99, 25)
    assert beam_success(p, width, keep, steps, 0.0) == pytest.approx(p, abs=2e-3)


@settings(max_examples=15)
@given(shapes, st.integers(1, 60))
def test_without_spread_attempts_are_independent(mean_of: float, k: int) -> None:
    share = mean_of / (mean_of + 1.0)
    points = Beta(1e7 * share, 1e7 * (1 - share)).points(200)
    found = mean("best_of_n", points, known(points), n=k, selector="checker")
    assert found == pytest.approx(1 - (1 - share) ** k, abs=1e-5)


@settings(max_examples=15)
@given(shapes, shapes, st.integers(1, 30), separations)
def test_more_attempts_never_lower_a_checkers_or_a_verifiers_share(a: float, b: float, n: int, d: float) -> None:
    points = Beta(a, b).points(100)
    quality = known(points, d, true_accept=0.8, false_accept=0.1)
    for id, knobs in (
        ("best_of_n", {"selector": "checker"}),
        ("best_of_n", {"selector": "verifier"}),
        ("first_accept", {"by": "verifier"}),
        ("multilingual_sampling", {}),
        ("solve_verify", {"verifications": 4, "correlation": 0.2}),
    ):
        assert mean(id, points, quality, n=n + 1, **knobs) >= mean(id, points, quality, n=n, **knobs) - 1e-9


def test_more_votes_may_lower_the_majority() -> None:
    points = np.full(10, 0.3)
    quality = Quality(points=points, wrong_answers=((0.9,),))
    shares = [mean("best_of_n", points, quality, n=n, selector="majority") for n in (1, 5, 41)]
    assert shares[0] > shares[1] > shares[2]


@settings(max_examples=20)
@given(shapes, shapes, st.integers(1, 12), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_checks_without_errors_accept_the_first_right_one(a: float, b: float, n: int, t: float, f: float) -> None:
    points = Beta(a, b).points(100)
    quality = known(points, true_accept=t, false_accept=f)
    own = mean("first_accept", points, quality, n=n)
    checker = mean("first_accept", points, quality, n=n, by="checker")
    assert own <= checker + 1e-9
    assert checker == pytest.approx(mean("best_of_n", points, quality, n=n, selector="checker"), abs=1e-12)


@settings(max_examples=10)
@given(shapes, shapes, st.integers(2, 16))
def test_many_perfect_verifications_are_a_checker(a: float, b: float, n: int) -> None:
    points = Beta(a, b).points(100)
    found = best_verified(points, n, 1, (1.0, 0.0), 0.0)
    assert found == pytest.approx(1 - (1 - points) ** n, abs=1e-9)


@settings(max_examples=8, deadline=None)
@given(shapes, shapes, st.sampled_from([2, 4, 8, 16]), st.floats(0.0, 2.0), st.integers(1, 6))
def test_allocation_by_difficulty_expects_no_less_than_the_same_for_all(
    a: float, b: float, n: int, noise: float, bins: int
) -> None:
    points = Beta(a, b).points(150)
    quality = known(points)
    for selector in ("verifier", "checker"):
        uniform = mean("best_of_n", points, quality, n=n, selector=selector)
        assert (
            mean("compute_optimal", points, quality, n=n, selector=selector, noise=noise, bins=bins) >= uniform - 1e-9
        )


@settings(max_examples=15)
@given(st.integers(2, 20), st.integers(1, 6), st.floats(0.0, 3.0))
def test_who_is_kept_is_a_law(width: int, keep: int, d: float) -> None:
    keep = min(keep, width)
    law = among_best(width, keep, d)
    assert law.sum(1) == pytest.approx(np.ones(width + 1))
    expected = law @ np.arange(keep + 1)
    assert (np.diff(expected) >= -1e-9).all()
    if d == 0:
        assert expected == pytest.approx(np.arange(width + 1) * keep / width, abs=1e-6)


def test_a_beam_is_what_a_drawn_search_finds() -> None:
    random = np.random.default_rng(3)
    p, width, keep, steps, d, runs = 0.3, 8, 2, 4, 1.0, 6000
    right = np.ones((runs, width), np.bool_)
    for step in range(steps):
        right &= random.random((runs, width)) < p ** (1 / steps)
        apart = d / np.sqrt(steps) if step < steps - 1 else d
        score = random.standard_normal((runs, width)) + apart * right
        order = np.argsort(-score, axis=1)
        best = np.take_along_axis(right, order, 1)
        right = np.repeat(best[:, :keep], width // keep, axis=1) if step < steps - 1 else best
    assert beam_success(np.array([p]), width, keep, steps, d)[0] == pytest.approx(right[:, 0].mean(), abs=0.025)


def test_weights_without_a_verifier_are_a_majority() -> None:
    from windtunnel.population.majority import majority

    p = np.array([0.2, 0.4, 0.7])
    assert weighted_vote(p, 15, ((0.5,),), 0.0) == pytest.approx(majority(p, 15, ((0.5,),)), abs=0.06)


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_any_knobs_give_chances(data: Any) -> None:
    id = data.draw(st.sampled_from(KNOWN))
    chosen = {name: data.draw(_values(knob)) for name, knob in STRATEGIES.get(id).knobs.items()}
    if "keep" in chosen and id == "beam":
        chosen["keep"] = None
    if id == "early_stop":
        chosen["warmup"] = min(chosen["warmup"], max(chosen["n"] - 1, 1))
    points = Beta(0.4, 0.8).points(40)
    for quality in (known(points), Quality(points=points, attempts=LAWS)):
        found = success(id, points, quality, **chosen)
        parts = (found.low, found.mean, found.high) if isinstance(found, Banded) else (found,)
        for part in parts:
            assert part.shape == points.shape and (part >= -1e-9).all() and (part <= 1 + 1e-9).all()
        if isinstance(found, Banded):
            assert (found.low <= found.mean + 1e-9).all() and (found.mean <= found.high + 1e-9).all()


def _values(knob: Knob) -> st.SearchStrategy[Any]:
    if knob.choices:
        return st.sampled_from(knob.choices)
    if isinstance(knob.default, bool):
        return st.booleans()
    assert knob.low is not None and knob.high is not None
    if knob.default is None or isinstance(knob.default, int):
        return st.integers(int(knob.low) if knob.low >= 1 else max(int(knob.low), 0), int(min(knob.high, 24)))
    return st.floats(max(knob.low, 0.0), min(knob.high, 4.0))
