"""Which algorithm and protocol the communication library takes, by its own clock (not by ours)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from windtunnel.network.groups import GroupPlacement
from windtunnel.specs.cluster import ClusterSpec

Floats = npt.NDArray[np.float64]
PROTOCOL_RATE = {"ll": 0.5, "ll128": 0.92, "simple": 1.0}
"""Payload over wire bytes (NCCL: 4 of 8 bytes; 120 of 128 less flags; all)."""

Choice = tuple[str, str, npt.NDArray[np.bool_]]


def choices(op: str, nbytes: Floats, place: GroupPlacement, cluster: ClusterSpec, software: str) -> list[Choice]:
    """(algorithm, protocol, where it is taken), masks disjoint and complete."""
    shape = np.broadcast_shapes(nbytes.shape, place.size.shape)
    everywhere = np.ones(shape, dtype=bool)
    if cluster.scale_up.topology == "torus":
        return [("torus", "simple", everywhere)]
    small = np.broadcast_to(nbytes <= 1024**2, shape)
    nvls = np.zeros(shape, dtype=bool)
    if software == "nccl" and op == "all_reduce" and cluster.scale_up.in_network_reduction:
        nvls = np.broadcast_to((place.num_domains == 1) & (place.size >= 5), shape) & ~small
    picks: list[Choice] = [("ring", "ll", small), ("nvls", "simple", nvls), ("ring", "simple", ~small & ~nvls)]
    return [pick for pick in picks if pick[2].any()]
