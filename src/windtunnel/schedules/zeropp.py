"""ZeroPP: micro-batches in scheduling units; inside one, chunk after chunk, weight gradients where a stage would wait.

All micro-batches of a unit pass a chunk before the next chunk begins, forward and then backward, so that sharded
parameters are gathered once a chunk and unit instead of once a micro-batch. Larger units have fewer bubbles and gathers
and hold more activations.

Source: Tang et al. 2024, https://arxiv.org/abs/2402.03791 (card `zeropp`): scheduling units, split backward, weight
gradients in the bubbles. Where exactly a weight gradient runs is
our own rule (`building_block.place_weights`).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from windtunnel.schedules.arrange import unit_costs
from windtunnel.schedules.building_block import best_block
from windtunnel.schedules.order import looped_placement, table, weave
from windtunnel.schedules.spec import ScheduleSpec
from windtunnel.schedules.table import B, InstructionTable, ScheduleCosts, ScheduleLimits, W


def units(p: int, m: int, limits: ScheduleLimits | None = None) -> int:
    """Scheduling units of a step: as few as fit the limit; without one so many that each has 2p − 1 micro-batches."""
    if limits is not None and limits.max_live is not None:
        return -(-m // max(min(int(limits.max_live.min()), m), 1))
    return max(m // (2 * p - 1), 1)


def blocks(p: int, m: int, v: int, number: int) -> InstructionTable:
    """Units one after the other, each closed by its weight gradients.

    Backwards begin while forwards of the last chunk still run, as under 1F1B: the first stage has its first gradient
    2 (p − 1) passes after it sent the micro-batch on, which the other 2p − 2 of a unit fill.
    """
    edges = [i * m // number for i in range(number + 1)]
    s = np.arange(p)
    kinds, micro_batches, chunks = [], [], []
    for first, end in pairwise(edges):
        n = end - first
        kind, ordinal = weave(n * v, (v - 1) * n + np.minimum(2 * (p - 1 - s), n))
        position = ordinal // n
        closing = np.broadcast_to(np.arange(n * v), (p, n * v))
        kinds.append(np.concatenate([kind, np.full((p, n * v), W, np.int8)], axis=1))
        micro_batches.append(np.concatenate([first + ordinal % n, first + closing % n], axis=1))
        chunk = np.where(kind == B, v - 1 - position, position)
        chunks.append(np.concatenate([chunk, v - 1 - closing // n], axis=1))
    columns = (np.concatenate(x, axis=1) for x in (kinds, micro_batches, chunks))
    kind, micro_batch, chunk = columns
    return table(
        SCHEDULE.id, m, v, kind, micro_batch.astype(np.int32), chunk.astype(np.int32), looped_placement(p, v), True
    )


def construct(p: int, m: int, v: int, costs: ScheduleCosts | None, limits: ScheduleLimits | None) -> InstructionTable:
    """The units, weight gradients moved into gaps as far as the activations of one unit allow."""
    number = units(p, m, limits)
    given = limits or ScheduleLimits()
    known = costs if costs is not None else unit_costs(p, v)
    return best_block(blocks(p, m, v, number), known, np.full(p, float(-(-m // number))), given.kept_after_backward)


SCHEDULE = ScheduleSpec(
    id="zeropp",
    title="ZeroPP",
    source="Tang et al. 2024, ZeroPP, https://arxiv.org/abs/2402.03791",
    construct=construct,
    check=lambda p, m, v: None,
    split_backward=True,
    uses_costs=True,
)
