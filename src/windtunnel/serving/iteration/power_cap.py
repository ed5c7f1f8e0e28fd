"""Iterations under a power cap: the clock that keeps each below the cap, and what it makes of their time.

A cap slows what waits for the matrix units, never memory or links: decode steps keep their time under caps that make
prompts wait. For each number of tokens the clock is the largest whose iteration draws no more than the cap. A locked
clock (`cluster.clock_share`) is the largest that there is, in decode steps too: their time stays, their watts fall.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.clock import LEAST_CLOCK
from windtunnel.cost.serving import ServingCoefficients
from windtunnel.cost.serving_power import PowerCoefficients, Use, power_coefficients, slowed, watts
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.serving.iteration.iteration_model import IterationModel, iteration_model
from windtunnel.serving.results.power import WorkTable, work_table
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec

CLOCKS = np.geomspace(1.0, LEAST_CLOCK, 9)
"""Clocks that an iteration is priced at; between them watts and seconds are interpolated."""


@dataclass(frozen=True, slots=True)
class PowerCap:
    """One instance under its cluster's power cap; without a cap that binds, as it would be anyway."""

    iteration: IterationModel
    work: WorkTable
    clocks: Floats
    """(G,): of iterations by their tokens, over the clock without a cap."""
    within: bool
    """Whether the cap can be kept; otherwise the least clock still draws more."""

    def clock(self, tokens: float) -> float:
        """Clock of an iteration."""
        return float(np.interp(tokens, self.work.tokens, self.clocks))


def with_power_cap(
    model: ModelSpec,
    cluster: ClusterSpec,
    shape: Shape,
    coefficients: ServingCoefficients,
    *,
    most_tokens: int,
    expert_skew: float = 0.85,
    cuda_graphs: bool = True,
    power: PowerCoefficients | None = None,
) -> PowerCap:
    """The iteration model of one instance, slowed where the cluster's power cap asks for it.

    Args:
        model: what is served.
        cluster: where; its `power_cap_w` counts.
        shape: axes and formats of the instance.
        coefficients: of the engine on the device.
        most_tokens: largest number of tokens that an iteration may compute.
        expert_skew: as in the scenario.
        cuda_graphs: whether decode iterations run captured graphs.
        power: shares of the board's power; absent: the device's.
    """

    def priced(clock: float) -> tuple[IterationModel, WorkTable]:
        made = iteration_model(
            model,
            cluster,
            shape,
            slowed(coefficients, clock),
            most_tokens=most_tokens,
            expert_skew=expert_skew,
            cuda_graphs=cuda_graphs,
        )
        return made, work_table(model, cluster, shape, made, expert_skew)

    first, work = priced(1.0)
    device, cap, lock = cluster.device, cluster.power_cap_w, cluster.clock_share or 1.0
    if not device.tdp_w or cap is None or cap >= device.tdp_w:
        if lock < 1.0:
            first, work = priced(lock)
        return PowerCap(first, work, np.full(len(work.tokens), lock), within=True)
    shares = power or power_coefficients(device)
    grid = [(first, work)] + [priced(float(f)) for f in CLOCKS[1:]]
    drawn = np.array([_watts(device, shares, m, w, float(f)) for f, (m, w) in zip(CLOCKS, grid, strict=True)])
    clocks = np.minimum([_largest(column, cap) for column in drawn.T], lock)
    pick = np.stack([m.linear.seconds for m, _ in grid]), np.stack([w.kernel_s for _, w in grid])
    seconds, kernel = (np.array([_between(x[:, i], f) for i, f in enumerate(clocks)]) for x in pick)
    # Attention of prompts runs at the clock of full iterations, that of decode steps at the clock of small ones.
    full, small = float(clocks[-1]), float(clocks[len(clocks) // 2])
    slow, calm = (slowed(coefficients, f) for f in (full, small))
    at_full = iteration_model(model, cluster, shape, slow, most_tokens=8, cuda_graphs=cuda_graphs)
    at_small = iteration_model(model, cluster, shape, calm, most_tokens=8, cuda_graphs=cuda_graphs)
    share = [np.stack([m.linear.parts[k] / m.linear.seconds for m, _ in grid]) for k in first.linear.parts]
    parts = {
        k: seconds * np.array([_between(x[:, i], f) for i, f in enumerate(clocks)])
        for k, x in zip(first.linear.parts, share, strict=True)
    }
    iteration = replace(
        first,
        linear=replace(first.linear, seconds=seconds, parts=parts),
        prefill_pair_s=at_full.prefill_pair_s,
        prefill_token_s=at_full.prefill_token_s,
        decode_kv_s=at_small.decode_kv_s,
        window_kv_s=at_small.window_kv_s,
        coefficients=slow,
    )
    return PowerCap(iteration, replace(work, kernel_s=kernel), clocks, within=bool((drawn[-1] <= cap).all()))


def _watts(device: DeviceSpec, shares: PowerCoefficients, m: IterationModel, work: WorkTable, clock: float) -> Floats:
    """Watts of iterations without attention at each number of tokens, without the cap."""
    t = np.maximum(m.linear.seconds + m.base_s, work.kernel_s)
    rows = zip(work.kernel_s / t, np.minimum(work.matrix_s / t, 1.0), work.hbm_bytes / t, strict=True)
    return np.array([watts(device, shares, Use(float(k), 0.0, float(x), float(b)), None, clock) for k, x, b in rows])


def _largest(drawn: Floats, cap: float) -> float:
    """The largest clock that draws no more than the cap; watts fall with the clock."""
    if drawn[0] <= cap:
        return 1.0
    return float(np.interp(cap, drawn[::-1], CLOCKS[::-1]))


def _between(values: Floats, clock: float) -> float:
    """Seconds at a clock: even in its inverse between two priced ones."""
    return float(np.interp(1.0 / clock, 1.0 / CLOCKS, values))
