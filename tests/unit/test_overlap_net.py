"""Mechanisms of overlap and collective systems: what they move, when they start, what they can never beat."""

from __future__ import annotations

import pytest

from windtunnel.cost.coefficients import Coefficients
from windtunnel.papers.claims import central
from windtunnel.papers.t3 import experiment as t3
from windtunnel.pricing.segments import simulate_segments
from windtunnel.program.segment import COMPUTE, Segment
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.techniques import applied

VALUES = central(t3.setting())


def seconds(segment: Segment, where: ClusterSpec) -> float:
    return simulate_segments([segment], where, Coefficients(), [0.0], [0.0])[0].device_s


@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_t3_hides_the_reduction_but_not_the_gather(ranks: int) -> None:
    where = t3.cluster(VALUES, ranks)
    plain = t3.sublayer(where, 8192, 4256, 4 * 4256 / ranks)
    product, reduce = plain.launches
    tracked = applied(({"t3": {"trigger_us": 0.0}},))[0].on_segment(plain, where)
    gather = tracked.launches[-1]
    assert gather.operation == "all_gather" and gather.alone_s < reduce.alone_s
    found = seconds(tracked, where)
    assert product.alone_s + gather.alone_s <= found * (1 + 1e-9)
    assert found < seconds(plain, where)
    pieces = [x for x in tracked.launches if x.stream == COMPUTE]
    assert len(pieces) == ranks
    assert sum(x.alone_s for x in pieces) == pytest.approx(product.alone_s)
    assert sum(x.flop for x in pieces) == pytest.approx(product.flop)
    sent = sum(x.up_bytes for x in tracked.launches)
    assert sent == pytest.approx(reduce.up_bytes, rel=1e-9), "the same bytes cross the links"


def test_t3_moves_less_only_where_memory_adds() -> None:
    where = t3.cluster(VALUES, 8)
    plain = t3.sublayer(where, 8192, 4256, 4256 / 8)
    moved = [
        sum(x.hbm_bytes for x in applied(({"t3": {"near_memory": near}},))[0].on_segment(plain, where).launches)
        for near in (True, False)
    ]
    size = 8192 * 4256 * 2.0
    assert moved[1] - moved[0] == pytest.approx(7 / 8 * size)
    assert moved[0] < sum(x.hbm_bytes for x in plain.launches)


def test_t3_leaves_one_rank_and_other_launches_alone() -> None:
    where = t3.cluster(VALUES, 1)
    plain = t3.sublayer(where, 1024, 1024, 1024)
    assert applied(("t3",))[0].on_segment(plain, where).launches == plain.launches
