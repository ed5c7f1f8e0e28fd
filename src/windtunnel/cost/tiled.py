"""What a tiled product reads from memory, where the last-level cache cannot keep an operand between its uses."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.specs.device import DeviceSpec

_STEPS = 64


def missed(footprint: Floats) -> Floats:
    """Share of a cyclic read that misses in a cache that evicts at random, `footprint` times as large as the cache.

    A line is gone when it is used again with probability `1 − exp(−x · missed)`, as every miss evicts one line of the
    cache; the share is the one that agrees with itself. It is 0 as long as everything fits.

    Source: balance of misses and evictions over one period. Valid for: caches whose sets are hashed and shared by many
    units, which see no strict order; least recent use with a strict order would miss always from 1 on.
    """
    share = np.ones_like(footprint)
    for _ in range(_STEPS):
        share = 1.0 - np.exp(-footprint * share)
    return np.asarray(np.where(footprint > 1.0, share, 0.0))


def operand_reads(
    device: DeviceSpec,
    m: Floats,
    n: Floats,
    k: Floats,
    operand_bytes: Floats,
    output_bytes: Floats,
    *,
    output_cached: bool = True,
) -> Floats:
    """Bytes of both operands that a product reads from memory; each once unless the device counts `rereads`.

    Tiles run row by row, as many at once as there are units. The operand of a row is read once; the other one is needed
    again for each row of tiles. Between two uses the cache sees all of it, the rows' own operand and, where outputs are
    kept as well (`output_cached`), their outputs. Of both orders the one that reads less counts.

    Source: the traffic of blocked products by cache size (Lam, Rothberg & Wolf 1991; Goto & van de Geijn 2008).
    Valid for: one product at a time. Error: not measured here, an option of simulated devices.
    """
    once = operand_bytes * (m * k + k * n)
    if not device.rereads or not device.l2_bytes:
        return np.asarray(once)
    rows, columns = max(device.gemm_tiles, key=lambda tile: tile[0] * tile[1])
    more: list[Floats] = []
    for long, across, height, width in ((m, n, rows, columns), (n, m, columns, rows)):
        tiles, beside = np.ceil(long / height), np.ceil(across / width)
        together = np.clip(device.num_sms / beside, 1.0, tiles)
        again = operand_bytes * k * across
        kept = output_bytes * across if output_cached else 0.0
        footprint = again + together * height * (operand_bytes * k + kept)
        more.append((tiles / together - 1.0) * again * missed(footprint / device.l2_bytes))
    return np.asarray(once + np.minimum(*more))
