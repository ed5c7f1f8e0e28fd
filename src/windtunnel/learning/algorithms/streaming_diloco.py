"""Streaming DiLoCo: fragments in turn, merged some steps after they were sent, in few bits.

Source: Douillard et al. 2025 (arXiv 2501.18512).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from windtunnel.learning.algorithms import ALGORITHMS, diloco
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind

KNOBS = {
    **diloco.KNOBS,
    "fragments": replace(diloco.KNOBS["fragments"], default=2),
    "late": replace(diloco.KNOBS["late"], default=1),
    "local_share": replace(diloco.KNOBS["local_share"], default=0.5),
    **parts.wire_knobs(compressor="float4"),
}

ALGORITHMS.add(
    "streaming-diloco",
    AlgorithmKind(
        id="streaming-diloco",
        summary="DiLoCo whose fragments travel in turn while the workers go on, in four bits",
        build=partial(diloco.build, id="streaming-diloco"),
        knobs=KNOBS,
        family="low-comm",
        source="Douillard et al. 2025 (arXiv 2501.18512)",
        deviates="torchft (73dafea) sends a fragment before its place in the round and merges it there: `lead`",
    ),
)
