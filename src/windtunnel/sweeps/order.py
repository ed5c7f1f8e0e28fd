"""In what order cells are computed: neighbours that share prices together, blocks of them spread over the sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from windtunnel.commands import in_sweeps
from windtunnel.sweeps.definition import Definition
from windtunnel.sweeps.executors import Task

GOLDEN = (5.0**0.5 - 1.0) / 2.0
FAIR = 120
"""Blocks that a sweep is cut into at least, so that those done first stand for the rest."""


def block_size(definition: Definition) -> int:
    """Neighbouring cells that are computed together.

    They differ in the last axes alone, whole axes where possible, so that a block has what its cells share to itself.
    """
    draws = max(1, definition.draws)
    most = min(in_sweeps(definition.verb).together, len(definition) // FAIR)
    size = draws
    for axis in reversed(definition.axes):
        count = len(axis.values)
        if size * count > most:
            part = max((n for n in range(1, count + 1) if count % n == 0 and size * n <= most), default=1)
            return size * part
        size *= count
    return size


def in_mixed_order(tasks: Sequence[Task], definition: Definition) -> list[Task]:
    """Tasks in blocks of neighbours, the blocks in an order that spreads over all axes from the first on.

    Blocks are sorted by the fraction of their number times the golden ratio. Those with a fraction below any limit are
    spread evenly over all numbers, and over each remainder of them, which is each value of each axis (Weyl 1916; the
    golden ratio spreads best). What is done is then a fairer sample of all than a random one, so that the pace and the
    first figures stand for the rest.

    Args:
        tasks: In the order of the cells; `number` says which cell of the sweep each is.
        definition: Of the sweep.
    """
    size = block_size(definition)
    blocks: dict[int, list[Task]] = {}
    for task in tasks:
        block = task.number // size
        blocks.setdefault(block, []).append(replace(task, block=block))
    return [task for block in sorted(blocks, key=lambda b: b * GOLDEN % 1.0) for task in blocks[block]]
