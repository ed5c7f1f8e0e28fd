"""Experts on a mesh: ways, copies and full links."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel import api
from windtunnel.cost.expert_load import ExpertLoad, crowded, drawn
from windtunnel.cost.expert_mesh import ExpertMesh, busiest, distances, nearest, sent, spread
from windtunnel.errors import BadInput
from windtunnel.techniques import REGISTRY

TECHNIQUE = REGISTRY.get("moe-data-movement")

MESH = ExpertMesh((4, 4), wraps=False)


def test_distances_are_the_links_of_routes() -> None:
    for mesh in (MESH, ExpertMesh((3, 5), wraps=True)):
        n = mesh.graph.num_devices
        src, dst = np.repeat(np.arange(n), n), np.tile(np.arange(n), n)
        assert ((mesh.graph.routes(src, dst) >= 0).sum(axis=1).reshape(n, n) == distances(mesh)).all()


def test_copies_near_all_ranks_shorten_ways_and_lose_no_rows() -> None:
    load, apart = drawn(64, 8, 0.6), distances(MESH)
    hops = []
    for copies in (0, 16, 64):
        held = spread(load, 16, copies, apart)
        assert (held.sum(axis=0) >= 1).all() and held.sum() <= 64 + copies
        assert held.sum(axis=1).max() <= (64 + copies) / 16
        rows = sent(np.tile(load, (16, 1)), nearest(held, apart))
        assert rows.sum() == pytest.approx(16 * 8)
        hops.append(float((rows * apart).sum()))
    assert hops[0] > hops[1] > hops[2]


def test_all_to_all_fills_the_middle_of_a_line() -> None:
    # 4 in a row: 2 × 2 rows cross the middle, ends send 3 over ports that are two links
    assert busiest(ExpertMesh((4,), wraps=False), np.ones((4, 4))) == pytest.approx(4 * 2 / 3)


def test_near_placement_empties_the_fullest_link() -> None:
    number = crowded(64, 8.0, 16, ExpertLoad(popularity=0.6, mesh=MESH))
    near = crowded(64, 8.0, 16, ExpertLoad(popularity=0.6, redundant=32, balanced=True, mesh=MESH, near=True))
    assert near[0] * near[1] < number[0] * number[1]
    assert near[1] < number[1]


def test_near_needs_a_mesh() -> None:
    assert TECHNIQUE.limit_cases is not None
    scenario = dict(TECHNIQUE.limit_cases.scenario)
    scenario["cluster"] = {"device": "h200-sxm-141gb", "nodes": 16, "devices_per_node": 4}
    load = {"popularity": 0.5, "eplb": True, "placement": "near"}
    with pytest.raises(BadInput, match="mesh or torus"):
        api.simulate_serving(scenario | {"serving": scenario["serving"] | {"expert_load": load}})
