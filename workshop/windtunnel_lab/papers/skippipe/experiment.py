"""Twenty nodes on four continents: full pipelines against paths that skip stages, from the authors' table of links."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from windtunnel.engine import simulate
from windtunnel.program.builder import ProgramBuilder
from windtunnel.schedules.paths import BACKWARD, FORWARD, Net, best_routes, scattered, serve, straight
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
Paths = list[tuple[int, ...]]


def hop_s(one_site: bool) -> Any:
    """Seconds of a message between any two nodes."""
    sites, links, nodes = EXPERIMENT.setting["sites"], EXPERIMENT.setting["links"], sum(fixed("partition"))
    out = np.zeros((nodes, nodes))
    for a in range(nodes):
        for b in range(nodes):
            here, there = sites[a % len(sites)], sites[b % len(sites)]
            ms, rate = links.get(f"{here}-{there}") or links.get(f"{there}-{here}") or fixed("same_site")
            if one_site:
                ms, rate = fixed("same_site")
            out[a, b] = ms / 1e3 + fixed("activation_bytes") / (rate * 2**30) + fixed("extra_s")
    np.fill_diagonal(out, 0.0)
    return out


@lru_cache(maxsize=64)
def net(layer_s: float, backward: float, tries: int, one_site: bool) -> Net:
    """Nodes on stages: swaps that shorten the hops of the full pipelines are kept."""
    partition = fixed("partition")
    hops = hop_s(one_site)
    rng = np.random.default_rng(fixed("seed"))
    order = rng.permutation(sum(partition))
    edges = np.cumsum([0, *partition])
    lanes = min(partition)

    def cost(order_: Any) -> float:
        stages = [order_[a:b] for a, b in pairwise(edges)]
        total = 0.0
        for lane in range(lanes):
            path = [nodes[lane] for nodes in stages]
            total += sum(float(hops[a, b]) for a, b in zip(path, [*path[1:], path[0]], strict=True))
        return total

    best = cost(order)
    for _ in range(tries):
        a, b = rng.integers(len(order), size=2)
        order[[a, b]] = order[[b, a]]
        found = cost(order)
        if found <= best:
            best = found
        else:
            order[[a, b]] = order[[b, a]]
    stages = tuple(tuple(order[a:b].tolist()) for a, b in pairwise(edges))
    forward = np.full(len(order), layer_s * fixed("layers_per_stage") * fixed("samples"))
    return Net(stages, forward, forward * backward, hops, fixed("memory"))


def engine_s(nodes: Net, paths: Paths) -> float:
    """Seconds of the served order on the engine: a node is one in-order stream, a hop a latency of its own."""
    served = serve(nodes, paths)
    builder = ProgramBuilder()
    task: dict[tuple[int, int, int], int] = {}
    for node, visits in served.by_node.items():
        stream = builder.stream(f"node{node}", rank_class=node)
        for visit in visits:
            took = nodes.backward_s if visit.kind == BACKWARD else nodes.forward_s
            first = builder.add(
                np.array([took[node]]), stream=np.array([stream]), tag="compute", rank_class=np.array([node])
            )
            task[visit.micro_batch, visit.kind, node] = int(first)
    for i, path in enumerate(paths):
        for kind, node, next_kind, target, seconds in _hops(nodes, path):
            hop = int(builder.add(np.array([seconds]), tag="pp_comm", rank_class=np.array([node])))
            builder.add_dependencies(np.array([hop]), np.array([task[i, kind, node]]))
            builder.add_dependencies(np.array([task[i, next_kind, target]]), np.array([hop]))
    return float(simulate(*builder.build()).end_s.max())


def _hops(nodes: Net, path: tuple[int, ...]) -> list[tuple[int, int, int, int, float]]:
    """(pass, node, next pass, next node, seconds) along a path, through the loss on its first node, and back."""
    there = [(FORWARD, a, FORWARD, b, nodes.hop_s[a, b]) for a, b in pairwise(path)]
    back = [(BACKWARD, b, BACKWARD, a, nodes.hop_s[b, a]) for a, b in pairwise(path)]
    last, first_node = path[-1], path[0]
    turn = nodes.hop_s[last, first_node] + nodes.hop_s[first_node, last] if last != first_node else 0.0
    return [*there, (FORWARD, last, BACKWARD, last, turn), *back]


@lru_cache(maxsize=256)
def times(layer_s: float, backward: float, tries: int, one_site: bool = False) -> dict[str, float]:
    """Seconds of an iteration: full, routed over the script's length and one less, and drawn at random."""
    nodes = net(layer_s, backward, tries, one_site)
    count, length = fixed("micro_batches"), fixed("path_length")
    drawn = [engine_s(nodes, scattered(nodes, count, length, seed)) for seed in range(5)]
    return {
        "full": engine_s(nodes, straight(nodes, count)),
        "routed": engine_s(nodes, best_routes(nodes, count, length)),
        "shorter": engine_s(nodes, best_routes(nodes, count, length - 1)),
        "drawn": float(np.median(drawn)),
    }


def of(values: Values, *, one_site: bool = False) -> dict[str, float]:
    """`times` at some values."""
    return times(values["layer_s"], values["backward"], values["placement_tries"], one_site)


def saved(found: dict[str, float]) -> float:
    """Per cent."""
    return 100 * (1 - found["routed"] / found["full"])


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "reduction": lambda v: saved(of(v)),
        "collisions": lambda v: of(v)["drawn"] / of(v)["routed"],
        "ratio": lambda v: of(v)["routed"] / of(v)["shorter"],
        "one-site": lambda v: saved(of(v, one_site=True)),
    }
