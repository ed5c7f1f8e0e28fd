"""INTELLECT-1: DiLoCo with rounds of 100 steps and a ring all-reduce in eight bits over the public internet.

Partial sums are decoded, added in full precision and encoded again at every hop of the ring.

Source: Jaghouar et al. 2024 (arXiv 2412.01152)
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from windtunnel.learning.algorithms import ALGORITHMS, diloco
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind

EIGHT_BITS = {"quantised": {"bits": 8, "rounding": "nearest", "scale": "max", "block": 0}}

_WIRE = parts.wire_knobs(compressor=EIGHT_BITS)

ALGORITHMS.add(
    "intellect-1",
    AlgorithmKind(
        id="intellect-1",
        summary="DiLoCo with a ring all-reduce that carries eight bits",
        build=partial(diloco.build, id="intellect-1"),
        knobs={**diloco.KNOBS, **_WIRE, "via": replace(_WIRE["via"], default="ring")},
        family="low-comm",
        source="Jaghouar et al. 2024 (arXiv 2412.01152)",
    ),
)
