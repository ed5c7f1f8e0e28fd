"""Laws of traffic: seeds reproduce, lengths are positive, rates and spreads are those asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windtunnel.serving.event_loop.fleet import single_pool
from windtunnel.serving.traffic import generate
from windtunnel.specs.lengths import Lengths
from windtunnel.specs.traffic import Sessions, TrafficSpec

pytestmark = pytest.mark.property

SPREADS = st.floats(0.0, 3.0)
MEANS = st.floats(1.0, 5000.0)


@st.composite
def lengths(draw: Any) -> Lengths:
    kind = draw(st.sampled_from(["fixed", "uniform", "normal", "lognormal", "gamma", "zipf", "empirical"]))
    if kind == "empirical":
        values = draw(st.lists(st.integers(1, 9000), min_size=1, max_size=9))
        return Lengths(distribution=kind, values=tuple(values))
    low = draw(st.integers(1, 500))
    high = draw(st.integers(low + 2, 9000))
    if kind == "uniform":
        return Lengths(distribution=kind, min=low, max=high)
    share = draw(st.floats(0.05, 0.95))
    if kind == "zipf":
        return Lengths(distribution=kind, mean=low + share * (high - low) / 2, min=low, max=high)
    mean = low + share * (high - low)
    if kind == "fixed":
        return Lengths(distribution=kind, mean=mean, min=low, max=high)
    return Lengths(distribution=kind, mean=mean, cv=draw(SPREADS), min=low, max=high)


@st.composite
def traffics(draw: Any) -> TrafficSpec:
    how: dict[str, Any] = draw(
        st.sampled_from([{"rate_per_s": 7.0}, {"concurrency": 5}, {"offline": True}, {"rate_per_s": 0.01}])
    )
    if "rate_per_s" in how:
        process = draw(st.sampled_from(["poisson", "gamma", "constant", "bursty", "diurnal"]))
        how = how | {"process": process, "period_s": draw(st.floats(0.5, 1e5))}
        if process in ("gamma", "bursty"):
            how["burstiness"] = draw(st.floats(0.1, 10.0))
        how["peak_to_mean"] = draw(st.floats(1.0, 2.0))
    turns = draw(st.none() | st.integers(1, 6))
    session = None if turns is None else Sessions(turns=Lengths(distribution="uniform", min=1, max=turns))
    return TrafficSpec(
        **how,
        num_requests=draw(st.integers(1, 300)),
        input_tokens=draw(lengths()),
        output_tokens=draw(lengths()),
        correlation=draw(st.floats(-1, 1)),
        sessions=session,
        seed=draw(st.integers(0, 2**32)),
    )


@settings(max_examples=150, deadline=None, derandomize=True)
@given(traffics())
def test_what_is_sent(spec: TrafficSpec) -> None:
    traffic = generate(spec)
    requests, again = traffic.requests, generate(spec).requests
    for name in ("arrival_s", "input_tokens", "output_tokens", "group", "follow", "delay_s", "prefix_tokens"):
        np.testing.assert_array_equal(getattr(requests, name), getattr(again, name))
    assert len(requests) == spec.num_requests
    assert requests.input_tokens.min() >= 1 and requests.output_tokens.min() >= 1
    assert isinstance(spec.output_tokens, Lengths)
    assert spec.output_tokens.min is None or requests.output_tokens.min() >= spec.output_tokens.min
    assert spec.output_tokens.max is None or requests.output_tokens.max() <= spec.output_tokens.max
    assert (requests.prefix_tokens >= 0).all() and (requests.prefix_tokens < requests.input_tokens).all()
    heads = requests.order()
    followers = np.setdiff1d(np.arange(len(requests)), heads)
    assert np.isnan(requests.arrival_s[followers]).all()
    if spec.concurrency:
        assert traffic.concurrency == spec.concurrency and np.isnan(requests.arrival_s).all()
    else:
        assert traffic.concurrency == 0
        times = requests.arrival_s[heads]
        assert (np.diff(times) >= 0).all() and (times >= 0).all()
    # every request is either sent by itself or brought on by exactly one other
    brought = requests.follow[requests.follow >= 0]
    assert len(np.unique(brought)) == len(brought) == len(followers)
    assert (requests.delay_s[requests.follow < 0] == 0).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.sampled_from(["poisson", "gamma", "bursty", "diurnal"]),
    st.floats(0.05, 500.0),
    st.floats(0.3, 4.0),
    st.floats(1.0, 2.0),
    st.integers(0, 10**6),
)
def test_rates_within_three_sigma(process: str, rate: float, shape: float, peak: float, seed: int) -> None:
    """Counts in whole periods have mean rate·time and variance at most that over the shape."""
    shape = shape if process in ("gamma", "bursty") else 1.0
    expected = 20_000.0
    duration = expected / rate
    spec = TrafficSpec(
        rate_per_s=rate,
        process=process,
        burstiness=shape,
        peak_to_mean=peak,
        period_s=duration / 8,
        duration_s=duration,
        input_tokens=1,
        output_tokens=1,
        seed=seed,
    )
    count = len(generate(spec).requests)
    assert abs(count - expected) < 3 * np.sqrt(expected / shape) + 1


def test_three_sigma_holds_as_often_as_it_should() -> None:
    """Over 400 seeds the count of Poisson arrivals has mean and variance equal."""
    counts = []
    for seed in range(400):
        spec = TrafficSpec(rate_per_s=10, duration_s=50, input_tokens=1, output_tokens=1, seed=seed)
        counts.append(len(generate(spec).requests))
    assert abs(np.mean(counts) - 500) < 3 * np.sqrt(500 / 400)
    assert 0.8 < np.var(counts) / 500 < 1.25


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(1, 400), st.integers(1, 8), st.integers(1, 64), st.integers(0, 99))
def test_closed_loop_has_as_many_heads_as_are_sent_at_once(count: int, turns: int, users: int, seed: int) -> None:
    """The loop's twin starts exactly `concurrency` conversations, or all that there are."""
    from windtunnel.serving.event_loop.instance_limits import Limits
    from windtunnel.serving.event_loop.reference import ReferenceLoop

    session = Sessions(turns=Lengths(distribution="uniform", min=1, max=turns))
    traffic = generate(
        TrafficSpec(concurrency=users, num_requests=count, input_tokens=9, output_tokens=3, sessions=session, seed=seed)
    )
    limits = Limits(concurrency=traffic.concurrency, blocks=10**6)
    twin = ReferenceLoop(traffic.requests, single_pool(limits, np.full(10**4, 1e-3), 1))
    served = twin.run()
    at_start = [q for q in served if q.arrival == 0.0]
    assert len(at_start) == min(users, len(traffic.requests.order()))
    assert all(not np.isnan(q.finish) for q in served)
