"""Iterations under a power cap: the clock that keeps each below the cap, and what it makes of their time.

A cap slows what waits for the matrix units, never memory or links: decode steps keep their time under caps that make
prompts wait. For each number of tokens the clock is the largest whose iteration draws no more than the cap. A locked
clock (`cluster.clock_share`) is the largest that there is, in decode steps too: their time stays, their watts fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.clock import LEAST_CLOCK
from windtunnel.cost.serving_power import PowerCoefficients, Use, power_coefficients, slowed, watts
from windtunnel.serving.iteration.attention import attention_costs
from windtunnel.serving.iteration.iteration_model import IterationModel, iteration_model
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.serving.iteration.power_work import WorkTable, work_table
from windtunnel.specs.device import DeviceSpec

CLOCKS = np.geomspace(1.0, LEAST_CLOCK, 9)
"""Clocks that an iteration is priced at; between them watts and seconds are interpolated."""


@dataclass(frozen=True, slots=True)
class PowerCap:
    """One instance under its cluster's power cap; where no cap binds, the instance as it is without one."""

    iteration: IterationModel
    work: WorkTable
    clocks: Floats
    """(G,) clock of iterations by their tokens, over the clock without a cap."""
    within: bool
    """Whether the cap can be kept; otherwise the least clock still draws more."""

    def clock(self, tokens: float) -> float:
        """Return the clock of an iteration that computes `tokens`."""
        return float(np.interp(tokens, self.work.tokens, self.clocks))


Priced = tuple[IterationModel, WorkTable]


def with_power_cap(
    layers: Layers, *, most_tokens: int, cuda_graphs: bool = True, power: PowerCoefficients | None = None
) -> PowerCap:
    """Build the iteration model of one instance, slowed where its cluster's power cap or locked clock asks for it.

    Args:
        layers: layers of the instance, under the engine's coefficients on the device.
        most_tokens: largest number of tokens that an iteration may compute.
        cuda_graphs: whether decode iterations run captured graphs.
        power: shares of the board's power; absent: the device's.
    """

    def priced(clock: float) -> Priced:
        made = iteration_model(layers.under(slowed(layers.c, clock)), most_tokens=most_tokens, cuda_graphs=cuda_graphs)
        return made, work_table(layers, made)

    cluster, device = layers.cluster, layers.device
    cap, lock = cluster.power_cap_w, cluster.clock_share or 1.0
    first, work = priced(1.0)
    if not device.tdp_w or cap is None or cap >= device.tdp_w:
        if lock < 1.0:
            first, work = priced(lock)
        return PowerCap(first, work, np.full(len(work.tokens), lock), within=True)
    shares = power or power_coefficients(device)
    grid = [(first, work)] + [priced(float(f)) for f in CLOCKS[1:]]
    drawn = np.array([_watts(device, shares, m, w, float(f)) for f, (m, w) in zip(CLOCKS, grid, strict=True)])
    clocks = np.minimum([_largest(column, cap) for column in drawn.T], lock)
    iteration, kernel_s = _at_clocks(layers, grid, clocks)
    return PowerCap(iteration, replace(work, kernel_s=kernel_s), clocks, within=bool((drawn[-1] <= cap).all()))


def _at_clocks(layers: Layers, grid: Sequence[Priced], clocks: Floats) -> tuple[IterationModel, Floats]:
    """Interpolate an iteration model and its kernel seconds between the priced clocks.

    Attention of prompts runs at the clock of full iterations, that of decode steps at the clock of small ones.

    Args:
        layers: layers of the instance without a cap.
        grid: the instance at each of `CLOCKS`.
        clocks: (G,) clock of iterations by their tokens.
    """

    def at(columns: list[Floats]) -> Floats:
        values = np.stack(columns)
        return np.array([_between(values[:, i], f) for i, f in enumerate(clocks)])

    first = grid[0][0]
    seconds, kernel_s = at([m.linear.seconds for m, _ in grid]), at([w.kernel_s for _, w in grid])
    parts = {k: seconds * at([m.linear.parts[k] / m.linear.seconds for m, _ in grid]) for k in first.linear.parts}
    at_full, at_small = (slowed(layers.c, float(f)) for f in (clocks[-1], clocks[len(clocks) // 2]))
    prompts, decode = (attention_costs(layers.model, layers.device, layers.shape, c) for c in (at_full, at_small))
    iteration = replace(
        first,
        linear=replace(first.linear, seconds=seconds, parts=parts),
        prefill_pair_s=prompts.prompt_pair_s,
        prefill_token_s=prompts.windowed_token_s,
        decode_kv_s=decode.decode_kv_s,
        window_kv_s=decode.decode_window_s,
        coefficients=at_full,
    )
    return iteration, kernel_s


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
