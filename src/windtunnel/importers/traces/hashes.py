"""Hashes of prompt blocks, as some traces have them, made into `PrefixBlocks`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.importers.traces.reading import Source
from windtunnel.importers.traces.record import PrefixBlocks

_SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)


def blocks_of(
    source: Source, hashes: Sequence[Sequence[Any]], inputs: Ints, lines: Sequence[int], own_size: int
) -> PrefixBlocks | None:
    """Blocks of all prompts.

    Args:
        source: takes the lines that do not fit.
        hashes: of each request, from the start of its prompt.
        inputs: (R,) tokens of the prompts.
        lines: of each request.
        own_size: tokens of a block by the format's own definition.

    Raises:
        BadInput: the block size is not the format's; asks for it in one line.
    """
    counts = np.array([len(ids) for ids in hashes], np.int64)
    if not counts.any():
        return None
    size = source.options.block_size or own_size
    wrong = _misfits(counts, inputs, size)
    if wrong.any() and source.options.block_size is None:
        fitting = [other for other in _SIZES if not _misfits(counts, inputs, other).any()]
        if fitting:
            at = int(np.flatnonzero(wrong)[0])
            raise source.ask(
                "block_size",
                f"is required: {size}, this format's, does not fit line {lines[at]} ({inputs[at]} tokens, {counts[at]} "
                f"hash_ids); all lines fit {' or '.join(map(str, fitting))}",
            )
    for i in np.flatnonzero(wrong).tolist():
        full, rest = divmod(int(inputs[i]), size)
        few = f"{full} or {full + 1}" if rest else f"{full}"
        rule = f"must be {few} hash_ids for {inputs[i]} tokens in blocks of {size}, or none"
        source.bad(lines[i], "hash_ids", rule, f"{counts[i]} of them")
    start = np.concatenate(([0], counts.cumsum()))
    return PrefixBlocks(start, _chained(hashes, start), size)


def _misfits(counts: Ints, inputs: Ints, size: int) -> Any:
    """Requests whose blocks are neither all of the prompt's nor all but the last, unfilled one."""
    return (counts > 0) & (counts != -(-inputs // size)) & (counts != inputs // size)


def _chained(hashes: Sequence[Sequence[Any]], start: Ints) -> Ints:
    """Ids such that equal ids mean equal prefixes, numbered by first appearance.

    Mooncake's hashes include the blocks before; others (aiperf's synthetic ones) name a block's own content.
    """
    flat = list(chain.from_iterable(hashes))
    seen: dict[Any, int] = {}
    values = np.fromiter((seen.setdefault(one, len(seen)) for one in flat), np.int64, len(flat))
    before = np.concatenate(([-1], values[:-1])) if len(values) else values
    before[start[:-1][np.diff(start) > 0]] = -1
    pairs = np.sort((before + 1) * (len(seen) + 1) + values)
    if np.count_nonzero(np.diff(pairs)) + 1 <= len(seen):
        return values
    known: dict[tuple[int, int], int] = {}  # some block follows different ones: make the chain ourselves
    made = np.empty_like(values)
    for i, (ahead, own) in enumerate(zip(before.tolist(), values.tolist(), strict=True)):
        made[i] = known.setdefault((-1 if ahead < 0 else int(made[i - 1]), own), len(known))
    return made


def hash_list(source: Source, line: int, value: Any) -> list[Any]:
    """`hash_ids` of a line: numbers or names; nothing where there are none, or where they are wrong."""
    if not value:
        return []
    if isinstance(value, list) and set(map(type, value)) <= {int, str}:
        return value
    source.bad(line, "hash_ids", "must be a list of numbers or names", value)
    return []
