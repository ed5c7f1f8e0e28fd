"""Requests put in the order of their arrival."""

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.importers.traces.reading import Source
from windtunnel.importers.traces.record import PrefixBlocks, RequestTrace


def by_arrival(
    source: Source,
    arrival_s: Floats,
    inputs: Ints,
    outputs: Ints,
    *,
    session: Ints | None = None,
    blocks: PrefixBlocks | None = None,
    ttft_s: Floats | None = None,
    e2e_s: Floats | None = None,
) -> RequestTrace:
    """A trace of requests that are each sent at their own time, sorted by it; the first is sent at 0 s.

    Args:
        source: file that the requests come from, with what was assumed and left out.
        arrival_s: when each request was sent, shape (requests,), as all other columns.
        inputs: tokens of its prompt.
        outputs: tokens of its answer.
        session: number of the conversation that it belongs to.
        blocks: hashes of its prompt's blocks.
        ttft_s: measured time to first token.
        e2e_s: measured time to the last token.
    """
    order = np.argsort(arrival_s, kind="stable")

    def sorted_(values: Any) -> Any:
        return None if values is None else values[order]

    if blocks is not None and (np.diff(order) != 1).any():
        counts = np.diff(blocks.start)[order]
        start = np.concatenate(([0], counts.cumsum()))
        ids = np.concatenate([blocks[int(i)] for i in order]) if len(order) else blocks.ids
        blocks = PrefixBlocks(start, ids, blocks.block_size)
    times = arrival_s[order]
    return RequestTrace(
        file=str(source.path),
        format=source.format,
        input_tokens=inputs[order].astype(np.int32),
        output_tokens=outputs[order].astype(np.int32),
        arrival_s=times - times[0] if len(times) else times,
        session=sorted_(session),
        blocks=blocks,
        ttft_s=sorted_(ttft_s),
        e2e_s=sorted_(e2e_s),
        assumed=tuple(source.assumed),
        left_out=tuple(source.left_out),
    )
