"""Flows as they come take what the flow engine gives when all are known beforehand."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from windtunnel.engine import simulate_flows
from windtunnel.learning.drivers.transfers import IndependentLinks
from windtunnel.learning.timing.contended_links import ContendedLinks
from windtunnel.learning.timing.links import Link


def run(transfers, starts, sizes, direction="up"):
    """End of each flow, driven as the arrival-driven driver does."""
    ends, order, at = {}, np.argsort(starts, kind="stable"), 0
    while len(ends) < len(starts):
        following = starts[order[at]] if at < len(starts) else inf
        end = transfers.next_end_s()
        if end <= following:
            finished = transfers.finish(end)
            assert finished
            for key in finished:
                ends[key] = end
        else:
            key = int(order[at])
            transfers.start(key, key, sizes[key], direction, following)
            at += 1
    return np.array([ends[key] for key in range(len(starts))])


@pytest.mark.parametrize("port", [3.0, 7.5, 1000.0])
def test_the_same_ends_as_the_flow_engine(port: float) -> None:
    rng = np.random.default_rng(5)
    n, own, latency = 60, 2.0, 0.25
    starts, sizes = rng.uniform(0, 20, n), rng.uniform(0.5, 20, n)
    link = Link(up_bytes_per_s=own, down_bytes_per_s=own, shared_bytes_per_s=port, latency_s=latency)
    ends = run(ContendedLinks(link), starts, sizes)
    routes = np.stack([np.arange(n), np.full(n, n)], axis=1)
    capacity = np.concatenate([np.full(n, own), [port]])
    expected = simulate_flows(routes, capacity, sizes, start_s=starts).end_s + latency
    np.testing.assert_allclose(ends, expected, rtol=1e-9)


def test_without_a_port_links_are_independent() -> None:
    rng = np.random.default_rng(6)
    starts, sizes = rng.uniform(0, 5, 20), rng.uniform(0, 9, 20)
    link = Link(up_bytes_per_s=2.0, down_bytes_per_s=4.0, latency_s=0.1)
    plain = IndependentLinks(down_bytes_per_s=4.0, up_bytes_per_s=2.0, latency_s=0.1)
    for direction in ("up", "down"):
        contended = run(ContendedLinks(link), starts, sizes, direction)
        np.testing.assert_allclose(contended, run(plain, starts, sizes, direction), rtol=1e-12)


def test_a_flow_that_is_given_up_frees_its_share() -> None:
    links = ContendedLinks(Link(up_bytes_per_s=10.0, down_bytes_per_s=10.0, shared_bytes_per_s=10.0))
    links.start(1, 1, 100.0, "up", 0.0)
    links.start(2, 2, 100.0, "up", 0.0)
    assert links.next_end_s() == pytest.approx(20.0)
    links.cancel(1, 4.0)
    assert links.next_end_s() == pytest.approx(12.0)  # 20 bytes by 4 s, 80 more at 10 bytes/s
    assert links.finish(links.next_end_s()) == [2]
    assert links.next_end_s() == inf


def test_directions_do_not_meet() -> None:
    links = ContendedLinks(Link(up_bytes_per_s=10.0, down_bytes_per_s=10.0, shared_bytes_per_s=10.0))
    links.start(1, 1, 100.0, "up", 0.0)
    links.start(2, 2, 100.0, "down", 0.0)
    assert links.finish(links.next_end_s()) == [1, 2]


def test_links_that_take_no_time_end_at_once() -> None:
    links = ContendedLinks(Link(up_bytes_per_s=inf, down_bytes_per_s=inf))
    links.start(1, 1, 1e9, "up", 3.0)
    assert links.next_end_s() == 3.0
    assert links.finish(3.0) == [1]
