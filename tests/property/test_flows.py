"""Irregular flows on explicit links: an independent slow solver, the laws of max-min sharing, the compiled twin."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windtunnel.arrays import Floats, Ints
from windtunnel.engine.flows import simulate_flows
from windtunnel.network.topology import FatTree, TwoLevel


def random_case(seed: int, flows: int, links: int, spread: float) -> tuple[Ints, Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    routes = np.full((flows, 3), -1)
    for row in routes:
        length = rng.integers(1, min(3, links) + 1)
        row[:length] = rng.choice(links, length, replace=False)
    start = rng.uniform(0.0, spread, flows) * rng.integers(0, 2, flows)
    return routes, rng.choice([1.0, 2.0, 4.0, 7.5], links), rng.uniform(0.5, 20.0, flows), start


def slow(routes: Ints, capacity: Floats, size: Floats, start: Floats, weight: Floats) -> Floats:
    """Ends by plain water-filling in tiny lists, solved anew at every event."""
    left, end, now = size.astype(float).tolist(), [-1.0] * len(size), 0.0
    while min(end) < 0.0:
        live = [f for f in range(len(size)) if end[f] < 0.0 and start[f] <= now]
        rate: dict[int, float] = {}
        while len(rate) < len(live):
            level = {}
            for link in range(len(capacity)):
                here = [f for f in live if link in routes[f]]
                rising = sum(weight[f] for f in here if f not in rate)
                if rising:
                    level[link] = (capacity[link] - sum(rate[f] for f in here if f in rate)) / rising
            tight = min(level, key=lambda link: level[link])
            for f in live:
                if f not in rate and tight in routes[f]:
                    rate[f] = level[tight] * weight[f]
        ahead = [start[f] - now for f in range(len(size)) if end[f] < 0.0 and start[f] > now]
        step = min([left[f] / rate[f] for f in live] + ahead)
        for f in live:
            left[f] -= rate[f] * step
            if left[f] <= 1e-9 * size[f]:
                end[f] = now + step
        now += step
    return np.array(end)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 14), st.integers(1, 6), st.sampled_from([0.0, 5.0, 30.0]), st.booleans())
def test_ends_are_those_of_a_slow_solver(seed: int, flows: int, links: int, spread: float, weighted: bool) -> None:
    routes, capacity, size, start = random_case(seed, flows, links, spread)
    weight = np.random.default_rng(seed).choice([0.5, 1.0, 3.0], flows) if weighted else np.ones(flows)
    found = simulate_flows(routes, capacity, size, start_s=start, weight=weight)
    np.testing.assert_allclose(found.end_s, slow(routes, capacity, size, start, weight), rtol=1e-7)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 20.0]))
def test_no_link_moves_more_than_it_can_and_scaling_scales(seed: int, spread: float) -> None:
    routes, capacity, size, start = random_case(seed, 40, 8, spread)
    found = simulate_flows(routes, capacity, size, start_s=start)
    for link, rate in enumerate(capacity):
        mine = (routes == link).any(axis=1)
        if mine.any():
            assert size[mine].sum() <= rate * (found.end_s[mine].max() - found.start_s[mine].min()) * (1 + 1e-9)
    faster = simulate_flows(routes, capacity * 2.0, size, start_s=start / 2.0)
    np.testing.assert_allclose(faster.end_s * 2.0, found.end_s, rtol=1e-9)


@pytest.mark.parametrize("spread", [0.0, 0.05])
def test_tolerance_bounds_the_error(spread: float) -> None:
    fabric = FatTree(base=TwoLevel(32, 8, 400e9, 8, 50e9), leaf_domains=8, oversubscription=2.0, spines=4, spray=False)
    rng = np.random.default_rng(3)
    src = rng.integers(0, 256, 2000)
    dst = (src + rng.integers(1, 256, 2000)) % 256
    size = rng.lognormal(np.log(64e6), 1.0, 2000)
    start = rng.uniform(0.0, spread, 2000) if spread else np.zeros(2000)
    routes = fabric.routes(src, dst)
    exact = simulate_flows(routes, fabric.capacity, size, start_s=start)
    near = simulate_flows(routes, fabric.capacity, size, start_s=start, tolerance=0.005)
    assert np.abs(near.seconds / exact.seconds - 1.0).max() < 0.005
    assert near.solutions < exact.solutions or spread


def test_compiled_and_plain_give_the_same_bits() -> None:
    code = (
        "import numpy as np, sys; sys.path.insert(0, 'tests/property');"
        "from test_flows import random_case; from windtunnel.engine.flows import simulate_flows;"
        "cases = [random_case(s, 25, 6, 9.0 * (s % 2)) for s in range(12)];"
        "print([x.hex() for r, c, z, t in cases for x in"
        " simulate_flows(r, c, z, start_s=t, tolerance=0.01 * (len(z) % 2)).end_s.tolist()])"
    )
    texts = []
    for plain in ("0", "1"):
        env = os.environ | {"NUMBA_DISABLE_JIT": plain, "PYTHONPATH": "src"}
        run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        texts.append(run.stdout)
    assert texts[0] == texts[1]
    assert len(texts[0]) > 1000


def test_edges_and_bad_input() -> None:
    none = np.full((1, 2), -1)
    assert simulate_flows(none, [1.0], [5.0], start_s=2.0).end_s[0] == 2.0, "a flow that uses no link takes no time"
    assert simulate_flows([[0]], [0.0], [5.0]).end_s[0] == np.inf
    assert simulate_flows([[0]], [1.0], [0.0], start_s=3.0).end_s[0] == 3.0
    assert simulate_flows(np.zeros((0, 1), int), [1.0], []).makespan_s == 0.0
    for wrong in ({"nbytes": [-1.0]}, {"weight": 0.0}, {"tolerance": 1.0}, {"routes": [[3]]}):
        with pytest.raises(ValueError, match=r"must be|from 0|link 3"):
            simulate_flows(**({"routes": [[0]], "capacity": [1.0], "nbytes": [1.0]} | wrong))  # type: ignore[arg-type]
