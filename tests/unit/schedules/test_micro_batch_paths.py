"""Paths of micro-batches: every visit once, nodes serve one at a time and hold no more than they may."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from windtunnel.schedules.paths import BACKWARD, FORWARD, Net, best_routes, scattered, serve, straight
from windtunnel_lab.papers.skippipe import experiment

STAGES = ((0, 1, 2), (3, 4), (5, 6), (7, 8))


def net(memory: int = 3, hop: float = 0.5) -> Net:
    rng = np.random.default_rng(1)
    hops = rng.uniform(0.5 * hop, 1.5 * hop, (9, 9)) if hop else np.zeros((9, 9))
    return Net(STAGES, np.ones(9), 2 * np.ones(9), hops, memory)


@pytest.mark.parametrize("memory", [1, 2, 5])
@pytest.mark.parametrize("length", [2, 3, 4])
def test_all_visits_happen_once_in_order_and_in_memory(memory: int, length: int) -> None:
    nodes = net(memory)
    paths = best_routes(nodes, 12, length, tries=2)
    served = serve(nodes, paths)
    seen = sorted((v.micro_batch, v.kind, n) for n, visits in served.by_node.items() for v in visits)
    assert seen == sorted((i, kind, n) for i, path in enumerate(paths) for n in path for kind in (FORWARD, BACKWARD))
    for visits in served.by_node.values():
        assert all(b.start_s >= a.end_s - 1e-12 for a, b in pairwise(visits))
        held = np.cumsum([1 if v.kind == FORWARD else -1 for v in visits])
        assert held.max(initial=0) <= memory and (len(visits) == 0 or held[-1] == 0)


def test_paths_are_as_long_as_asked_rise_and_share_the_load() -> None:
    nodes = net()
    stage_of = {n: s for s, group in enumerate(STAGES) for n in group}
    for paths in (best_routes(nodes, 12, 3, tries=1), scattered(nodes, 12, 3, 0)):
        assert all([stage_of[n] for n in p] == sorted({stage_of[n] for n in p}) and len(p) == 3 for p in paths)
        visits = np.bincount([n for p in paths for n in p], minlength=9)
        assert (visits[:3] == 4).all() and visits[3:].max() <= 5


def test_skipping_saves_its_share_of_work_where_hops_are_free() -> None:
    """Nine nodes: full pipelines use two of each stage; half of the stages on three sources is a third of the time."""
    nodes = net(memory=50, hop=0.0)
    full = serve(nodes, straight(nodes, 48)).makespan_s
    half = serve(nodes, best_routes(nodes, 48, 2, tries=1)).makespan_s
    assert full == pytest.approx(24 * 3, rel=0.15)
    assert half == pytest.approx(16 * 3, rel=0.15)


def test_the_engine_takes_as_long_as_serving_said() -> None:
    nodes = experiment.net(0.055, 2.0, 200, False)
    paths = best_routes(nodes, 30, 4, tries=1)
    assert experiment.engine_s(nodes, paths) == pytest.approx(serve(nodes, paths).makespan_s, rel=1e-12)
