"""Comparisons of runs that differ in one thing: what they share cancels, and measured pairs fall into the interval."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from windtunnel.training.results.records import Interval
from windtunnel.training.uncertainty.comparable_runs import Subject, distances
from windtunnel.training.uncertainty.plan_difference import (
    LEVEL,
    PLAN,
    WORDS,
    differing,
    measured_pairs,
    paired_difference,
    spread,
    weighted_band,
)

RUN = Subject(
    software="torchtitan",
    root="torchtitan",
    device="h100-sxm-80gb",
    generation="hopper",
    vendor="NVIDIA",
    mixture=False,
    signature="4096x32x128256x0|h100-sxm-80gbx8",
    devices=8,
    across=False,
    precision="bf16",
    seq_len=8192,
    hidden=4096,
    mbs=1,
    plan="dp8 mbs1 gbs8 zero3 none",
)
OTHERS = {
    "device": replace(RUN, device="h200-sxm-141gb", signature="4096x32x128256x0|h200-sxm-141gbx8"),
    "devices": replace(RUN, devices=64, across=True, signature="4096x32x128256x0|h100-sxm-80gbx64"),
    "model": replace(RUN, hidden=8192, signature="8192x80x128256x0|h100-sxm-80gbx8"),
    "seq_len": replace(RUN, seq_len=32768),
    "software": replace(RUN, software="nemo", root="nemo"),
}
WIDE = Interval(level=LEVEL, low=0.7, high=1.4, basis="", grade="fitted")


@pytest.mark.parametrize("kind", WORDS)
def test_runs_that_differ_in_one_thing_are_compared_by_measured_pairs(kind: str) -> None:
    assert differing(RUN, OTHERS[kind]) == (kind,)
    found = paired_difference(RUN, OTHERS[kind], 1.0, 0.96, WIDE, WIDE)
    assert found.pairs > 0 and WORDS[kind] in found.basis
    alone = paired_difference(RUN, replace(OTHERS[kind], seq_len=512, software="jax"), 1.0, 0.96, WIDE, WIDE)
    assert alone.pairs == 0 and WORDS["software"] in alone.basis
    both = math.exp(math.hypot(math.log(1.4), math.log(1 / 0.7)) * 2)
    assert found.high / found.low < alone.high / alone.low * 1.01
    if kind != "software":  # a dozen of groups: as wide as two intervals
        assert found.high / found.low < 0.8 * both


def test_a_chain_of_comparisons_is_narrower_than_independent_intervals_or_not_taken() -> None:
    other = replace(OTHERS["device"], devices=64, across=True, signature="4096x32x128256x0|h200-sxm-141gbx64")
    chained = paired_difference(RUN, other, 1.0, 0.96, WIDE, WIDE)
    assert "one after the other" in chained.basis and chained.high / chained.low < 1.6
    narrow = Interval(level=LEVEL, low=0.95, high=1.01, basis="", grade="assumed")
    alone = paired_difference(RUN, other, 1.0, 0.96, narrow, replace(narrow, low=0.94, high=0.98))
    assert "independent" in alone.basis and alone.grade == "assumed" and alone.high / alone.low < 1.2


@pytest.mark.parametrize("kind", [PLAN, "device", "devices", "seq_len"])
def test_measured_pairs_of_each_kind_fall_into_their_interval(kind: str) -> None:
    pairs, inside = measured_pairs(kind), []
    for group in np.unique(pairs.group):
        at = int(np.flatnonzero(pairs.group == group)[0])
        a, b = (pairs.table.members[int(i)].subject for i in (pairs.first[at], pairs.second[at]))
        if (found := spread(a, b, pairs, distances())) is not None:
            low, high = weighted_band(*found[:3], LEVEL)
            inside.append(low <= pairs.error[at] <= high)
    assert 0.68 < np.mean(inside) < 0.95
