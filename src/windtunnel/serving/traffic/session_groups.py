"""Which requests continue each other, by what their prompts share."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Int32s
from windtunnel.importers.traces.record import PrefixBlocks


def continued(blocks: PrefixBlocks, input_tokens: Int32s) -> Int32s:
    """(R,) groups: a request joins the last one whose whole prompt, save an unfilled block, its own prompt begins with.

    Prompts that end in a block they did not bring along (a system prompt alone) start no group that others join.
    """
    groups = np.arange(len(blocks), dtype=np.int32)
    seen = np.zeros(int(blocks.ids.max(initial=-1)) + 1, np.bool_)
    ends: dict[int, int] = {}
    full = input_tokens // blocks.block_size
    for request in range(len(blocks)):
        ids = blocks[request]
        for one in reversed(ids.tolist()):
            if one in ends:
                groups[request] = ends[one]
                break
        last = min(int(full[request]), len(ids)) - 1
        if last >= 0 and not seen[ids[last]]:
            ends[int(ids[last])] = int(groups[request])
        seen[ids] = True
    return groups
