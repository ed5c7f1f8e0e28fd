"""The map of algorithms over links."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from windtunnel.learning.timing.target import Target, stated_layers
from windtunnel_lab.models.learning.link_map import CANDIDATES, algorithm_chart, link_map, utilisation_chart

TARGET = Target(step_s=1.0, layers=stated_layers(1e9, 24))
GBITS = (0.01, 0.1, 1.0, 10.0, 100.0)


def test_faster_links_compute_more_and_longer_rounds_need_less() -> None:
    found = link_map(TARGET, 8, gbits=GBITS, latencies_s=(1e-5, 0.05))
    assert (np.diff(found.utilisation, axis=2) >= -1e-9).all()
    assert (found.utilisation[:, 0] >= found.utilisation[:, 1] - 1e-9).all()
    names = [c.name for c in CANDIDATES]
    by = dict(zip(names, found.utilisation[:, 0], strict=True))
    for few, many in (
        ("data parallel", "DiLoCo, H 10"),
        ("DiLoCo, H 10", "DiLoCo, H 100"),
        ("DiLoCo, H 100", "Streaming, H 100"),
    ):
        assert (by[many][:-1] >= by[few][:-1]).all()
    chosen = found.chosen()[0]
    assert chosen[-1] == 0 and (chosen[0] is None or chosen[0] > 0)


def test_where_steps_were_measured_the_first_at_the_target_is_chosen() -> None:
    worse = tuple(replace(c, steps_ratio=1.0 + 0.1 * i) for i, c in enumerate(CANDIDATES))
    found = link_map(TARGET, 8, gbits=GBITS, latencies_s=(1e-5,), candidates=worse)
    best = found.chosen()[0]
    times = np.array([c.steps_ratio for c in worse])[:, None] / found.utilisation[:, 0]
    assert best == list(times.argmin(axis=0))
    assert best[-1] == 0 < best[0]


def test_charts_are_specifications() -> None:
    found = link_map(TARGET, 4, gbits=GBITS, latencies_s=(1e-3, 0.05))
    grid, lines = algorithm_chart(found), utilisation_chart(found, latency=1)
    assert len(grid.grid) == 10 and grid.at(860).spec()["$schema"].endswith("json")
    assert lines.spec(860)["$schema"].endswith("json")
    assert found.to_dict()["algorithms"][0] == "data parallel"


def test_the_whole_map_takes_seconds() -> None:
    link_map(TARGET, 2, gbits=(1.0,), latencies_s=(1e-3,))
    begun = time.process_time()
    link_map(TARGET, 8)
    assert time.process_time() - begun < 20.0
