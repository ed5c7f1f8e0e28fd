"""Bandwidth for a share of the time computing: data parallelism, DiLoCo, and its fragments, overlaps and four bits."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

from windtunnel.learning.timing.bandwidth import bandwidth_for
from windtunnel.learning.timing.on_target import messages_on_target
from windtunnel.learning.timing.schedule import read_schedule
from windtunnel.learning.timing.target import Target, stated_layers
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "diloco-bandwidth")
fixed = EXPERIMENT.fixed
ROUNDS = 20
FRAGMENT_LAYERS = 3
GRID = [10 ** (-1 + 4 * k / 49) for k in range(50)]
"""Gbit/s that printed values lie on."""
STEP = math.log(GRID[1] / GRID[0])


def algorithm_of(method: str, layers: int) -> tuple[str, dict[str, Any], int]:
    """(id, knobs, steps of a round) of a method of the tables."""
    if method == "dp":
        return "data_parallel", {"bits": 16}, 1
    knobs: dict[str, Any] = {"layerwise": True, "bits": 16, "period": 100}
    if method[0] == "H":
        return "diloco", knobs | {"period": int(method[1:])}, int(method[1:])
    if method == "diloco":
        return "diloco", knobs, 100
    knobs["fragments"] = layers // FRAGMENT_LAYERS
    four_bits = {"compressor": "float4"}
    match method.split():
        case ["streaming"]:
            return "diloco", knobs, 100
        case ["overlap"]:
            return "diloco", knobs | {"late": 1}, 100
        case ["fp4"]:
            return "diloco", knobs | {"late": 1} | four_bits, 100
        case [behind, _, h]:
            period = int(h[1:])
            late = {"inner": 1, "outer": period}[behind]
            return "diloco", knobs | {"period": period, "late": late} | four_bits, period
    raise ValueError(f"method = {method}: not in the tables")


@cache
def needed_gbit(row: str, in_layers: float) -> tuple[float, ...]:
    """Gbit/s for each utilisation of the tables."""
    r = fixed("rows")[row]
    target = Target(step_s=r["step_s"], layers=stated_layers(in_layers * r["parameters"], r["layers"]))
    id, knobs, period = algorithm_of(r["method"], r["layers"])
    workers, steps = fixed("workers"), ROUNDS * period
    schedule = read_schedule(messages_on_target(id, knobs, target, workers, steps), steps)
    found = [bandwidth_for(u, schedule, target, workers, steps=steps) for u in fixed("utilisation")]
    return tuple(math.inf if rate is None else rate * 8e-9 for rate in found)


def grid_steps(gbit: float, printed: float) -> float:
    """Steps of the grid to the nearest point that may have been printed so (rounded twice, halves either way)."""
    points = [g for g in GRID if abs(round(g, 2) - printed) < 0.05 + 1e-9]
    return min(abs(math.log(gbit / g)) / STEP for g in points)


def worst(row: str, values: Values) -> float:
    """Largest distance of a row."""
    found = needed_gbit(row, values["in_layers"])
    return max(grid_steps(gbit, printed) for gbit, printed in zip(found, fixed("rows")[row]["gbit"], strict=True))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {row: partial(worst, row) for row in EXPERIMENT.setting["claims"]}


def plot(results: list[ClaimResult]) -> Any:
    """Printed and simulated bandwidths of the 1B model."""
    del results
    from windtunnel_lab.reproduce.figures import beside, curve

    shares = fixed("utilisation")
    panels = {}
    for row in ("dp_1b", "diloco_1b", "streaming_1b", "fp4_1b"):
        found = dict(zip(shares, needed_gbit(row, 0.9), strict=True))
        printed = dict(zip(shares, fixed("rows")[row]["gbit"], strict=True))
        panels[row] = {"simulated": curve(shares, found.__getitem__, printed)}
    return beside(panels, "share of the time computing", "Gbit/s")
