"""Filters, templates of jobs, moves, task graphs, migrations, predictors: laws that break if a mechanism is wrong."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from windtunnel.network.topology import Dragonfly
from windtunnel_lab.models.clusters import vm_moves
from windtunnel_lab.models.clusters.cpu_score import Benchmark, scores
from windtunnel_lab.models.clusters.filter_pipeline import error_rates, separation_of
from windtunnel_lab.models.clusters.intelligence_per_watt import Answered, routed
from windtunnel_lab.models.clusters.interference import Host, drawn, performance
from windtunnel_lab.models.clusters.job_templates import Grid, HostNode, Wire, message_passing_s, serial_s
from windtunnel_lab.models.clusters.migrations import migration_bytes
from windtunnel_lab.models.clusters.regression import mean_error, ridge, trees
from windtunnel_lab.models.clusters.task_graphs import TaskGraph, heft, ranked, upward_rank
from windtunnel_lab.models.network.adaptive import adaptive_routes
from windtunnel_lab.models.network.switches import fat_tree_switches

SECONDS = [[14, 16, 9], [13, 19, 18], [11, 13, 19], [13, 8, 17], [12, 13, 10], [13, 16, 9], [7, 15, 11], [5, 11, 14]]
SECONDS += [[18, 12, 20], [21, 7, 16]]
EDGES = {(0, 1): 18, (0, 2): 12, (0, 3): 9, (0, 4): 11, (0, 5): 14, (1, 7): 19, (1, 8): 16, (2, 6): 23, (3, 7): 27}
EDGES |= {(3, 8): 23, (4, 8): 13, (5, 7): 15, (6, 9): 17, (7, 9): 11, (8, 9): 13}
GRAPH = TaskGraph(np.array(SECONDS, float), {k: float(v) for k, v in EDGES.items()})


def test_a_filter_passes_what_its_reduction_says() -> None:
    for separation in (0.0, 2.0, 5.0):
        hit, false = error_rates(50.0, separation, 0.001)
        assert 0.001 * hit + 0.999 * false == pytest.approx(1 / 50)
    assert error_rates(50.0, 0.0, 0.5) == pytest.approx((0.02, 0.02))  # no skill: both alike
    assert separation_of(0.5, 0.5) == 0.0


def test_one_rank_is_serial_and_messages_only_add() -> None:
    node = HostNode(cores=8, sockets=2, core_flop_per_s=1e10, memory_bytes_per_s=1e11, core_memory_bytes_per_s=2e10)
    grid, wire = Grid(side=64, flop_per_cell=1000, bytes_per_cell=8), Wire(latency_s=1e-6, bytes_per_s=1e10)
    assert message_passing_s(grid, node, wire, 1) == pytest.approx(serial_s(grid, node))
    for ranks in (2, 8, 64):
        assert message_passing_s(grid, node, wire, ranks) > serial_s(grid, node) / ranks


def test_heft_plans_the_example_of_its_paper() -> None:
    assert upward_rank(GRAPH)[[0, 9]] == pytest.approx([108.0, 44 / 3])
    assert heft(GRAPH, [0.0]).latency_s[0] == pytest.approx(80.0)


def test_task_graphs_keep_their_order_and_elements_one_task_at_a_time() -> None:
    for run in (heft(GRAPH, [0.0, 30.0], noise=0.5, seed=1), ranked(GRAPH, [0.0, 30.0], noise=0.5, seed=1)):
        for (a, b), message in GRAPH.edges.items():
            apart = run.element[:, a] != run.element[:, b]
            assert (run.start_s[:, b] >= run.end_s[:, a] + apart * message - 1e-9).all()
        for p in range(3):
            spans = sorted(zip(run.start_s[run.element == p], run.end_s[run.element == p], strict=True))
            assert all(x[1] <= y[0] + 1e-9 for x, y in itertools.pairwise(spans))


def test_moves_keep_capacity_and_the_programme_is_no_worse_than_samples() -> None:
    hosts, limit = vm_moves.generated(3, nodes=8), 4
    moves = vm_moves.exact(hosts, limit)
    after = hosts
    for machine, node in moves:
        after = vm_moves.moved(after, machine, node)
        assert (after.idle >= 0).all()
    best = vm_moves.best_prefix(hosts, vm_moves.sampled(hosts, limit, vm_moves.DEFAULT, 8, 0))[0]
    assert len(moves) <= limit and after.fragment_rate <= best + 1e-9
    assert vm_moves.carried_out(hosts, moves, 0, 0) == pytest.approx(after.fragment_rate)


def test_a_load_that_writes_nothing_is_copied_once() -> None:
    found = migration_bytes(np.full(3, 10.0), np.array([0.0, 0.5, 2.0]), 1.0)
    assert found[0] == 10.0 and 19.9 < found[1] < 20.0 and found[2] == 20.0


def test_trees_fit_what_lines_cannot() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (400, 3))
    y = np.sign(x[:, 0]) * np.abs(x[:, 1])
    fitted, line = trees(x[:300], y[:300]), ridge(x[:300], y[:300])
    assert mean_error(fitted.predict(x[300:]), y[300:]) < 0.5 * mean_error(line.predict(x[300:]), y[300:])
    straight = x @ np.array([1.0, -2.0, 0.5])
    assert mean_error(ridge(x, straight, 1e-9).predict(x), straight) < 1e-6


def test_detours_go_on_from_where_they_came_and_spare_the_one_link() -> None:
    net = Dragonfly(5, 4, 2, 1e9, 1e9, 1e9)
    src, dst = np.arange(8), np.arange(8, 16)
    size = np.full(8, 1e9)
    routes = adaptive_routes(net, src, dst, size)
    wide = 2 * net.num_devices + net.groups * net.routers**2
    direct = wide + 0 * net.groups + 1
    assert 0 < (routes == direct).any(1).sum() < 8
    for i, path in enumerate(routes):
        hops = [divmod(int(x) - wide, net.groups) for x in path if x >= wide]
        assert hops[0][0] == 0 and hops[-1][1] == 1
        assert all(a[1] == b[0] for a, b in itertools.pairwise(hops)), i


def test_switches_of_full_trees() -> None:
    assert fat_tree_switches(40, 40) == 1
    assert fat_tree_switches(800, 40) == 60  # forty leaves, twenty spines
    assert fat_tree_switches(16000, 40) == 2000  # 5/4 k²: the three-layer tree of k = 40
    with pytest.raises(ValueError, match="three layers"):
        fat_tree_switches(16001, 40)


def test_an_oracle_keeps_quality_and_a_router_saves_its_share() -> None:
    right = np.random.default_rng(0).random(4000) < 0.7
    local, cloud = Answered(0.7, 50.0, 10.0), Answered(1.0, 700.0, 100.0)
    oracle = routed(right, local, cloud, 1.0, 1, fallback=True)
    assert oracle.accuracy == 1.0 and oracle.saved == pytest.approx(0.9 * right.mean())
    sure = routed(right, local, cloud, 0.8, 1, fallback=True)
    guess = routed(right, local, cloud, 0.8, 1, fallback=False)
    assert sure.saved / oracle.saved == pytest.approx(0.8, abs=0.02) and sure.accuracy == 1.0
    assert guess.accuracy == pytest.approx(1.0 - 0.2 * 0.3, abs=0.02)


def test_a_guest_alone_is_not_slowed_and_neighbours_only_slow() -> None:
    rng = np.random.default_rng(0)
    guests = [drawn("stream", rng), drawn("database", rng)]
    alone, _ = performance(Host(), guests[1:], 30, np.random.default_rng(1))
    beside, series = performance(Host(), guests, 30, np.random.default_rng(1))
    assert alone[0] == pytest.approx(1.0) and (beside < 1.0).all() and series.shape == (2, 30, 8)


def test_cores_help_products_and_channels_help_streams() -> None:
    sheet = np.array(
        [[32, 2.0, 3.8, 250, 60, 8, 4800], [64, 2.0, 3.8, 250, 60, 8, 4800], [32, 2.0, 3.8, 250, 60, 4, 4800]]
    )
    products, stream = Benchmark(1e3, 10.0, 0.0), Benchmark(0.05, 1e4, 0.0)
    few, many, thin = scores(sheet, products)
    assert few < many < 2 * few and thin == few  # more cores share the same watts
    assert scores(sheet, stream)[2] == pytest.approx(0.5 * scores(sheet, stream)[0])
