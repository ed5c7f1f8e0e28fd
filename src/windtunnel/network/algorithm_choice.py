"""Which algorithm and protocol the communication library takes, by its own clock (not by ours)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from windtunnel.arrays import Floats, Mask
from windtunnel.network import nccl
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.network.groups import GroupPlacement
from windtunnel.specs.cluster import ClusterSpec

PROTOCOL_RATE = {"ll": 0.5, "ll128": 0.92, "simple": 1.0}
"""Payload over wire bytes (NCCL: 4 of 8 bytes; 120 of 128 less flags; all)."""
ALGORITHM_RATE = {"tree": 0.92, "pat": nccl.PAT_RATE}
"""Further part of the rate that an algorithm reaches (NCCL tuner)."""

Choice = tuple[str, str, Mask]
"""Algorithm, protocol, where it is taken."""
Selector = Callable[[str, Floats, GroupPlacement, ClusterSpec, NetworkCoefficients], list[Choice]]


def _from_table(entries: list[nccl.Entry]) -> list[Choice]:
    shape = entries[0].time_s.shape
    if shape == ():
        best = min(entries, key=lambda e: float(e.time_s))
        return [(best.algorithm, best.protocol, np.ones((), dtype=bool))]
    pick = np.argmin(np.stack([e.time_s for e in entries]), axis=0)
    return [(e.algorithm, e.protocol, pick == i) for i, e in enumerate(entries) if np.any(pick == i)]


def select_nccl(
    op: str, nbytes: Floats, place: GroupPlacement, cluster: ClusterSpec, coefficients: NetworkCoefficients
) -> list[Choice]:
    """NCCL's table; ring, tree, NVLS and NVLSTree as far as the network has them."""
    return _from_table(nccl.table(op, nbytes, place, cluster, coefficients))


def select_rings(
    op: str, nbytes: Floats, place: GroupPlacement, cluster: ClusterSpec, coefficients: NetworkCoefficients
) -> list[Choice]:
    """RCCL, oneCCL and others: rings and trees by the same clock, no in-switch reduction, no 128-byte lines."""
    entries = nccl.table(op, nbytes, place, cluster, coefficients)
    return _from_table([e for e in entries if e.algorithm in ("ring", "tree") and e.protocol != "ll128"])


def select_gloo(
    op: str, nbytes: Floats, place: GroupPlacement, cluster: ClusterSpec, coefficients: NetworkCoefficients
) -> list[Choice]:
    """Gloo has one algorithm an operation."""
    return [("gloo", "simple", np.ones(np.broadcast_shapes(nbytes.shape, place.size.shape), dtype=bool))]


SELECTORS: dict[str, Selector] = {
    "gloo": select_gloo,
    "nccl": select_nccl,
    "nccl_nvls_off": lambda op, s, p, c, k: _from_table(
        [e for e in nccl.table(op, s, p, c, k) if not e.algorithm.startswith("nvls")]
    ),
    "nccl_2.18": lambda op, s, p, c, k: _from_table([e for e in nccl.table(op, s, p, c, k) if e.algorithm != "pat"]),
    "nccl_2.12": lambda op, s, p, c, k: _from_table(
        [e for e in nccl.table(op, s, p, c, k) if e.algorithm in ("ring", "tree")]
    ),
    "rccl": select_rings,
    "oneccl": select_rings,
    "hccl": select_rings,
    "generic": select_rings,
    "mscclpp": select_nccl,
    "nvrar": select_nccl,
}
"""By name of the communication library; `nccl_2.18`: before PAT (2.23), `nccl_2.12`: before NVLS (2.17). `mscclpp` and
`nvrar`: what they stand in for, see `OVER`."""
OVER: dict[str, tuple[str, ...]] = {
    "mscclpp": ("put_one_shot", "put_two_shot", "put_hierarchical", "put_switch"),
    "nvrar": ("nvrar",),
}
"""Algorithms that a library adds to the vendor's, taken where they are sooner by our clock (their tuner measures)."""


def choices(
    op: str,
    nbytes: Floats,
    place: GroupPlacement,
    cluster: ClusterSpec,
    coefficients: NetworkCoefficients,
    software: str,
) -> list[Choice]:
    """(algorithm, protocol, where it is taken); the masks are disjoint and complete.

    Raises:
        ValueError: unknown software.
    """
    if cluster.scale_up.topology == "torus":
        shape = np.broadcast_shapes(nbytes.shape, place.size.shape)
        return [("torus", "simple", np.ones(shape, dtype=bool))]
    if software not in SELECTORS:
        raise ValueError(f"software = {software}: one of {', '.join(SELECTORS)}")
    return SELECTORS[software](op, nbytes, place, cluster, coefficients)
