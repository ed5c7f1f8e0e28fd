"""Exchanges of routed tokens on a mesh of dies: experts by number against experts by forecast."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from windtunnel import api
from windtunnel.arrays import Floats
from windtunnel.cost.expert_load import drawn
from windtunnel.cost.expert_mesh import ExpertMesh, distances, nearest, sent, spread
from windtunnel.cost.expert_placement import by_number
from windtunnel.network.topology import TorusGraph
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "moe-data-movement")
fixed = EXPERIMENT.fixed
SENT, RETURNED = 1.0, 2.0
"""Bytes of a value on the way to its expert and back (DeepSeek-V3, arXiv 2412.19437, section 3.2)."""


def exchange_s(mesh: ExpertMesh, rows: Floats, held: Floats, hidden: int) -> float:
    """Seconds of rows to the nearest of their experts and back."""
    traffic = sent(rows, nearest(held, distances(mesh)))
    i, j = np.nonzero((traffic > 0) & ~np.eye(len(traffic), dtype=bool))
    graph = TorusGraph(mesh.shape, fixed("link_bytes_per_s"), wraps=mesh.wraps)
    return sum(
        api.simulate_flows(
            graph.routes(a, b), graph.capacity, traffic[i, j] * hidden * width, tolerance=fixed("tolerance")
        ).makespan_s
        for a, b, width in ((i, j, SENT), (j, i, RETURNED))
    )


@lru_cache(maxsize=64)
def _gain(model: str, side: int, popularity: float, copies: int, tokens: int, history: int) -> float:
    shape, rng = fixed(model), np.random.default_rng(fixed("seed"))
    experts, dies = shape["experts"], side * side
    mesh = ExpertMesh((side, side), wraps=False)
    numbered = np.zeros((dies, experts))
    numbered[by_number(experts, dies), np.arange(experts)] = 1.0
    before, after = 0.0, 0.0
    for _ in range(fixed("layers")):
        chance = rng.permutation(drawn(experts, shape["topk"], popularity))
        seen = rng.binomial(tokens * dies * history, chance).astype(np.float64)
        rows = rng.binomial(tokens, chance, (dies, experts)).astype(np.float64)
        before += exchange_s(mesh, rows, numbered, shape["hidden"])
        placed = spread(seen, dies, copies * dies, distances(mesh))
        after += exchange_s(mesh, rows, placed, shape["hidden"])
    return before / after


def gain(values: Values, model: str) -> float:
    """Exchange with experts by number over that with experts by forecast."""
    names = ("side", f"popularity_{model}", "copies", "tokens", "history")
    return _gain(model, *(values[name] for name in names))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {"deepseek": lambda values: gain(values, "deepseek"), "qwen": lambda values: gain(values, "qwen")}
